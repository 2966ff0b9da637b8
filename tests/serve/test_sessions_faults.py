"""Sessions while their server or their worker is killed or stopped: what was said, the box and undo stay."""
import json
import os
import signal
import time
from pathlib import Path

import pytest
from session_kit import Session, end_all, kill_workers, model_environment, text_of, types, wait_for, workers_of

from model_reply import Reply, call
from model_server import ModelServer

WRITE = Reply("I write it.", call("bash", command="echo new >a.txt; echo trace >/tmp/trace"))
WAIT = Reply("I wait.", call("bash", command="echo begun >begun.txt; sleep 1000"))
DONE = Reply("All is done.")


@pytest.fixture
def model():
    with ModelServer() as server:
        yield server


@pytest.fixture
def server(start_server, box, model):
    server = start_server(workers=1, env=model_environment(box, model))
    yield server
    end_all(server)


@pytest.fixture
def session(server, model):
    session = Session(server, files={"a.txt": "old\n"})
    model.script([WRITE, DONE])
    session.say("change a.txt")
    return session


def assert_goes_on(session, model):
    """Conversation, box (also what is no file of the workspace) and undo are there."""
    model.script([Reply("As before.")])
    assert text_of(session.say("are you there?")) == "As before."
    assert "change a.txt" in json.dumps(model.requests[-1].body) and "All is done." in json.dumps(model.requests[-1].body)
    assert session.run("cat a.txt /tmp/trace") == "new\ntrace\n"
    assert session.post("undo", {"turns": session.get("state")["turns"]})["files"] == "restored"
    assert session.run("cat a.txt") == "old\n" and session.run("ls /tmp/trace 2>&1 | wc -l") == "1\n"


def attempt_of(session, number):
    wait_for(lambda: session.get()["state"] == "running" and session.get()["attempt"] >= number, f"attempt {number}")


def test_worker_that_is_killed_between_messages(session, model):
    kill_workers(session.server)
    attempt_of(session, 2)
    assert_goes_on(session, model)
    assert [e for e in session.stored() if e["type"] == "error"] == []


def test_worker_that_is_killed_in_the_middle_of_a_message(session, model):
    model.script([WAIT])
    answer = session.say_beside("wait")
    session.wait_stored(lambda e: e["type"] == "tool_call" and "sleep" in e["input"]["command"], "the command runs")
    kill_workers(session.server)
    lost = answer.join()[-1]
    assert lost["type"] == "error" and not lost["retrying"]
    told = session.wait_stored(lambda e: e["type"] == "error", "an error is stored")
    assert "the worker ended" in told["text"] and "send the message again" in told["text"]
    assert session.run("cat begun.txt") == "begun\n"
    assert_goes_on(session, model)


def test_worker_that_is_told_to_end(session, model):
    [worker] = workers_of(session.server)
    os.kill(worker, signal.SIGTERM)
    wait_for(lambda: worker not in workers_of(session.server), "the worker has ended")
    wait_for(lambda: session.server.get(session.path("state")).status == 200, "another worker has the session")
    assert_goes_on(session, model)


def test_server_that_is_killed_between_messages(session, model):
    session.server.restart()
    wait_for(lambda: session.server.get(session.path("state")).status == 200, "a worker has the session")
    assert_goes_on(session, model)


def test_server_that_is_killed_in_the_middle_of_a_message(session, model):
    model.script([Reply("Slowly.", call("bash", command="echo slow >slow.txt; sleep 3")), Reply("It took long.")])
    answer = session.say_beside("take your time")
    session.wait_stored(lambda e: e["type"] == "tool_call" and "slow" in e["input"]["command"], "the command runs")
    before = session.stored()
    session.server.restart()
    answer.end()
    assert not answer.result or "done" not in types(answer.result)
    end = session.follow_until(("done", "error"), after=before[-1]["seq"]) # a local worker ends with its server
    assert [n for n, _ in end] == list(range(before[-1]["seq"] + 1, before[-1]["seq"] + 1 + len(end)))
    wait_for(lambda: session.server.get(session.path("state")).status == 200, "a worker has the session")
    assert session.run("cat slow.txt") == "slow\n"
    assert_goes_on(session, model)


def test_fork_survives_its_worker_and_its_parent(session, model):
    fork = session.fork()
    fork.run("echo fork >fork.txt")
    kill_workers(session.server)
    attempt_of(fork, 2)
    assert fork.run("cat fork.txt a.txt") == "fork\nnew\n"
    assert session.run("cat fork.txt 2>&1 | grep -c 'No such'") == "1\n"
    session.server.delete(session.path())
    wait_for(lambda: session.get()["state"] == "cancelled", "the first session has ended")
    assert fork.post("apply")["applied"] == 2 and fork.workspace() == {"a.txt": "new\n", "fork.txt": "fork\n"}


def test_idle_session_ends_and_leaves_nothing(server, model):
    model.script([DONE])
    session = Session(server, ttl="3s", files={"a.txt": "old\n"})
    session.say("hello")
    wait_for(lambda: session.get()["state"] != "running", "it was idle for its ttl")
    boxes = server.box.hutch("box", "ls", "--json", env=server.env)
    assert json.loads(boxes.stdout) == []


def test_folders_of_forgotten_sessions_are_removed(server, model):
    """Of sessions that ended while no worker had them; not of those that were used not long ago."""
    top = Path(server.env["XDG_STATE_HOME"], "hutch", "worker", "sessions")
    old = time.time() - 41 * 86400
    for name, used in ("0" * 20, old), ("1" * 20, time.time()):
        home = top / name
        (home / "members").mkdir(parents=True)
        (home / "workspace").mkdir()
        (home / "workspace" / "a.txt").write_text("left")
        (home / "members" / name).touch()
        os.utime(home / "members" / name, (used, used))
        os.utime(home, (old, old))
    for path in [top.parent.parent, *top.parent.parent.rglob("*")]:
        server.box.caller.own(path)
    model.script([DONE])
    session = Session(server)
    session.say("hello")
    assert sorted(p.name for p in top.iterdir()) == sorted(["1" * 20, session.id])
