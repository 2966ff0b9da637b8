"""git_push: feature branches reach the remote of the person's repository, over SSH and HTTP; nothing else does."""
import os
import pty
import subprocess

import pytest

from forge_person import TOKEN


def main_only(person):
    assert set(person.remote_branches()) == {"refs/heads/main"}


def test_pushes_feature_branch_over_http_with_a_token_of_the_environment(person):
    server = person.over_http()
    person.configure(forges={server.authority: {"kind": "gitea"}})
    person.tools.env["GITEA_TOKEN"] = TOKEN
    commit = person.box_commits()
    done = person.tools.ok("git_push", "--allow-push")
    assert done.data == {"url": server.url("owner/repo.git"), "branch": "hutch/fix", "commit": commit, "commits": 1, "pushed": True}
    assert person.remote_branches()["refs/heads/hutch/fix"] == commit
    again = person.tools.ok("git_push", "--allow-push")
    assert again.data["pushed"] is False
    second = person.box_commits(name="more.txt")
    assert person.tools.ok("git_push", "--allow-push").data["commits"] == 1
    assert person.remote_branches()["refs/heads/hutch/fix"] == second


def test_pushes_feature_branch_over_ssh(person):
    person.over_ssh()
    commit = person.box_commits()
    done = person.tools.ok("git_push", "--allow-push")
    assert done.data["commit"] == commit and person.remote_branches()["refs/heads/hutch/fix"] == commit


def test_unconfirmed_push_sends_nothing(person):
    server = person.over_http(token=None)
    person.box_commits()
    text = person.tools.fails("git_push")
    assert "--allow-push" in text and "nothing was sent" in text
    main_only(person)
    assert not any("receive-pack" in path for _, path, *_ in server.requests)


def test_branch_without_the_prefix_is_refused(person):
    person.over_http(token=None)
    person.box_commits(branch="main")
    assert "git switch -c hutch/main" in person.tools.fails("git_push", "--allow-push")
    person.box_commits(branch="feature")
    assert "'hutch/'" in person.tools.fails("git_push", "--allow-push")
    main_only(person)


def test_default_branch_is_refused_whatever_the_prefix(user_person):
    user_person.over_http(token=None)
    user_person.configure(branch_prefix="")
    user_person.box_commits(branch="main")
    assert "default branch" in user_person.tools.fails("git_push", "--allow-push")
    main_only(user_person)


def test_prefix_is_the_persons_and_never_the_workspaces(user_person):
    user_person.over_http(token=None)
    (user_person.workspace / ".hutch").mkdir()
    user_person.box.put(".hutch/config.json", '{"branch_prefix": "any/"}')
    user_person.box_commits(branch="any/thing")
    assert "'hutch/'" in user_person.tools.fails("git_push", "--allow-push")
    user_person.configure(branch_prefix="any/")
    user_person.tools.ok("git_push", "--allow-push")
    assert "refs/heads/any/thing" in user_person.remote_branches()


def test_empty_remote_gets_no_branch_since_it_would_be_the_default(user_person):
    user_person.over_http(token=None)
    user_person.bare("owner/empty.git")
    user_person.git("remote", "add", "empty", user_person.git("remote", "get-url", "origin").replace("repo.git", "empty.git"))
    user_person.box_commits()
    assert "default" in user_person.tools.fails("git_push", "--allow-push", remote="empty")


def test_force_is_refused(person):
    person.over_http(token=None)
    person.box_commits()
    person.tools.ok("git_push", "--allow-push")
    before = person.remote_branches()
    person.sh("git commit -q --amend -m 'Fix it differently'")
    assert "never forces" in person.tools.fails("git_push", "--allow-push")
    assert person.remote_branches() == before


def test_remote_is_the_hosts_whatever_the_box_says(user_person):
    user_person.over_http(token=None)
    other = user_person.bare("owner/other.git")
    user_person.box_commits()
    user_person.sh(f"git remote set-url origin {user_person.closing[0].url('owner/other.git')}; git config remote.pushDefault origin")
    user_person.tools.ok("git_push", "--allow-push")
    assert "refs/heads/hutch/fix" in user_person.remote_branches()
    assert user_person.git("for-each-ref", cwd=other) == ""


def test_tags_and_other_branches_stay(user_person):
    user_person.over_http(token=None)
    user_person.configure()
    user_person.git("config", "--global", "push.followTags", "true")
    user_person.box_commits(branch="hutch/other")
    user_person.box_commits()
    user_person.sh("git tag -a v9 -m nine; git branch evil")
    user_person.tools.ok("git_push", "--allow-push")
    assert set(user_person.remote_branches()) == {"refs/heads/main", "refs/heads/hutch/fix"}


def test_mode_direct_is_refused_since_the_box_could_write_the_configuration(user_person):
    user_person.over_http(token=None)
    user_person.git("switch", "-q", "-c", "hutch/x")
    user_person.git("commit", "-q", "--allow-empty", "-m", "x")
    text = user_person.tools.fails("git_push", "--mode", "direct", "--allow-push")
    assert "mode direct" in text
    main_only(user_person)


def test_hostile_repository_configuration_runs_nothing_on_the_host(user_person):
    """A .git that came with a stranger's archive: what it names must not run."""
    user_person.over_http(token=None)
    mark = user_person.home / "mark"
    for key in ("core.sshCommand", "core.fsmonitor", "core.gitProxy", "credential.helper", "core.pager", "core.askPass"):
        user_person.git("config", key, f"!touch {mark}" if key == "credential.helper" else f"touch {mark}")
    user_person.git("config", "remote.origin.receivepack", f"touch {mark}; git-receive-pack")
    hook = user_person.workspace / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    user_person.sh("true") if user_person.tools.id else user_person.tools.new()
    user_person.sh("git config --unset core.fsmonitor || true")
    user_person.box_commits()
    user_person.tools.ok("git_push", "--allow-push")
    assert not mark.exists(), "BREACH a program of the repository's configuration ran on the host"


@pytest.mark.parametrize("address, word", [
    ("ext::sh -c 'touch /tmp/hutch-breach'", "url:"), ("file:///etc", "only https"), ("/srv/git/x.git", "only https"),
    ("http://example.org/a/b", "not encrypted"), ("git://example.org/a/b", "only https"), ("--upload-pack=x", "'-'"),
    ("ssh://-oProxyCommand=x/a/b", "host")])
def test_remote_addresses_that_are_not_safe_are_refused(user_person, address, word):
    user_person.git("remote", "add", "origin", "x")
    user_person.git("config", "remote.origin.url", address)
    user_person.box_commits()
    assert word in user_person.tools.fails("git_push", "--allow-push")


@pytest.mark.parametrize("branch", ["-f", "hutch/../main", "hutch/a b", "hutch/x:refs/heads/main", "+hutch/x", "hutch/x\nmain", "hutch/",
                                    "refs/heads/main", "hutch/x.lock", "hutch/\u202ex"])
def test_hostile_branch_names_are_refused(user_person, branch):
    user_person.over_http(token=None)
    user_person.box_commits()
    assert "branch:" in user_person.tools.fails("git_push", "--allow-push", branch=branch)
    main_only(user_person)


def test_wrong_token_says_which_and_what_to_do(user_person):
    server = user_person.over_http()
    user_person.configure(forges={server.authority: {"kind": "gitea"}})
    user_person.tools.env["GITEA_TOKEN"] = "wrong-token-abcdefg"
    user_person.box_commits()
    text = user_person.tools.fails("git_push", "--allow-push")
    assert "GITEA_TOKEN" in text and "write:repository" in text and "wrong-token" not in text


def test_token_goes_to_no_other_host(user_person):
    """GH_TOKEN is github.com's; a remote elsewhere does not get it, also where the configuration calls it by another kind."""
    server = user_person.over_http()
    user_person.tools.env |= {"GH_TOKEN": TOKEN, "GITHUB_TOKEN": TOKEN, "GITLAB_TOKEN": TOKEN, "GITEA_TOKEN": TOKEN}
    user_person.box_commits()
    assert "credentials" in user_person.tools.fails("git_push", "--allow-push")
    user_person.configure(forges={server.authority: {"kind": "gitea"}, "git.example.org": {"kind": "gitea"}})
    assert "credentials" in user_person.tools.fails("git_push", "--allow-push")
    assert all(not given for *_, given in server.requests)


def test_credential_helper_of_the_person_is_used(user_person):
    server = user_person.over_http()
    store = user_person.home / "store"
    store.write_text(f"http://pat:{TOKEN}@{server.authority.replace(':', '%3a')}\n")
    user_person.caller.own(store)
    user_person.git("config", "--global", "credential.helper", f"store --file {store}")
    user_person.box_commits()
    user_person.tools.ok("git_push", "--allow-push")


def test_password_in_the_remotes_url_is_used_and_never_shown(user_person):
    server = user_person.over_http()
    user_person.git("remote", "set-url", "origin", f"http://pat:{TOKEN}@{server.authority}/owner/repo.git")
    user_person.box_commits()
    done = user_person.tools.ok("git_push", "--allow-push")
    assert done.data["url"] == server.url("owner/repo.git") and TOKEN not in repr(done.data) + done.text


def test_token_as_the_user_of_the_remotes_url(user_person):
    server = user_person.over_http()
    user_person.git("remote", "set-url", "origin", f"http://{TOKEN}@{server.authority}/owner/repo.git")
    user_person.box_commits()
    done = user_person.tools.ok("git_push", "--allow-push")
    assert TOKEN not in repr(done.data) + done.text


def test_user_of_the_remotes_url_chooses_among_stored_passwords(user_person):
    server = user_person.over_http()
    store = user_person.home / "store"
    place = server.authority.replace(":", "%3a")
    store.write_text(f"http://other:wrong@{place}\nhttp://pat:{TOKEN}@{place}\n")
    user_person.caller.own(store)
    user_person.git("config", "--global", "credential.helper", f"store --file {store}")
    user_person.git("remote", "set-url", "origin", f"http://pat@{server.authority}/owner/repo.git")
    user_person.box_commits()
    user_person.tools.ok("git_push", "--allow-push")
    assert not any(given and "b3RoZXI6" in given for *_, given in server.requests), "not as another user"


def test_shorthand_of_the_persons_own_configuration_is_followed(user_person):
    server = user_person.over_http(token=None)
    user_person.git("config", "--global", f"url.http://{server.authority}/.insteadOf", "work:")
    user_person.git("remote", "set-url", "origin", "work:owner/repo.git")
    user_person.box_commits()
    assert user_person.tools.ok("git_push", "--allow-push").data["url"] == server.url("owner/repo.git")


def read_terminal(fd, until):
    """What is written to a terminal, as bytes, until that text is among it."""
    seen = b""
    while until not in seen:
        seen += os.read(fd, 4096)
    return seen


def test_commits_of_the_box_cannot_write_to_the_terminal_that_confirms(user_person):
    """What the person confirms must be what they see: no control sequence of a subject, author or file name gets through."""
    user_person.over_http(token=None)
    user_person.box_commits()
    user_person.sh("printf x >\"$(printf 'a\\033[2Kb')\"; git add -A; git -c user.name=\"$(printf 'E\\033[8mvil')\" commit -q -m"
                   " \"$(printf 'Nice\\033]0;title\\007\\033[1A \\342\\200\\256 subject')\"")
    ours, theirs = pty.openpty()
    command = [*user_person.caller.prefix, str(user_person.box.program), "tool", "--box", user_person.tools.id, "git_push"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd="/", env={**user_person.box.env, **user_person.tools.env}) as process:
        seen = read_terminal(ours, b"[y/N]")
        os.write(ours, b"n\n")
        seen += read_terminal(ours, b"said no")
        process.wait(60)
    os.close(theirs)
    os.close(ours)
    assert b"Nice" in seen and b"subject" in seen
    assert b"\x1b" not in seen and b"\x07" not in seen and "\u202e".encode() not in seen, f"BREACH {seen}"
    main_only(user_person)
