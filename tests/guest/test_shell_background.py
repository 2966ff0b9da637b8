"""Scripts in the background: SHELL with BACKGROUND, INPUT and the mark of STATUS."""

import signal

import pytest

from guest_kit import sleepers, wait_for
from shell_kit import shell_box
from wire import NUMBERS

SAVED, LOST = NUMBERS["STATE_SAVED"], NUMBERS["STATE_LOST"]
ESRCH, EAGAIN, EPIPE = 3, 11, 32


@pytest.fixture
def box(tmp_path):
    yield from shell_box(tmp_path)


def start(box, script, **fields):
    c = box.ask(script, BACKGROUND=1, **fields)
    kind, result, _, _ = c.result()
    c.close()
    assert kind == "RESULT", result
    return result["HANDLE"], result["OUTPUT_PATH"].decode()


def status(box, handle, **fields):
    kind, result, _, _ = box.call("STATUS", HANDLE=handle, **fields)
    assert kind == "RESULT", result
    return result


def feed(box, handle, data=b"", **fields):
    return box.call("INPUT", HANDLE=handle, DATA=data, **fields)[:2]


def test_background_begins_with_the_state_and_leaves_it(box):
    box.out("cd /usr; export A=1")
    handle, path = start(box, "pwd; echo $A; cd /etc; export A=2; exit 3")
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    assert status(box, handle)["EXIT_CODE"] == 3
    assert box.out(f"cat {path}; pwd; echo $A") == b"/usr\n1\n/usr\n1\n"


def test_background_input(box):
    handle, path = start(box, "while read x; do echo got $x; done; echo end")
    assert feed(box, handle, b"one\ntw")[0] == "RESULT"
    assert feed(box, handle, b"o\n")[0] == "RESULT"
    assert wait_for(lambda: box.out(f"cat {path}") == b"got one\ngot two\n")
    assert status(box, handle)["RUNNING"] == 1
    assert feed(box, handle, EOF=1)[0] == "RESULT"
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    assert box.out(f"cat {path}").endswith(b"end\n")
    kind, result = feed(box, handle, b"more")
    assert (kind, result["CODE"]) == ("ERROR", EPIPE)


def test_background_input_that_nobody_reads_is_bounded(box):
    handle, _ = start(box, "sleep 300")
    codes = []
    for _ in range(8):
        kind, result = feed(box, handle, b"x" * 500_000)
        codes.append(kind)
    assert codes[0] == "RESULT" and codes[-1] == "ERROR" and result["CODE"] == EAGAIN
    assert box.call("SIGNAL", HANDLE=handle, SIGNAL=signal.SIGKILL)[0] == "RESULT"
    assert feed(box, 99, b"x")[1]["CODE"] == ESRCH


def test_background_mark(box):
    handle, _ = start(box, "echo one; read x; echo two")
    assert wait_for(lambda: status(box, handle).get("SIZE") == 4)
    assert status(box, handle, MARK=4)["MARK"] == 0
    assert status(box, handle)["MARK"] == 4
    feed(box, handle, EOF=1)
    assert wait_for(lambda: status(box, handle)["SIZE"] == 8)
    assert status(box, handle)["MARK"] == 4


def test_background_news(box):
    handle, _ = start(box, "echo one; read x; echo two")
    assert wait_for(lambda: status(box, handle).get("SIZE") == 4)
    news = status(box, handle, LIMIT_BYTES=100)
    assert (news["MARK"], news["DATA"], news["TAIL"], news["DROPPED"]) == (0, b"one\n", b"", 0)
    assert status(box, handle, LIMIT_BYTES=100)["DATA"] == b""
    feed(box, handle, EOF=1)
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    news = status(box, handle, LIMIT_BYTES=2)
    assert (news["MARK"], news["SIZE"], news["DATA"], news["TAIL"]) == (4, 8, b"t", b"\n")


def test_background_log_is_bounded(box):
    handle, path = start(box, "yes | head -c 3000000; echo last", LIMIT_BYTES=100_000)
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    assert status(box, handle)["SIZE"] == 3_000_005
    size = int(box.out(f"stat -c %s {path}"))
    assert size < 100_100 and status(box, handle, LIMIT_BYTES=20_000)["DROPPED"] == 3_000_005 - (size - 52)
    assert box.out(f"tail -n 1 {path}") == b"last\n"


def test_background_output_is_limited(box):
    handle, _ = start(box, "yes", OUTPUT_TOTAL=5_000_000)
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    assert status(box, handle)["LIMIT"] == NUMBERS["LIMIT_OUTPUT"] and status(box, handle)["TERM_SIGNAL"] == signal.SIGKILL


def test_background_log_is_not_written_while_the_box_is_frozen(box):
    handle, path = start(box, "while :; do echo tick; done")
    assert wait_for(lambda: status(box, handle)["SIZE"] > 0)
    freeze = box.request("FREEZE")
    assert freeze.result()[0] == "RESULT"
    before = status(box, handle)["SIZE"]
    for _ in range(20):
        assert status(box, handle)["SIZE"] == before
    freeze.close()
    assert wait_for(lambda: status(box, handle)["SIZE"] > before)


def test_background_is_killed_with_its_tree(box):
    handle, _ = start(box, "sleep 555 & setsid sleep 555 & wait")
    assert wait_for(lambda: len(sleepers(box, "555")) == 2)
    box.out("echo the session goes on")
    assert box.call("SIGNAL", HANDLE=handle, SIGNAL=signal.SIGKILL)[0] == "RESULT"
    assert wait_for(lambda: not sleepers(box, "555"))
    assert wait_for(lambda: status(box, handle)["RUNNING"] == 0)


def test_background_without_a_shell(box):
    handle, _ = start(box, "true", ENV=["PATH=/nowhere"], NAME="none")
    assert wait_for(lambda: not status(box, handle)["RUNNING"])
    assert status(box, handle)["EXIT_CODE"] == 127
