"""create_pr: the request that each forge's published description asks for, and what is said when a forge refuses."""
import pytest

from forge_person import TOKEN

KINDS = ["github", "gitlab", "gitea"]


def on_forge(person, kind, git_token=None, **settings):
    """The remote's host is a forge of this kind, whose API is another server of this machine."""
    server = person.over_http(token=git_token)
    api = person.api(kind, token=TOKEN)
    person.configure(forges={server.authority: {"kind": kind, "api": api.api, "token": "${MY_TOKEN}", **settings}})
    person.tools.env["MY_TOKEN"] = TOKEN
    return server, api


def open_pr(person, **more):
    return person.tools.ok("create_pr", "--allow-push", title="Fix the thing", body="It was broken.\n\n* now it is not", **more)


@pytest.mark.parametrize("kind", KINDS)
def test_pushes_and_opens_one_as_the_forges_schema_says(person, kind):
    server, api = on_forge(person, kind, git_token=TOKEN)
    commit = person.box_commits()
    done = open_pr(person)
    assert done.data == {"url": api.pulls[0].get("html_url") or api.pulls[0]["web_url"], "number": 1, "branch": "hutch/fix",
                         "base": "main", "existed": False, "pushed": True}
    assert person.remote_branches()["refs/heads/hutch/fix"] == commit
    (body,) = api.created()
    assert body["title"] == "Fix the thing" and "now it is not" in (body.get("body") or body["description"])
    assert (body.get("head") or body["source_branch"]) == "hutch/fix" and (body.get("base") or body["target_branch"]) == "main"
    api.check()


@pytest.mark.parametrize("kind", KINDS)
def test_existing_one_is_returned(user_person, kind):
    _, api = on_forge(user_person, kind)
    user_person.box_commits()
    first = open_pr(user_person)
    second = open_pr(user_person)
    assert second.data["existed"] is True and second.data["url"] == first.data["url"] and len(api.created()) == 1
    user_person.box_commits(branch="hutch/other")
    assert open_pr(user_person).data["number"] == 2
    api.check()


@pytest.mark.parametrize("kind, mark", [("github", None), ("gitlab", "Draft: "), ("gitea", "WIP: ")])
def test_draft(user_person, kind, mark):
    _, api = on_forge(user_person, kind)
    user_person.box_commits()
    open_pr(user_person, draft=True)
    (body,) = api.created()
    assert body["title"] == (mark or "") + "Fix the thing" and body.get("draft", mark is not None)
    api.check()


def test_base_can_be_chosen(user_person):
    _, api = on_forge(user_person, "github")
    user_person.git("push", "-q", user_person.remote, "main:release")
    user_person.box_commits()
    assert open_pr(user_person, base="release").data["base"] == "release"
    assert api.created()[0]["base"] == "release"


def test_nested_group_of_gitlab_is_one_encoded_name(user_person):
    user_person.bare("group/sub/repo.git")
    server = user_person.over_http(token=None)
    user_person.git("push", "-q", user_person.servers / "group/sub/repo.git", "main")
    user_person.git("remote", "set-url", "origin", server.url("group/sub/repo.git"))
    api = user_person.api("gitlab", repo="group/sub/repo", token=TOKEN)
    user_person.configure(forges={server.authority: {"kind": "gitlab", "api": api.api, "token": TOKEN}})
    user_person.box_commits()
    open_pr(user_person)
    assert api.requests[0]["path"].endswith("/projects/group%2Fsub%2Frepo/merge_requests")


def test_unconfirmed_sends_nothing(person):
    server, api = on_forge(person, "github")
    person.box_commits()
    assert "--allow-push" in person.tools.fails("create_pr", title="t", body="b")
    assert not api.requests and set(person.remote_branches()) == {"refs/heads/main"}


@pytest.mark.parametrize("status, answer, words", [
    (401, {"message": "Bad credentials"}, ["does not accept the token", "GITEA_TOKEN"]),
    (403, {"message": "no"}, ["forbids", "write:repository"]),
    (404, {"message": "Not Found"}, ["no such repository"]),
    (422, {"message": "Validation Failed", "errors": [{"message": "No commits between main and x"}]}, ["No commits between", "base"]),
    (429, {}, ["try again later"]), (500, {"message": "boom \x1b[31m"}, ["500", "boom"])])
def test_refusals_say_what_to_do(user_person, status, answer, words):
    _, api = on_forge(user_person, "gitea")
    user_person.box_commits()
    api.fault = (status, answer, {})
    text = user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert all(word in text for word in words) and "pushed the branch hutch/fix" in text, text
    assert TOKEN not in text and "\x1b" not in text


def test_redirection_is_not_followed_and_the_token_stays(user_person):
    _, api = on_forge(user_person, "github")
    thief = user_person.api("github", token=TOKEN)
    user_person.box_commits()
    api.fault = (302, {}, {"Location": thief.api + "/repos/owner/repo/pulls"})
    assert "redirects" in user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert not thief.requests


def test_servers_words_never_show_the_token(user_person):
    _, api = on_forge(user_person, "github")
    user_person.box_commits()
    api.fault = (403, {"message": f"your token {TOKEN} may not"}, {})
    text = user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert TOKEN not in text and "****" in text


def test_unknown_kind_of_forge_says_how_to_configure_it(user_person):
    user_person.over_http(token=None)
    user_person.box_commits()
    text = user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert '"forges"' in text and "config.json" in text
    assert set(user_person.remote_branches()) == {"refs/heads/main"}, "nothing was pushed before that was known"


def test_unencrypted_api_elsewhere_is_refused(user_person):
    server = user_person.over_http(token=None)
    user_person.configure(forges={server.authority: {"kind": "gitea", "api": "http://192.0.2.1/api/v1", "token": TOKEN}})
    user_person.git("remote", "set-url", "origin", server.url("owner/repo.git"))
    user_person.box_commits()
    assert "not encrypted" in user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")


@pytest.mark.parametrize("program, kind, text", [
    ("gh/hosts.yml", "github", "{host}:\n    oauth_token: {token}\n    user: pat\nother.example:\n    oauth_token: wrong\n"),
    ("glab-cli/config.yml", "gitlab", "git_protocol: ssh\nhosts:\n    other: {{token: wrong}}\n    {host}:\n        token: {token}\n"),
    ("tea/config.yml", "gitea", "logins:\n    - name: o\n      url: https://other\n      token: wrong\n    - name: x\n"
                                "      url: http://{host}\n      token: {token}\n")])
def test_token_and_kind_come_from_the_files_of_other_programs(user_person, program, kind, text):
    server = user_person.over_http(token=None)
    api = user_person.api(kind, token=TOKEN)
    user_person.configure()
    path = user_person.home / "config" / program
    path.parent.mkdir()
    # A key with a colon is quoted in YAML where it stands alone.
    path.write_text(text.format(host=f'"{server.authority}"' if "url:" not in text else server.authority, token=TOKEN))
    user_person.caller.own(path.parent)
    user_person.caller.own(path)
    user_person.box_commits()
    # The API is where the git server is: its answer is no API's, but it got the right token.
    user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert any(given and TOKEN in given for *_, given in server.requests)
    assert not any(given and "wrong" in given for *_, given in server.requests)
    # With the person's own word on where the API is, the same file's token opens it.
    user_person.configure(forges={server.authority: {"kind": kind, "api": api.api}})
    assert open_pr(user_person).data["number"] == 1
    api.check()


def test_token_of_gits_credential_helper(user_person):
    server = user_person.over_http(token=None)
    api = user_person.api("gitea", token=TOKEN)
    user_person.configure(forges={server.authority: {"kind": "gitea", "api": api.api}})
    store = user_person.home / "store"
    store.write_text(f"http://pat:{TOKEN}@{server.authority.replace(':', '%3a')}\n")
    user_person.caller.own(store)
    user_person.git("config", "--global", "credential.helper", f"store --file {store}")
    user_person.box_commits()
    assert open_pr(user_person).data["number"] == 1


def test_no_token_anywhere_says_where_to_put_one(user_person):
    server = user_person.over_http(token=None)
    user_person.configure(forges={server.authority: {"kind": "gitlab"}, "gitlab.example.org": {"kind": "gitlab"}})
    user_person.box_commits()
    text = user_person.tools.fails("create_pr", "--allow-push", title="t", body="b")
    assert "GITLAB_TOKEN" in text and "glab" in text


@pytest.mark.parametrize("members, word", [
    ({"title": "a\nb"}, "title:"), ({"base": "-x"}, "base:"), ({"base": "hutch/fix"}, "itself"), ({"remote": "../x"}, "remote:")])
def test_bad_input(user_person, members, word):
    _, api = on_forge(user_person, "github")
    user_person.box_commits()
    text = user_person.tools.fails("create_pr", "--allow-push", **{"title": "t", "body": "b", **members})
    assert word in text and not api.requests


def test_remote_over_ssh_has_the_api_of_its_host(user_person):
    user_person.over_ssh()
    api = user_person.api("gitea", repo="owner/repo", token=TOKEN)
    user_person.configure(forges={"127.0.0.1": {"kind": "forgejo", "api": api.api}})
    user_person.tools.env["FORGEJO_TOKEN"] = TOKEN
    user_person.box_commits()
    assert open_pr(user_person).data["number"] == 1
    api.check()
