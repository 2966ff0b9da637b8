"""Terminals in boxes over WebSocket: bytes both ways, sizes, who looks, what is kept, how they end."""
import json
import re
import threading
import time

import pytest

from hutch_server import WAIT, Answer, Closed, wait_until
from live_server import nothing_left_running, server  # noqa: F401: fixtures

from hutch.errors import HutchError

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def client(server):
    return server.client("alice")


@pytest.fixture(scope="module")
def live(client):
    with client.boxes.new(title="terminals") as one:
        yield one


def read_until(terminal, mark, data=b""):
    end = time.monotonic() + WAIT  # receive() alone would wait on while pings come
    while mark not in data:
        assert time.monotonic() < end, f"no {mark!r}: {data[-2000:]!r}"
        piece = terminal.receive(WAIT)
        assert piece, f"it ended before {mark!r}: {data[-2000:]!r}"
        data += piece
    return data


def plain(live, command="exec cat", **more):
    """A terminal without an interactive shell: what comes back is known to the byte."""
    return live.terminal(command="stty -echo; printf ready; " + command, **more)


def test_bytes_pass_both_ways_unchanged(live):
    with live.terminal(command="stty raw -echo; printf ready; exec cat") as t:
        read_until(t, b"ready")
        data = bytes(range(256)) * 64
        t.send(data)
        got = b""
        while len(got) < len(data):
            got += t.receive(WAIT)
        assert got == data


def test_keys_are_echoed_by_the_terminal(live):
    with live.terminal(term="dumb") as t:
        t.send("echo $((40+2))\n")
        assert b"echo $((40+2))" in read_until(t, b"\n42\r\n")
        t.send("sleep 1000\n")
        wait_until(lambda: live.exec("pgrep -x sleep").exit_code == 0, WAIT)
        t.send("\x03")
        t.send("echo back$((1))\n")
        read_until(t, b"\nback1\r\n")


def test_size_is_that_of_the_client(live):
    with plain(live, "stty size; trap 'stty size' WINCH; while :; do sleep 0.05; done", cols=100, rows=30) as t:
        read_until(t, b"30 100\r\n")
        t.resize(132, 43)
        read_until(t, b"43 132\r\n")
        assert {"id": t.id, "rows": 43, "cols": 132, "viewers": 1} in live.live()["terminals"]


def test_end_has_the_status(live):
    for command, status, signal in (("exit 7", 7, None), ("kill -9 $$", 137, "SIGKILL"), ("true", 0, None)):
        with live.terminal(command=command) as t:
            while t.receive(WAIT):
                pass
            assert t.exit == {"exit_code": status, "signal": signal}


def test_terminal_survives_its_client(live):
    with plain(live, "i=0; while :; do i=$((i+1)); echo line$i; sleep 0.05; done") as t:
        read_until(t, b"line3\r\n")
    with live.terminal(id=t.id) as again:
        data = read_until(again, b"line9\r\n")
        assert data.startswith(b"ready") and b"line1\r\nline2\r\nline3\r\n" in data
        numbers = [int(n) for n in re.findall(rb"line(\d+)\r\n", data)]
        assert numbers == list(range(1, len(numbers) + 1)), "nothing is lost or doubled between the two"


def test_scrollback_is_the_last_megabyte(live):
    with plain(live, "seq 300000; echo all; exec sleep 1000") as t:
        read_until(t, b"all\r\n")
    with live.terminal(id=t.id) as again:
        data = read_until(again, b"all\r\n")
        assert MEGABYTE - 4096 < len(data) <= MEGABYTE
        assert data.endswith(b"299999\r\n300000\r\nall\r\n")


def test_several_viewers_see_the_same(live):
    with plain(live) as first, live.terminal(id=first.id) as second, live.terminal(id=first.id) as third:
        for viewer in (first, second, third):
            read_until(viewer, b"ready")
        second.send("hello\n")
        for viewer in (first, second, third):
            assert read_until(viewer, b"hello\r\n") == b"hello\r\n"


def test_slow_viewer_holds_up_nobody(server, live):
    with plain(live, "read x; seq 2000000; echo all; exec cat") as fast:
        read_until(fast, b"ready")
        slow = server.websocket(f"/v1/boxes/{live.id}/terminal?id={fast.id}", key=server.key_for("alice"))
        fast.send("\n")
        got = b""
        while not got.endswith(b"all\r\n"):
            got = got[-100:] + fast.receive(WAIT)
        assert live.exec("echo fine").stdout == "fine\n"
        fast.send("after\n")
        read_until(fast, b"after\r\n")
        tail = b""
        while not tail.endswith(b"after\r\n"):  # it missed a part, and has the end
            message = slow.receive()
            tail = tail[-100:] + message if isinstance(message, bytes) else tail
        slow.close()


def test_shell_waits_while_all_viewers_are_slow(server, live):
    socket = server.websocket(f"/v1/boxes/{live.id}/terminal?command=seq%20100000000", key=server.key_for("alice"))
    before = None
    for _ in range(200):
        shown = live.exec("cut -d' ' -f14 /proc/$(pgrep -x seq)/stat").stdout
        if shown == before:
            break
        before = shown
        time.sleep(0.2)
    else:
        raise AssertionError("seq never stopped although nobody reads")
    socket.close()


def test_large_paste_arrives_whole(live):
    with plain(live, "stty raw; wc -c | tail -1 & head -c 2000000 | wc -c") as t:
        read_until(t, b"ready")
        sender = threading.Thread(target=lambda: t.send(b"x" * 2000000), daemon=True)
        with pytest.raises(HutchError):
            # One message may have 64 KiB.
            sender.start()
            while t.receive(WAIT):
                pass
    with plain(live, "stty raw; head -c 2000000 | wc -c") as t:
        read_until(t, b"ready")
        for _ in range(50):
            t.send(b"x" * 40000)
        read_until(t, b"2000000")


def test_wrong_messages_close_it(server, live):
    for text in ("nonsense", "[]", '{"resize": 3}', '{"resize": {"cols": "a", "rows": 1}}', "[" * 60000):
        with server.websocket(f"/v1/boxes/{live.id}/terminal?command=cat", key=server.key_for("alice")) as socket:
            assert "terminal" in socket.json()
            socket.send(text)
            with pytest.raises(Closed) as closed:
                while True:
                    socket.receive()
            assert closed.value.code == 1003, text[:20]


def refusal(server, path, key):
    """The status with which the server refuses a terminal, before or after the upgrade."""
    socket = server.websocket(path, key=key)
    if isinstance(socket, Answer):
        return socket.status
    with socket, pytest.raises(Closed) as closed:
        socket.receive()
    return closed.value.code - 4000


def test_terminals_of_others_do_not_exist(server, live):
    with plain(live) as t:
        path = f"/v1/boxes/{live.id}/terminal"
        assert refusal(server, f"{path}?id={t.id}", server.key_for("bob")) == 404
        assert refusal(server, path, server.key_for("bob")) == 404
        assert refusal(server, path, server.key_for("alice", "read-only")) == 403
        assert refusal(server, path, None) == 401
        assert refusal(server, f"{path}?id=none", server.key_for("alice")) == 404
        assert refusal(server, f"{path}?cols=0", server.key_for("alice")) in (400, 422)


def test_terminal_ends_with_its_box(client):
    one = client.boxes.new()
    with one.terminal(term="dumb") as t:
        t.send("echo up$((1))\n")
        read_until(t, b"\nup1\r\n")
        one.close()
        with pytest.raises(HutchError):
            while True:
                assert t.receive(WAIT), "it did not end by itself"


def test_restore_ends_the_terminal(client):
    with client.boxes.new() as one, one.terminal(command="exec cat") as t:
        t.send("x\n")
        read_until(t, b"x\r\n")
        one.restore("s0")
        while t.receive(WAIT):
            pass
        assert t.exit["signal"] == "SIGKILL"
        assert one.live()["terminals"] == []


def test_attached_terminal_keeps_its_box(client):
    with client.boxes.new(ttl=10) as one, one.terminal(term="dumb") as t:
        end = time.monotonic() + 14
        while time.monotonic() < end:
            t.send("echo on\n")
            read_until(t, b"\non\r\n")
            time.sleep(0.5)
        assert client.boxes.get(one.id).state == "running"


def test_many_terminals_at_once(client):
    with client.boxes.new() as one:
        terminals = [plain(one) for _ in range(32)]
        with pytest.raises(HutchError):
            plain(one)
        for i, t in enumerate(terminals):
            t.send(f"number {i}\n")
        for i, t in enumerate(terminals):
            read_until(t, f"number {i}\r\n".encode())
        for t in terminals:
            t.close()
        wait_until(lambda: all(t["viewers"] == 0 for t in one.live()["terminals"]), WAIT)


def test_events_tell_nothing_of_a_terminal(server, client):
    """What is typed there may be a password."""
    with client.boxes.new() as one:
        with plain(one) as t:
            t.send("hunter2\n")
            read_until(t, b"hunter2")
        answer = server.get(f"/v1/jobs/{one.id}/events", key=server.key_for("alice"), headers={"Accept": "application/json"})
        assert "hunter2" not in json.dumps(answer.json())
    assert not any("hunter2" in line for line in server.log)
