"""The channel between server and worker: deaths on either side, and workers that send what they may not."""
import json
import os
import signal
import struct
import threading
import time

import pytest

from hutch_server import WAIT, Answer, Closed, wait_until
from live_server import LiveServer
import harness

from hutch.client import ServerError


@pytest.fixture
def nothing_left_running():
    """Boxes outlive their worker: see `server`."""


@pytest.fixture
def server(callers, scratch):
    before = set(harness.descendants())
    caller, program = callers("user")
    server = LiveServer(harness.Box(program, caller, scratch), workers=1)
    yield server
    client = server.client("alice")
    for one in list(client.boxes.list(state="running,scheduled")):
        one.close()
    wait_until(lambda: not list(client.boxes.list(state="running,scheduled")), WAIT)
    server.stop()
    left = harness.leftovers(before)
    said = [harness.describe(pid) for pid in left]
    harness.end_all(left)
    harness.reap_orphans()
    assert not left, "left running: " + "; ".join(said)


def works(one, command="true"):
    try:
        return one.exec(command).exit_code == 0
    except ServerError as error:
        assert error.status in (503, 504), error
        return False


def test_box_survives_the_death_of_its_worker(server):
    client = server.client("alice")
    one = client.boxes.new()
    one.write("kept", "before")
    snapshot = one.snapshot("one")
    one.write("kept", "after")
    one.exec("(sleep 100000 </dev/null >/dev/null 2>&1 &)")
    with one.terminal(command="exec cat") as t:
        for pid in server.worker_pids():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(Exception):
            while t.receive(WAIT):
                pass
    wait_until(lambda: works(one), WAIT)
    assert one.read("kept") == b"after"
    assert [s.id for s in one.snapshots()] == [snapshot.id]
    one.restore(snapshot)
    assert one.read("kept") == b"before"
    assert client.boxes.get(one.id).state == "running"


def test_call_under_way_fails_when_the_worker_dies(server):
    one = server.client("alice").boxes.new()
    outcome = []

    def call():
        try:
            outcome.append(one.exec("sleep 100000"))
        except ServerError as error:
            outcome.append(error.status)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: one.live()["commands"] == 1, WAIT)
    for pid in server.worker_pids():
        os.kill(pid, signal.SIGKILL)
    thread.join(WAIT)
    assert outcome == [503]
    wait_until(lambda: works(one), WAIT)


def test_channel_is_made_again_after_a_restart_of_the_server(server):
    client = server.client("alice")
    one = client.boxes.new()
    one.write("kept", "x")
    for kill in (True, False):
        if not kill:
            server.stop()
        server.restart()
        wait_until(lambda: works(one), WAIT)
        assert one.read("kept") == b"x"


def test_worker_that_hangs_is_replaced(server):
    one = server.client("alice").boxes.new()
    one.write("kept", "x")
    pids = server.worker_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(ServerError) as caught:
            one.exec("true")
        assert caught.value.status in (503, 504) and time.monotonic() - began < WAIT
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: works(one), WAIT)
    assert one.read("kept") == b"x"


def test_forks_survive_too(server):
    one = server.client("alice").boxes.new()
    one.write("kept", "x")
    fork, = one.fork()
    fork.write("kept", "y")
    for pid in server.worker_pids():
        os.kill(pid, signal.SIGKILL)
    for box, text in ((one, b"x"), (fork, b"y")):
        wait_until(lambda: works(box), WAIT)
        assert box.read("kept") == text


# --- a worker that is not one of ours ---


class Rogue:
    """Leases a box and speaks the channel itself."""

    def __init__(self, server, body=None):
        self.server = server
        self.key = server.key_for("worker", "worker")
        self.box = server.post("/v1/boxes", {"wait": False, **(body or {})}, key=server.key_for("alice")).json()["id"]
        lease = server.post("/v1/worker/lease", {"worker": "rogue", "slots": 0, "live_slots": 1, "tasks": [], "wait_ms": 60000},
                            key=self.key).json()["jobs"][0]
        assert lease["job"] == self.box
        self.token = lease["token"]
        self.socket = self.connect()

    def connect(self):
        return self.server.websocket(f"/v1/worker/jobs/{self.box}/channel?token={self.token}", key=self.key)

    def call(self, body=None, path="exec"):
        """Starts a client's call; the message that the worker gets, and a function that waits for the answer."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.server.post(
            f"/v1/boxes/{self.box}/{path}", body or {"command": "x"}, key=self.server.key_for("alice"))))
        thread.start()
        message = self.socket.json()

        def answer():
            thread.join(WAIT)
            return answers[0]
        return message, answer


@pytest.fixture
def rogue(start_server):
    server = start_server(workers=0)
    server.__class__ = LiveServer
    server.keys = {}
    one = Rogue(server)
    yield one
    one.socket.close()


def test_answer_of_a_worker_reaches_its_client(rogue):
    message, answer = rogue.call({"command": "true"})
    assert message["op"] == "exec" and message["input"] == {"command": "true"} and message["user"] == "alice"
    rogue.socket.send({"call": message["call"], "status": 200, "body": {"exit_code": 0}})
    assert answer().json() == {"exit_code": 0}


def test_problem_of_a_worker_is_made_harmless(rogue):
    message, answer = rogue.call()
    rogue.socket.send({"call": message["call"], "status": 404, "body": {
        "type": "../<x>", "title": "\u001b[31m", "detail": "a\u001b]0;x\u0007\u202eb" + "c" * 100000}})
    got = answer()
    assert got.status == 404 and got.problem == "worker-failed"
    assert "\u001b" not in got.json()["detail"] and "\u202e" not in got.json()["detail"] and len(got.body) < 5000


BAD = [b"\x01", "nonsense", "[1]", "{}", '{"call": -1, "status": 200, "body": 1}', '{"call": 1e99, "event": {}}',
       {"call": 0, "status": 302, "body": {}}, {"call": 0, "status": "200", "body": {}}, {"call": 0, "status": 200},
       {"call": 0, "event": []}, {"call": 0, "credit": -5}, {"call": 0, "credit": 1 << 40},
       {"call": 0, "event": {"x": "y" * (2 << 20)}}, "[" * 500000, "{\"a\":1," * 100000, b"\0" * (1 << 20)]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_worker_that_breaks_the_protocol_is_cut_off(rogue, number):
    message, answer = rogue.call()
    bad = BAD[number]
    if isinstance(bad, dict):
        bad = {**bad, "call": message["call"]}
    rogue.socket.send(bad)
    with pytest.raises(Closed) as closed:
        while True:
            rogue.socket.receive()
    assert closed.value.code in (1002, 1006, 1009)
    assert answer().status == 503
    rogue.socket = rogue.connect()
    message, answer = rogue.call()
    rogue.socket.send({"call": message["call"], "status": 200, "body": {}})
    assert answer().status == 200


def test_worker_cannot_send_beyond_its_credit(rogue):
    """Its client is slow; what comes for it is not kept without limit."""
    socket = rogue.server.connect()
    body = b'{"command": "x", "stream": true}'
    socket.sendall((f"POST /v1/boxes/{rogue.box}/exec HTTP/1.1\r\nHost: 127.0.0.1:{rogue.server.port}\r\n"
                    f"X-API-Key: {rogue.server.key_for('alice')}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    number = rogue.socket.json()["call"]
    with socket, pytest.raises((Closed, OSError)) as closed:
        for _ in range(1000):
            rogue.socket.send({"call": number, "event": {"stream": "stdout", "text": "x" * 60000}})
        while True:
            rogue.socket.receive()
    assert not isinstance(closed.value, Closed) or closed.value.code in (1002, 1006)


def test_messages_for_no_call_are_dropped(rogue):
    message, answer = rogue.call()
    for number in (message["call"] + 1, 4294967295):
        rogue.socket.send({"call": number, "status": 200, "body": {}})
        rogue.socket.send(struct.pack("<I", number) + b"data")
        rogue.socket.send({"call": number, "credit": 5})
    rogue.socket.send({"call": message["call"], "status": 200, "body": {"fine": True}})
    assert answer().json() == {"fine": True}


def test_notes_become_events(rogue):
    rogue.socket.send({"note": {"type": "log", "text": "from the box"}})

    def seen():
        events = rogue.server.get(f"/v1/jobs/{rogue.box}/events", key=rogue.server.key_for("alice"),
                                  headers={"Accept": "application/json"}).json()["events"]
        return any(event.get("text") == "from the box" for event in events)
    wait_until(seen, WAIT)


def test_client_that_goes_cancels_its_call(rogue):
    response = threading.Thread(target=lambda: rogue.server.raw(
        (f"POST /v1/boxes/{rogue.box}/exec HTTP/1.1\r\nHost: 127.0.0.1:{rogue.server.port}\r\n"
         f"X-API-Key: {rogue.server.key_for('alice')}\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
         '{"command":"x"}').encode(), timeout=2))
    response.start()
    number = rogue.socket.json()["call"]
    assert rogue.socket.json() == {"cancel": number}
    response.join(WAIT)


def refusal(rogue, token, key):
    """The status with which the server refuses a channel, before or after the upgrade."""
    answer = rogue.server.websocket(f"/v1/worker/jobs/{rogue.box}/channel?token={token}", key=key)
    if isinstance(answer, Answer):
        return answer.status
    with pytest.raises(Closed) as closed:
        answer.receive()
    return closed.value.code - 4000


def test_channel_needs_the_lease(rogue):
    assert refusal(rogue, rogue.token + 1, rogue.key) == 409
    assert refusal(rogue, 0, rogue.key) in (400, 422)
    assert refusal(rogue, rogue.token, rogue.server.key_for("alice")) == 403
    assert refusal(rogue, rogue.token, None) == 401


def test_lost_lease_ends_the_channel(rogue):
    """It is not renewed."""
    with pytest.raises(Closed) as closed:
        while True:
            rogue.socket.receive()
    assert closed.value.code == 4409


def test_second_channel_replaces_the_first(rogue):
    message, answer = rogue.call()
    second = rogue.connect()
    assert answer().status == 503
    with pytest.raises(Closed):
        while True:
            rogue.socket.receive()
    rogue.socket = second
    message, answer = rogue.call()
    second.send({"call": message["call"], "status": 200, "body": json.loads("{}")})
    assert answer().status == 200
