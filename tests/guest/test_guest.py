"""What the guest promises in docs/protocol.md, asked of the built program over the wire."""

import contextlib
import os
import resource
import signal
import struct
import time

import pytest

import wire
from guest_kit import sleepers, wait_for
from wire import ROOT, Guest

TIMEOUT, CPU, MEMORY, PIDS = 1, 2, 3, 4
EPERM, EINVAL, ENOSYS = 1, 22, 38


# Commands


def test_ping(box):
    assert box.call("PING")[0] == "RESULT"


def test_exit_code_and_streams(box):
    kind, fields, output, _ = box.run("echo out; echo err >&2; exit 7")
    assert (kind, fields["EXIT_CODE"]) == ("RESULT", 7)
    assert (output[1], output[2]) == (b"out\n", b"err\n")
    assert "TERM_SIGNAL" not in fields and "LIMIT" not in fields
    assert fields["DURATION_NS"] > 0 and fields["MAX_RSS"] > 0


def test_stdin_is_carried(box):
    c = box.start(["cat"])
    data = os.urandom(3 << 20)
    for at in range(0, len(data), 60000):
        c.send("STDIN", DATA=data[at : at + 60000])
        drain(c)
    c.send("STDIN", EOF=1)
    kind, fields, output, _ = c.result()
    assert (c.seen + output[1] == data, fields["EXIT_CODE"]) == (True, 0)


def drain(c):
    """Takes the output that is already there, so that neither side waits for the other."""
    c.seen = getattr(c, "seen", b"")
    c.sock.setblocking(False)
    try:
        while True:
            more = c.sock.recv(1 << 20)
            c.data += more
    except BlockingIOError:
        pass
    c.sock.settimeout(20)
    while len(c.data) >= 8 and len(c.data) >= 8 + struct.unpack_from("<I", c.data)[0]:
        c.seen += c.frame()[1]["DATA"]


def test_environment_is_exactly_what_was_given(box):
    output = box.run(["/usr/bin/env"], ENV=["A=1", "B=x y"])[2]
    assert output[1] == b"A=1\nB=x y\n"


def test_only_three_descriptors_and_clean_signals(box):
    output = box.run(["python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"])[2]
    assert output[1] in (b"['0', '1', '2', '3']\n",)
    status = box.run(["grep", "-E", "^Sig(Blk|Ign)|^SigQ", "/proc/self/status"])[2][1].decode()
    assert "SigBlk:\t0000000000000000" in status and "SigIgn:\t0000000000000000" in status


def test_passed_descriptors(box):
    r, w = os.pipe()
    c = box.start("cat; echo done", "FDS", fds=[os.open("/dev/null", os.O_RDONLY), w, w])
    os.close(w)
    assert c.result()[1]["EXIT_CODE"] == 0
    assert os.read(r, 100) == b"done\n" and os.read(r, 100) == b""
    os.close(r)


def test_descriptors_must_be_three(box):
    kind, fields, *_ = box.start("true", "FDS").result()
    assert (kind, fields["CODE"]) == ("ERROR", EINVAL)


@pytest.mark.parametrize("argv,code,word", [(["nope"], 127, b"not found"), (["/no/such"], 127, b"not found"),
                                            (["/etc/passwd"], 126, b"permission denied"), (["/tmp"], 126, b"denied")])
def test_program_that_cannot_be_executed(box, argv, code, word):
    kind, fields, *_ = box.run(argv)
    assert (kind, fields["EXIT_CODE"]) == ("RESULT", code)
    assert word in fields["TEXT"] and fields["CODE"] > 0


def test_program_is_searched_along_the_given_path(box):
    (box.folder / "bin").mkdir()
    (box.folder / "bin" / "greet").write_text("echo hello $1\n")  # no #!: the shell runs it
    (box.folder / "bin" / "greet").chmod(0o755)
    kind, fields, output, _ = box.run(["greet", "you"], ENV=["PATH=/nowhere:" + ROOT + "/bin"])
    assert (output[1], fields["EXIT_CODE"]) == (b"hello you\n", 0)
    assert box.run(["greet"], ENV=["PATH=/usr/bin"])[1]["EXIT_CODE"] == 127
    too_long = "x" * 4096  # such a folder is passed over
    for path in (f"{too_long}:{ROOT}/bin", "/etc/passwd:" + ROOT + "/bin:/nowhere", ":/usr/bin"):  # empty: the folder we are in
        assert box.run(["greet", "you"], ENV=["PATH=" + path], CWD=ROOT + "/bin")[2][1] == b"hello you\n", path
    assert box.run(["./greet", "you"], ENV=["PATH=/nowhere"], CWD=ROOT + "/bin")[2][1] == b"hello you\n"
    assert box.run(["true"], ENV=[])[1]["EXIT_CODE"] == 0  # without PATH: /bin:/usr/bin


def test_working_directory(box):
    assert box.run(["pwd"], CWD="/usr")[2][1] == b"/usr\n"
    kind, fields, *_ = box.run(["pwd"], CWD="/no/such")
    assert kind == "ERROR" and b"/no/such" in fields["TEXT"]


def test_empty_and_impossible_requests(box):
    assert box.run([])[0] == "ERROR"
    assert box.run([b"a\0b"])[0] == "ERROR"
    assert box.run(["true"], CWD=b"/a\0b")[0] == "ERROR"
    assert box.run([""])[1]["EXIT_CODE"] == 127
    assert box.run(["true", "x" * 500000])[1]["EXIT_CODE"] == 126


def test_ended_by_a_signal(box):
    fields = box.run("kill -9 $$")[1]
    assert fields["TERM_SIGNAL"] == signal.SIGKILL and "EXIT_CODE" not in fields


def test_kill_goes_to_the_process_group(box):
    c = box.start("trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert c.frame()[1]["DATA"] == b"ready\n"
    c.send("KILL", SIGNAL=signal.SIGTERM)
    kind, fields, output, _ = c.result()
    assert (output[1], fields["EXIT_CODE"]) == (b"got\n", 5)


def test_timeout_cannot_be_ignored(box):
    began = time.monotonic()
    fields = box.run("trap '' TERM; sleep 60 & while :; do sleep 1; done", TIMEOUT_MS=200)[1]
    assert (fields["LIMIT"], fields["TERM_SIGNAL"]) == (TIMEOUT, signal.SIGKILL)
    assert 0.35 < time.monotonic() - began < 40
    assert not sleepers(box)


def test_timeout_lets_a_command_end_itself(box):
    fields = box.run("trap 'exit 9' TERM; while :; do sleep 0.02; done", TIMEOUT_MS=150)[1]
    assert (fields["LIMIT"], fields["EXIT_CODE"]) == (TIMEOUT, 9)


def test_timeout_of_a_stopped_command(box):
    assert box.run("kill -STOP $$", TIMEOUT_MS=100)[1]["LIMIT"] == TIMEOUT


def test_hang_up_cancels(box):
    c = box.start("setsid sleep 1000 & sleep 1001")
    assert wait_for(lambda: len(sleepers(box, "100")) == 2)
    c.close()
    assert wait_for(lambda: not sleepers(box, "100"))


# The end of a tree


DOUBLE_FORK = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
time.sleep(0.1)
print("left", flush=True)
"""


def test_double_fork_dies_with_the_command(box):
    began = time.monotonic()
    kind, fields, output, _ = box.run(["python3", "-c", DOUBLE_FORK])
    assert (output[1], fields["EXIT_CODE"]) == (b"left\n", 0)
    assert time.monotonic() - began < 60
    assert not sleepers(box)


def test_grandchild_that_holds_the_output(box):
    began = time.monotonic()
    kind, fields, output, _ = box.run("(sleep 1000; echo never) & echo now")
    assert (output[1], fields["EXIT_CODE"]) == (b"now\n", 0)
    assert time.monotonic() - began < 60


def test_other_commands_are_left_alone(box):
    other = box.start("setsid sleep 2000 & echo up; sleep 2001; wait")
    assert other.frame()[1]["DATA"] == b"up\n"
    kind, fields, output, _ = box.run(["python3", "-c", DOUBLE_FORK])
    assert output[1] == b"left\n"
    assert len(sleepers(box, "200")) == 2 and not sleepers(box, "1000")
    other.send("KILL", SIGNAL=signal.SIGKILL)
    assert other.result()[1]["TERM_SIGNAL"] == signal.SIGKILL
    assert wait_for(lambda: not sleepers(box))


def test_forged_tag_is_no_escape(box):
    other = box.start(["sleep", "3000"])
    script = "prlimit --pid $$ --rttime=77:77; setsid sleep 1000 & sleep 0.1; echo done"
    assert box.run(script)[2][1] == b"done\n"
    assert sleepers(box, "3000") and not sleepers(box, "1000")
    other.close()


def test_fork_bomb_dies(box):
    bomb = "import os, time\nfor i in range(7): os.fork()\nos.setsid() if os.getpid() % 2 else 0\ntime.sleep(1000)"
    other = box.start(["sleep", "3000"])
    fields = box.run(["python3", "-c", bomb], TIMEOUT_MS=1500)[1]
    assert fields["LIMIT"] == TIMEOUT
    assert not [p for p in box.processes() if "python3" in p]
    assert sleepers(box, "3000")
    other.close()


def test_neighbour_that_stops_everybody_does_not_stop_the_guest(box):
    stopper = "import os, signal\nwhile True:\n try: os.kill(-1, signal.SIGSTOP)\n except OSError: pass"
    handle = box.run(["python3", "-c", stopper], "NULL", BACKGROUND=1)[1]["HANDLE"]
    time.sleep(0.2)
    for _ in range(20):
        assert box.run(["true"], TIMEOUT_MS=50)[1].get("LIMIT") in (None, TIMEOUT)
    assert box.call("STATUS", HANDLE=handle)[1]["RUNNING"] == 1
    box.call("SIGNAL", HANDLE=handle, SIGNAL=signal.SIGKILL)
    assert wait_for(lambda: box.run("exit 8", TIMEOUT_MS=1000)[1].get("EXIT_CODE") == 8)


# Limits that the guest samples


def test_cpu_time_over_children(box):
    script = "for i in 1 2 3; do python3 -c 'while True: pass' & done; wait"
    fields = box.run(script, CPU_MS=400, TIMEOUT_MS=15000)[1]
    assert fields["LIMIT"] == CPU and fields["CPU_US"] > 0


def test_cpu_time_of_orphans(box):
    script = "for i in 1 2 3 4 5 6; do (ulimit -t 1; setsid python3 -c 'while True: pass' &) ; done; sleep 60"
    assert box.run(script, CPU_MS=2500, TIMEOUT_MS=60000)[1]["LIMIT"] == CPU


def test_memory(box):
    fields = box.run(["python3", "-c", "import time\nx = b'x' * (200 << 20)\ntime.sleep(60)"], MEMORY=100 << 20)[1]
    assert fields["LIMIT"] == MEMORY


def test_pids(box):
    fields = box.run("for i in $(seq 30); do sleep 60 & done; wait", PIDS=20, TIMEOUT_MS=15000)[1]
    assert fields["LIMIT"] == PIDS


def test_within_limits(box):
    fields = box.run("sleep 0.2; exit 4", PIDS=20, MEMORY=100 << 20, CPU_MS=5000, TIMEOUT_MS=15000)[1]
    assert fields["EXIT_CODE"] == 4 and "LIMIT" not in fields


# Output


def test_much_output_is_exact(box):
    kind, fields, output, _ = box.run("seq 1 400000; seq 1 1000 >&2")
    assert output[1] == b"".join(b"%d\n" % i for i in range(1, 400001))
    assert output[2] == b"".join(b"%d\n" % i for i in range(1, 1001))


def test_reader_that_is_slow_holds_up_nobody(box):
    slow = box.start("yes")
    time.sleep(0.3)
    assert box.run("echo quick")[2][1] == b"quick\n"
    slow.close()
    assert wait_for(lambda: not [p for p in box.processes() if "yes" in p])


def test_input_that_nobody_reads(box):
    c = box.start("exec 0<&-; sleep 0.3; echo end")
    time.sleep(0.1)
    for _ in range(100):
        c.send("STDIN", DATA=b"x" * 60000)
    assert c.result()[2][1] == b"end\n"


def test_input_to_a_command_that_sleeps_is_bounded(box):
    c = box.start("sleep 1000")
    c.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        for _ in range(100):
            c.send("STDIN", DATA=b"x" * 60000)
    c.close()
    assert wait_for(lambda: not sleepers(box))


# Terminals


def test_terminal(box):
    c = box.start("tty; stty size; read x; stty size; echo got $x", "PTY", ROWS=33, COLS=99)
    seen = b""
    while b"33 99" not in seen:
        seen += c.frame()[1]["DATA"]
    assert b"/dev/pts/" in seen
    c.send("RESIZE", ROWS=10, COLS=20)
    c.send("STDIN", DATA=b"word\n")
    kind, fields, output, _ = c.result()
    assert b"10 20" in output[1] and b"got word" in output[1] and fields["EXIT_CODE"] == 0


def test_terminal_interrupt_and_end(box):
    c = box.start(["cat"], "PTY")
    c.send("STDIN", DATA=b"\x03")
    assert c.result()[1]["TERM_SIGNAL"] == signal.SIGINT
    c = box.start(["cat"], "PTY")
    c.send("STDIN", EOF=1)
    assert c.result()[1]["EXIT_CODE"] == 0


def test_terminal_output_is_complete(box):
    output = box.start("seq 1 20000", "PTY").result()[2]
    assert output[1] == b"".join(b"%d\r\n" % i for i in range(1, 20001))


# Hostile frames and neighbours


@pytest.mark.parametrize("data", [b"\xff" * 64, struct.pack("<IB3x", 1 << 30, 2), struct.pack("<IBBBB", 0, 1, 0, 1, 0),
                                  struct.pack("<IB3x", 8, 2) + struct.pack("<HHI", 1, 0, 99),
                                  struct.pack("<IB3x", 4, 2) + b"abcd"])
def test_malformed_frames_end_only_their_connection(box, data):
    c = box.connect()
    c.sock.sendall(data)
    assert c.result()[0] is None
    assert box.run("exit 2")[1]["EXIT_CODE"] == 2


def test_malformed_frame_while_a_command_runs(box):
    c = box.start("sleep 1000")
    c.sock.sendall(b"\xff" * 64)
    assert c.result()[0] is None
    assert wait_for(lambda: not sleepers(box))


def test_unknown_request(box):
    c = box.connect()
    c.sock.sendall(struct.pack("<IB3x", 0, 99))
    assert c.result()[1]["CODE"] == ENOSYS


def test_frames_in_pieces(box):
    c = box.connect()
    for byte in wire.frame("EXEC", ARG=["echo", "hi"], ENV=wire.ENV, CWD="/", STDIO=1):
        c.sock.sendall(bytes([byte]))
    assert c.result()[2][1] == b"hi\n"


def test_many_connections(box):
    idle = [box.connect() for _ in range(100)]
    running = [box.start("sleep 0.2; echo %d" % i) for i in range(40)]
    assert [c.result()[2][1] for c in running] == [b"%d\n" % i for i in range(40)]
    for c in idle:
        c.close()


def answers(box):
    with contextlib.suppress(ConnectionResetError):
        return box.call("PING")[0] == "RESULT"


def test_too_many_connections_are_closed(box):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    idle = [box.connect() for _ in range(1100)]
    assert idle[-1].result()[0] is None
    for c in idle[:50]:
        c.close()
    assert wait_for(lambda: answers(box))
    for c in idle[50:]:
        c.close()


def test_guest_is_out_of_reach(box):
    for what in ("cat /proc/1/environ", "readlink /proc/1/fd/3", "readlink /proc/1/exe", "ls /proc/1/root/", "cat /proc/1/mem"):
        assert box.run(what)[1]["EXIT_CODE"] != 0, what
    ptrace = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.ptrace(16, 1, 0, 0), ctypes.get_errno())"
    assert box.run(["python3", "-c", ptrace])[2][1] == b"-1 %d\n" % EPERM
    assert box.run("kill -9 1; kill -STOP 1; kill -SEGV 1; kill -CHLD 1; echo alive")[2][1] == b"alive\n"
    assert box.call("PING")[0] == "RESULT"


def test_end_of_the_control_socket_ends_everything(tmp_path):
    guest = Guest(tmp_path)
    r, w = os.pipe()
    c = guest.start("setsid sleep 1000 & sleep 1000", "FDS", fds=[w, w, w])
    os.close(w)
    assert guest.call("PING")[0] == "RESULT"
    began = time.monotonic()
    guest.end()
    assert os.read(r, 1) == b"" and time.monotonic() - began < 60
    assert c.result()[0] is None
