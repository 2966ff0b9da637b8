"""Workspaces from a git URL: the worker's git fetches them, and checks them out without running anything of them."""
import subprocess
import sys

import pytest

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "forge"))

from git_servers import GitHttp  # noqa: E402
from worker_kit import coordinator, read_tar, wait_until_runs, workers  # noqa: E402,F401


class Repository:
    """A bare repository on a server, and a clone to commit in."""

    def __init__(self, box):
        self.box, self.root = box, box.caller.folder(box.scratch, "git")
        self.root.chmod(0o755)
        self.bare, self.work = self.root / "tool.git", box.caller.folder(box.scratch, "lib")
        self.git("init", "-q", "--bare", "-b", "trunk", self.bare, cwd="/")
        self.git("init", "-q", "-b", "trunk")
        self.server = GitHttp(self.root)
        self.url = self.server.url("tool.git")

    def git(self, *args, cwd=None):
        env = {**self.box.env, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
        return subprocess.run([*self.box.caller.prefix, "git", "-c", "safe.directory=*", *map(str, args)], cwd=cwd or self.work, env=env,
                              check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name, content, branch="trunk"):
        (self.work / name).write_text(content)
        self.box.caller.own(self.work / name)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)
        self.git("push", "-q", self.bare, f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(box):
    return Repository(box)


def on(repository, ref=None):
    return {"spec": {"workspace": {"git": repository.url, **({"ref": ref} if ref else {})}}}


def test_branches_tags_and_commits(coordinator, workers, repository):
    first = repository.commit("one", "1\n")
    repository.git("tag", "v1")
    repository.git("push", "-q", repository.bare, "v1")
    repository.commit("two", "2\n")
    workers.start(env={"no_proxy": "127.0.0.1"})
    for ref, listing in [(None, "one two"), ("trunk", "one two"), ("v1", "one"), (first, "one")]:
        job = coordinator.ended(coordinator.steps("echo *; git -c safe.directory='*' log --oneline | wc -l; git -c safe.directory='*' "
                                                  "status --short; echo more >>one", **on(repository, ref)))
        assert job.state == "completed", job.finish
        assert job.results[0]["text"] == f"{listing}\n1\n"
        assert job.files["diff"].decode().count("diff --git") == 1
        assert read_tar(job.files["workspace"])["one"] == b"1\nmore\n"


def test_next_attempt_has_the_same_commit(coordinator, workers, repository):
    repository.commit("file", "old\n")
    first = workers.start(env={"no_proxy": "127.0.0.1"})
    job = coordinator.steps("cat file; echo changed >other", "sleep 9; cat file other", **on(repository))
    coordinator.wait(lambda: len(job.results) == 1)
    wait_until_runs(workers, "sleep 9")
    repository.commit("file", "new\n")
    workers.kill(first)
    workers.start(env={"no_proxy": "127.0.0.1"})
    coordinator.ended(job)
    assert job.state == "completed" and job.results[1]["text"] == "old\nchanged\n"


@pytest.mark.parametrize("url, word", [
    ("file:///etc", "url"), ("/etc", "url"), ("ext::sh -c id", "url"), ("--upload-pack=id", "url"),
    ("https://user:pass@127.0.0.1/x", "password"), ("http://example.org/x", "not encrypted")])
def test_addresses_that_are_refused(coordinator, workers, url, word):
    workers.start()
    job = coordinator.ended(coordinator.steps("true", spec={"workspace": {"git": url}}))
    assert job.state == "failed" and job.token == 1 and word in job.finish["error"], job.finish


def test_nothing_of_a_repository_runs_on_the_host(coordinator, workers, repository):
    (repository.work / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repository.work / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ext::touch% /tmp/hutch-evil\n')
    repository.commit("file", "f\n")
    workers.start(env={"no_proxy": "127.0.0.1"})
    job = coordinator.ended(coordinator.steps("ls -A; ls .git/hooks 2>/dev/null || true", **on(repository)))
    assert job.results[0]["text"].split() == [".git", ".gitattributes", ".gitmodules", "file"]


def test_server_that_does_not_answer_is_a_fault(coordinator, workers, repository):
    repository.commit("file", "f\n")
    port = repository.server.port
    repository.server.server.shutdown()
    repository.server.server.server_close()
    workers.start(env={"no_proxy": "127.0.0.1"})
    job = coordinator.ended(coordinator.steps("true", spec={"workspace": {"git": f"http://127.0.0.1:{port}/tool.git"}}))
    assert job.state == "failed" and job.token == 3 and job.finish["retry"]
