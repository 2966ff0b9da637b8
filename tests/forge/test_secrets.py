"""A token is in nobody's argv, in no result, no history and nowhere in the box."""
import threading
from pathlib import Path

import pytest

import harness
from forge_person import TOKEN
from harness import wait_until


class Watch:
    """Looks at the command lines of all processes below this one, over and over. (Tests of other workers have the same token.)"""

    def __init__(self):
        self.seen, self.looks, self.stop = [], 0, threading.Event()
        self.names = set()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.is_set():
            for pid in harness.descendants():
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                self.names.add(line.split(b"\0")[0].rsplit(b"/", 1)[-1])
                if TOKEN.encode() in line:
                    self.seen.append(line)
            self.looks += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def hold(server, watch):
    """Each answer waits until the command lines were looked at twice, so that the programs that wait for it are seen."""
    serve = server.serve

    def later(request):
        until = watch.looks + 2
        wait_until(lambda: watch.looks >= until or watch.stop.is_set(), seconds=60, what="looks at command lines")
        serve(request)

    server.serve = later


def test_token_is_in_no_command_line(person):
    server = person.over_http()
    api = person.api("gitea", token=TOKEN)
    person.configure(forges={server.authority: {"kind": "gitea", "api": api.api}})
    person.tools.env["GITEA_TOKEN"] = TOKEN
    person.box_commits()
    with Watch() as watch:
        hold(server, watch)
        hold(api, watch)
        done = person.tools.ok("create_pr", "--allow-push", title="t", body="b")
        person.tools.ok("git_clone", url=server.url("owner/repo.git"))
    assert not watch.seen, f"BREACH {watch.seen}"
    assert {b"hutch", b"git"} <= watch.names, "the watch saw the programs that have the token"
    assert TOKEN not in done.text + repr(done.data)


@pytest.mark.parametrize("user", [f"pat:{TOKEN}", TOKEN])
def test_token_in_the_remotes_url_is_in_no_command_line(user_person, user):
    server = user_person.over_http()
    user_person.git("remote", "set-url", "origin", f"http://{user}@{server.authority}/owner/repo.git")
    user_person.box_commits()
    with Watch() as watch:
        hold(server, watch)
        user_person.tools.ok("git_push", "--allow-push")
    assert not watch.seen, f"BREACH {watch.seen}"


def test_environment_of_the_box_has_no_token(user_person):
    user_person.tools.env |= {"GITEA_TOKEN": TOKEN, "GH_TOKEN": TOKEN}
    user_person.over_http()
    user_person.box_commits()
    assert TOKEN not in user_person.sh("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
