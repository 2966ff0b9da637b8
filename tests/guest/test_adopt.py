"""The ADOPT request: who says hello and is taken in, and who is not. That a process which is does well is for
tests/security/test_warm*.py."""

import os
import signal
import socket
import struct

import pytest

from guest_kit import sleepers, wait_for

ESRCH, EBUSY, EINVAL, EMFILE, ENOLINK = 3, 16, 22, 24, 67


def hello(pid, code=0, step=b""):
    return struct.pack("<ii56s", pid, code, step)


class Arrival:
    """An ADOPT request, and the door at which somebody may knock."""

    def __init__(self, box, **fields):
        self.door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.settimeout(20)
        self.asked = box.request("ADOPT", [theirs.fileno()], **fields)
        theirs.close()
        assert self.asked.frame() == ("WAITING", {})

    def refused(self):
        kind, fields = self.asked.frame()
        assert kind == "ERROR" and self.asked.frame() is None
        assert self.door.recv(100) == b""
        return fields["CODE"], fields["TEXT"].decode()


@pytest.mark.parametrize("words", [b"", b"x", hello(7)[:-1]], ids=["none", "short", "cut"])
def test_who_says_nothing_of_use_is_not_taken_in(box, words):
    arrival = Arrival(box)
    if words:
        arrival.door.send(words)
    else:
        arrival.door.shutdown(socket.SHUT_WR)
    assert arrival.refused()[0] == ENOLINK


def test_an_excuse_is_passed_on(box):
    arrival = Arrival(box)
    arrival.door.send(hello(0, EMFILE, b"find the door"))
    code, text = arrival.refused()
    assert code == EMFILE and text.startswith("the process did not enter the box: cannot find the door: ")


@pytest.mark.parametrize("pid", [1, -1, 4000000, -(1 << 31)])
def test_a_process_that_is_not_its_own_is_not_taken_in(box, pid):
    arrival = Arrival(box)
    arrival.door.send(hello(pid))
    assert arrival.refused()[0] == ESRCH


def test_the_grandchild_of_another_command_is_not_taken_in(box):
    """Whatever is told: only what has become a child of process 1 can be."""
    box.run("(sleep 1000 & echo $! > /mnt/pid; wait) & wait", "NULL", BACKGROUND=1)
    assert wait_for(lambda: (box.folder / "pid").exists() and (box.folder / "pid").read_text().strip())
    arrival = Arrival(box)
    arrival.door.send(hello(int((box.folder / "pid").read_text())))
    assert arrival.refused()[0] == ESRCH
    assert sleepers(box)


def test_the_request_needs_its_door(box):
    kind, fields, *_ = box.call("ADOPT")
    assert (kind, fields["CODE"]) == ("ERROR", EINVAL)
    ends = os.pipe()
    kind, fields, *_ = box.request("ADOPT", list(ends)).result()
    assert (kind, fields["CODE"]) == ("ERROR", EINVAL)
    for end in ends:
        os.close(end)


def test_nobody_is_waited_for_in_a_frozen_box(box):
    frozen = box.request("FREEZE")
    assert frozen.frame()[0] == "RESULT"
    kind, fields, *_ = box.call("ADOPT")
    assert (kind, fields["CODE"]) == ("ERROR", EBUSY)
    frozen.close()


def test_who_was_ended_before_it_came_has_not_succeeded(box):
    arrival = Arrival(box)
    arrival.asked.send("KILL", SIGNAL=signal.SIGKILL)
    kind, fields = arrival.asked.frame()
    assert (kind, fields["TERM_SIGNAL"]) == ("RESULT", signal.SIGKILL) and "EXIT_CODE" not in fields
    assert arrival.door.recv(100) == b""


def test_a_host_that_hangs_up_closes_the_door(box):
    arrival = Arrival(box)
    arrival.asked.close()
    assert arrival.door.recv(100) == b""
    assert box.run("exit 3")[1]["EXIT_CODE"] == 3


def test_other_commands_come_and_go_meanwhile(box):
    arrivals = [Arrival(box) for _ in range(3)]
    assert box.run("sleep 1000 & exit 4")[1]["EXIT_CODE"] == 4
    assert not sleepers(box)
    for arrival in arrivals:
        arrival.door.close()
        assert arrival.asked.frame()[1]["CODE"] == ENOLINK
