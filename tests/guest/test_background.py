"""Commands in the background, and a box that stands still, as docs/protocol.md has them."""

import os
import signal
import time

from guest_kit import sleepers, wait_for

TIMEOUT = 1
ESRCH, EINVAL, EBUSY = 3, 22, 16


# Background


def test_background(box):
    kind, fields, *_ = box.run("echo hello; echo oops >&2; exit 6", "NULL", BACKGROUND=1)
    handle, path = fields["HANDLE"], fields["OUTPUT_PATH"]
    assert wait_for(lambda: box.call("STATUS", HANDLE=handle)[1]["RUNNING"] == 0)
    assert box.call("STATUS", HANDLE=handle)[1]["EXIT_CODE"] == 6
    assert box.run(["cat", os.fsdecode(path)])[2][1] == b"hello\noops\n"
    assert box.run(["stat", "-c", "%a", os.fsdecode(path)])[2][1] == b"600\n"
    assert box.run("true", "NULL", BACKGROUND=1)[1]["HANDLE"] != handle


def test_background_survives_others_and_is_signalled(box):
    handle = box.run("setsid sleep 4000 & exec sleep 4001", "NULL", BACKGROUND=1)[1]["HANDLE"]
    assert wait_for(lambda: len(sleepers(box, "400")) == 2)
    assert box.call("STATUS", HANDLE=handle)[1]["RUNNING"] == 1
    assert box.call("SIGNAL", HANDLE=handle, SIGNAL=signal.SIGKILL)[1]["COUNT"] == 2
    assert wait_for(lambda: box.call("STATUS", HANDLE=handle)[1].get("TERM_SIGNAL") == signal.SIGKILL)
    assert not sleepers(box)


def test_background_tree_outlives_its_process(box):
    handle = box.run("setsid sleep 5000 & sleep 0.1", "NULL", BACKGROUND=1)[1]["HANDLE"]
    assert wait_for(lambda: box.call("STATUS", HANDLE=handle)[1]["RUNNING"] == 0)
    assert box.run("sleep 0 & true")[1]["EXIT_CODE"] == 0
    assert sleepers(box, "5000")
    box.call("SIGNAL", HANDLE=handle, SIGNAL=signal.SIGTERM)
    assert wait_for(lambda: not sleepers(box, "5000"))


def test_background_timeout(box):
    handle = box.run("trap '' TERM; sleep 60", "NULL", BACKGROUND=1, TIMEOUT_MS=100)[1]["HANDLE"]
    assert wait_for(lambda: box.call("STATUS", HANDLE=handle)[1].get("LIMIT") == TIMEOUT
                    and not box.call("STATUS", HANDLE=handle)[1]["RUNNING"])


def test_background_that_never_ran(box):
    handle = box.run(["nope"], "NULL", BACKGROUND=1)[1]["HANDLE"]
    assert wait_for(lambda: box.call("STATUS", HANDLE=handle)[1].get("EXIT_CODE") == 127)


def test_ended_background_commands_are_remembered_in_part(box):
    handles = [box.run(["true"], "NULL", BACKGROUND=1)[1]["HANDLE"] for _ in range(300)]
    assert len(set(handles)) == 300
    assert wait_for(lambda: box.call("STATUS", HANDLE=handles[-1])[1].get("RUNNING") == 0)
    assert wait_for(lambda: box.call("STATUS", HANDLE=handles[0])[1].get("CODE") == ESRCH)
    assert box.call("STATUS", HANDLE=handles[-200])[0] == "RESULT"


def test_unknown_handle_and_signal(box):
    assert box.call("STATUS", HANDLE=99)[1]["CODE"] == ESRCH
    handle = box.run("sleep 10", "NULL", BACKGROUND=1)[1]["HANDLE"]
    assert box.call("SIGNAL", HANDLE=handle, SIGNAL=1000)[1]["CODE"] == EINVAL


# Freezing


COUNTER = "while :; do echo >>count; done"


def counter_moves(box):
    before = (box.folder / "count").stat().st_size
    time.sleep(0.1)
    return (box.folder / "count").stat().st_size != before


def test_freeze_and_thaw(box):
    box.run(COUNTER, "NULL", BACKGROUND=1)
    box.run("setsid sleep 100 & kill -STOP $!; sleep 1000", "NULL", BACKGROUND=1)
    assert wait_for(lambda: (box.folder / "count").exists())
    time.sleep(0.2)
    first, second = box.request("FREEZE"), box.request("FREEZE")
    assert first.frame()[1]["COUNT"] == 4 and second.frame()[1]["COUNT"] == 4
    assert not counter_moves(box)
    assert box.run(["true"])[1]["CODE"] == EBUSY
    first.close()
    assert not counter_moves(box)
    second.close()
    assert wait_for(lambda: counter_moves(box))
    states = box.run("grep -h State: /proc/[0-9]*/status")[2][1].decode()
    assert states.count("T (stopped)") == 1


def test_freeze_of_an_empty_box(box):
    c = box.request("FREEZE")
    assert c.frame() == ("RESULT", {"COUNT": 0, "MAPPED": 0})
    c.close()
    assert wait_for(lambda: box.run("exit 3")[1].get("EXIT_CODE") == 3)


VFORK = """
import ctypes, os
libc = ctypes.CDLL(None)
CLONE_VM, CLONE_VFORK, SIGCHLD = 0x100, 0x4000, 17
stack = ctypes.create_string_buffer(1 << 16)
print("go", flush=True)
libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.byref(stack, 1 << 16), CLONE_VFORK | SIGCHLD | CLONE_VM, 0)
"""


def test_freeze_of_a_process_that_waits_in_vfork(box):
    c = box.start(["python3", "-c", VFORK])
    assert c.frame()[1]["DATA"] == b"go\n"
    time.sleep(0.2)
    freeze = box.request("FREEZE")
    assert freeze.frame() == ("RESULT", {"COUNT": 2, "MAPPED": 0})
    freeze.close()
    c.close()


def test_freeze_while_many_fork(box):
    box.run("while :; do /bin/true; done", "NULL", BACKGROUND=1)
    box.run("while :; do (/bin/true; /bin/true) & wait; done", "NULL", BACKGROUND=1)
    for _ in range(20):
        c = box.request("FREEZE")
        assert c.frame()[0] == "RESULT"
        c.close()
