"""git_clone: the host fetches with the person's credentials, the box unpacks; addresses are confirmed."""
import os
import signal
import subprocess
import threading

import pytest

from forge_person import TOKEN


def library(person, name="lib/tool.git", blob=b"tool\n"):
    """Another repository of the same server, with two commits, a tag and a branch."""
    remote = person.bare(name)
    work = person.caller.folder(person.box.scratch, "lib")
    person.git("init", "-q", "-b", "trunk", cwd=work)
    for i in (1, 2):
        (work / f"file{i}").write_bytes(blob)
        person.caller.own(work / f"file{i}")
        person.git("add", "-A", cwd=work)
        person.git("commit", "-q", "-m", f"commit {i}", cwd=work)
        if i == 1:
            person.git("tag", "v1", cwd=work)
    person.git("branch", "side", cwd=work)
    person.git("push", "-q", remote, "trunk", "side", "v1", cwd=work)
    person.git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=remote)
    return person.git("rev-parse", "trunk", cwd=work), person.git("rev-parse", "v1", cwd=work)


def test_clones_over_http_with_credentials_that_stay_on_the_host(person):
    server = person.over_http()
    person.configure(forges={server.authority: {"kind": "gitea", "token": TOKEN}})
    tip, _ = library(person)
    person.tools.new()
    done = person.tools.ok("git_clone", url=server.url("lib/tool.git"))
    assert done.data == {"path": "tool", "url": server.url("lib/tool.git"), "ref": "trunk", "commit": tip, "shallow": False}
    assert person.sh("cd tool; git remote get-url origin; git branch --show-current; git log --format=%s; git status -s; cat file2").splitlines() == \
        [server.url("lib/tool.git"), "trunk", "commit 2", "commit 1", "tool"]
    assert "refs/remotes/origin/side" in person.sh("cd tool; git for-each-ref") and "refs/tags/v1" in person.sh("cd tool; git for-each-ref")
    assert not person.sh(f"grep -rl {TOKEN} / --include=* 2>/dev/null --exclude-dir=proc --exclude-dir=usr --exclude-dir=sys || true").strip()


def test_clones_over_ssh(person):
    server = person.over_ssh()
    tip, _ = library(person)
    person.tools.new()
    url = server.url(person.servers / "lib/tool.git")
    assert person.tools.ok("git_clone", url=url).data["commit"] == tip


def test_ref_depth_and_path(user_person):
    server = user_person.over_http(token=None)
    tip, first = library(user_person)
    url = server.url("lib/tool.git")
    user_person.tools.new()
    assert user_person.tools.ok("git_clone", url=url, ref="v1", path="a/b").data["commit"] == first
    assert user_person.sh("ls a/b").split() == ["file1"]
    assert user_person.tools.ok("git_clone", url=url, ref="side", path="side").data["ref"] == "side"
    assert user_person.tools.ok("git_clone", url=url, ref=first, path="id").data["commit"] == first
    shallow = user_person.tools.ok("git_clone", url=url, depth=1, path="shallow")
    assert shallow.data["shallow"] is True and user_person.sh("cd shallow; git rev-list --count HEAD; git fsck --connectivity-only 2>&1").split()[0] == "1"
    assert "side" not in user_person.sh("cd shallow; git branch -a")
    tagged = user_person.tools.ok("git_clone", url=url, depth=1, ref="v1", path="tagged")
    assert tagged.data["commit"] == first


def test_existing_folder_is_left_alone(user_person):
    server = user_person.over_http(token=None)
    library(user_person)
    user_person.tools.new()
    user_person.sh("mkdir tool; echo mine >tool/mine")
    assert "not empty" in user_person.tools.fails("git_clone", url=server.url("lib/tool.git"))
    assert user_person.sh("ls tool").split() == ["mine"]


def test_host_that_is_no_remote_must_be_confirmed(person):
    """The address itself would carry data away: no request may leave before the person agreed."""
    from git_servers import GitHttp
    person.over_http(token=None)
    library(person)
    other = GitHttp(person.servers)
    person.closing.append(other)
    text = person.tools.fails("git_clone", url=other.url("lib/tool.git"))
    assert "--allow-clone 127.0.0.1" in text and not other.requests
    assert person.tools.ok("git_clone", "--allow-clone", other.authority, url=other.url("lib/tool.git")).data["ref"] == "trunk"
    assert other.requests


def test_box_cannot_make_a_host_known(user_person):
    from git_servers import GitHttp
    library(user_person)
    other = GitHttp(user_person.servers)
    user_person.closing.append(other)
    user_person.tools.new()
    user_person.sh(f"git remote add evil {other.url('x/y.git')}")
    assert "--allow-clone" in user_person.tools.fails("git_clone", url=other.url("lib/tool.git"))
    assert not other.requests


@pytest.mark.parametrize("url, word", [
    ("ext::sh -c touch% /tmp/hutch-breach", "url:"), ("ext::touch%20x", "only https"), ("file:///etc/passwd", "only https"),
    ("/etc", "only https"), ("../x", "only https"), ("git://127.0.0.1/x/y", "only https"), ("--upload-pack=touch", "'-'"),
    ("https://-oProxyCommand=x/y", "host"), ("-oProxyCommand=x:y", "'-'"), ("https://host/a\nb", "control"), ("https://host/../x", "'..'"),
    ("https://user:pass@host/a/b", "leave user"), ("http://example.org/a/b", "not encrypted"), ("http://127.0.0.1.evil.org/a", "not encrypted"),
    ("https://host/a?q=secret", "not allowed"), ("https://host:99999/a", "port"), ("https:///a", "no host"), ("https://host", "no repository"),
    ("ssh://host/x/-y", "'-'"), ("ssh://host/-x/y", "not allowed"), ("HTTPS::https://x/y", "only https"), ("https://ho%73t/a", "host")])
def test_hostile_addresses_are_refused(user_person, url, word):
    text = user_person.tools.fails("git_clone", "--allow-clone", "host", url=url)
    assert text.startswith("url:") and word in text, text
    assert not os.path.exists("/tmp/hutch-breach"), "BREACH a program ran on the host"


@pytest.mark.parametrize("members, word", [
    ({"ref": "--upload-pack=x"}, "ref:"), ({"ref": "a..b"}, "ref:"), ({"path": "-x"}, "path:"), ({"path": "a\x07"}, "path:"),
    ({"depth": 0}, "depth"), ({"ref": "0" * 40, "depth": 1}, "depth:")])
def test_hostile_input_is_refused(user_person, members, word):
    server = user_person.over_http(token=None)
    assert word in user_person.tools.call("git_clone", url=server.url("lib/tool.git"), **members).text
    assert not server.requests


def test_clone_larger_than_the_box_can_write_is_ended(user_person):
    server = user_person.over_http(token=None)
    library(user_person, blob=os.urandom(24 << 20))
    text = user_person.tools.fails("git_clone", "--disk", "16M", url=server.url("lib/tool.git"))
    assert "larger than 16 MB" in text and "depth 1" in text, text


def test_hooks_filters_and_submodules_of_a_clone_run_nothing_on_the_host(user_person):
    """Whatever the repository and the person's templates say, the host checks nothing out."""
    server = user_person.over_http(token=None)
    mark = user_person.home / "mark"
    template = user_person.home / "template" / "hooks"
    template.mkdir(parents=True)
    (template / "post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (template / "post-checkout").chmod(0o755)
    user_person.git("config", "--global", "init.templateDir", template.parent)
    user_person.git("config", "--global", "core.hooksPath", template)
    user_person.git("config", "--global", "filter.evil.smudge", f"touch {mark}; cat")
    user_person.git("config", "--global", "submodule.recurse", "true")
    remote = user_person.bare("lib/tool.git")
    work = user_person.caller.folder(user_person.box.scratch, "lib")
    user_person.git("init", "-q", "-b", "main", "--template=", cwd=work)
    (work / ".gitattributes").write_text("* filter=evil\n")
    (work / "f").write_text("f\n")
    (work / ".gitmodules").write_text(f'[submodule "s"]\n\tpath = s\n\turl = {server.url("lib/secret.git")}\n')
    user_person.git("-c", "core.hooksPath=/dev/null", "add", "-A", cwd=work)
    user_person.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "x", cwd=work)
    user_person.git("-c", "core.hooksPath=/dev/null", "push", "-q", remote, "main", cwd=work)
    mark.unlink(missing_ok=True)
    user_person.tools.ok("git_clone", url=server.url("lib/tool.git"))
    assert not mark.exists(), "BREACH a program of the clone's ran on the host"
    assert not any("secret" in path for _, path, *_ in server.requests)


def test_missing_repository_and_empty_one(user_person):
    server = user_person.over_http(token=None)
    assert "not found" in user_person.tools.fails("git_clone", url=server.url("lib/none.git"))
    user_person.bare("lib/empty.git")
    assert "is empty" in user_person.tools.fails("git_clone", url=server.url("lib/empty.git"))


def test_interrupt_ends_a_clone_that_waits(user_person):
    """The server never answers: Ctrl-C ends hutch and git."""
    server = user_person.over_http(token=None)
    asked, go_on = threading.Event(), threading.Event()

    def wait(request):
        asked.set()
        go_on.wait(60)

    server.serve = wait
    tmp = user_person.caller.folder(user_person.box.scratch, "tmp")
    command = [*user_person.caller.prefix, str(user_person.box.program), "tool", "-w", str(user_person.workspace), "git_clone",
               f'{{"url": "{server.url("lib/tool.git")}"}}']
    with subprocess.Popen(command, env={**user_person.box.env, **user_person.tools.env, "TMPDIR": str(tmp)}, cwd="/",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert asked.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    go_on.set()
    assert not list(tmp.iterdir())


def test_nothing_is_left_in_the_temporary_folder(user_person):
    server = user_person.over_http(token=None)
    library(user_person)
    tmp = user_person.caller.folder(user_person.box.scratch, "tmp")
    user_person.tools.env["TMPDIR"] = str(tmp)
    user_person.tools.ok("git_clone", url=server.url("lib/tool.git"))
    user_person.tools.fails("git_clone", url=server.url("lib/none.git"))
    assert not list(tmp.iterdir())
