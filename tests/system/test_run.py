"""`hutch run` as its manual tells it: options, exit statuses, streams, the result object. Limits are in test_limits.py."""
import base64
import fcntl
import hashlib
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

import harness

# Exit statuses.


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143),
                                            ("kill -KILL $$", 137), ("kill -SEGV $$", 139)])
def test_status_is_the_commands(box, script, status):
    assert box.run("sh", "-c", script).returncode == status


def test_status_of_a_command_that_is_not_there(box):
    assert box.run("no-such-command-here").returncode == 127
    assert box.run("./no-such-file").returncode == 127


def test_status_of_a_command_that_cannot_be_started(box):
    box.put("plain", "text\n", 0o644)
    assert box.run("./plain").returncode == 126
    assert box.run("/workspace").returncode == 126


def test_status_of_a_time_limit(box):
    done = box.run("sleep", "20", opts=["--timeout", "300ms"])
    assert done.returncode == 124
    assert done.stderr == "hutch: the command was killed: it ran longer than its time limit (--timeout)\n"


# Wrong usage and boxes that cannot be made: one line each.

USAGE = [
    (["run"], "no command given; usage: hutch run [OPTIONS] [--] COMMAND [ARG...]"),
    (["run", "--"], "no command given; usage: hutch run [OPTIONS] [--] COMMAND [ARG...]"),
    (["run", "--memory", "12Q", "true"], "--memory: '12Q' is not a size like 512M or 2G"),
    (["run", "--memory=", "true"], "--memory: '' is not a size like 512M or 2G"),
    (["run", "--timeout", "5", "true"], "--timeout: '5' is not a time like 250ms, 30s or 5m"),
    (["run", "--cpu-time", "-1s", "true"], "--cpu-time: '-1s' is not a time like 250ms, 30s or 5m"),
    (["run", "--pids", "0", "true"], "--pids: '0' is not a number of 1 or more"),
    (["run", "--files", "x", "true"], "--files: 'x' is not a number of 1 or more"),
    (["run", "--disk", "1X", "true"], "--disk: '1X' is not a size like 512M or 2G"),
    (["run", "--output", "-1", "true"], "--output: '-1' is not a size like 512M or 2G"),
    (["run", "--output-total", "0", "true"], "--output-total: nothing can run with 0"),
    (["run", "--cpus", "none", "true"], "--cpus: 'none' is not a number of processors like 0.5 or 2"),
    (["run", "--mode", "rw", "true"], "--mode: 'rw' is not one of cow|direct|ro"),
    (["run", "--backend", "vm", "true"], "--backend: 'vm' is not a backend of this build; use ns"),
    (["run", "--backend", "xen", "true"], "--backend: 'xen' is not a backend of this build; use ns"),
    (["run", "--net", "on", "true"], "--net: 'on' is not one of off|host|allow:H[:P][,...]"),
    (["run", "--net", "allow:", "true"], "--net: the list of allowed hosts has an empty entry"),
    (["run", "--net", "allow:a b", "true"], None),
    (["run", "--env", "1=2", "true"], "--env: '1=2' is not NAME=VALUE"),
    (["run", "--env", "A", "true"], "--env: 'A' is not NAME=VALUE"),
    (["run", "--ro", "/usr:/proc/x", "true"], "--ro: cannot show it at '/proc/x' in the box: the box has its own there"),
    (["run", "--rw", "/usr:there", "true"],
     "--rw: cannot show it at 'there' in the box: it is not an absolute path without '.', '..' and '//'"),
    (["run", "--image", "a/b", "true"],
     "--image: 'a/b' is not a name of letters, digits, '.', '_', '-', ':' and '@'"),
    (["run", "--apply", "--mode", "ro", "true"],
     "--apply needs --mode cow: other modes keep no changes apart"),
    (["run", "--json=yes", "true"], "--json takes no value"),
    (["run", "--workspace"], "--workspace needs a value: --workspace DIR"),
    (["run", "--memroy", "1G", "true"], "unknown option '--memroy'; did you mean '--memory'?"),
    (["run", "-q", "true"], "unknown option '-q'"),
    (["run", "--ttl", "5m", "true"], "unknown option '--ttl'; did you mean '--tty'?"),
    (["rum"], "there is no command 'rum'; did you mean 'run'?"),
    (["frobnicate"], "there is no command 'frobnicate'; see 'hutch help'"),
    (["--frobnicate"], "unknown option '--frobnicate'"),
    (["doctor", "now"], "too many arguments; usage: hutch doctor [--json]"),
    (["help", "rum"], "there is no command 'rum'; did you mean 'run'?"),
    (["run", "--memory", "1\n2\033[31m", "true"], r"--memory: '1\x0a2\x1b[31m' is not a size like 512M or 2G"),
]


@pytest.mark.parametrize("args, line", USAGE, ids=[" ".join(args).replace("\n", " ") for args, _ in USAGE])
def test_wrong_usage(make_box, args, line):
    done = make_box("user").hutch(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1
    if line:
        assert done.stderr == f"hutch: {line}\n"


def failure(box, *args, env=None):
    done = box.hutch(*args, env=env)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1
    return done.stderr[len("hutch: "):-1]


def test_workspace_that_is_not_there(box):
    assert failure(box, "run", "-w", "/no/such", "true") == \
        "cannot show the workspace '/no/such': No such file or directory"
    path = box.put("file")
    assert failure(box, "run", "-w", path, "true") == \
        f"cannot show the workspace '{path}': Not a directory"


def test_share_that_is_not_there(box):
    assert failure(box, "run", "-w", box.workspace, "--ro", "/no/such", "true") == \
        "--ro: cannot show '/no/such' in a box: No such file or directory"
    assert "two shares at the same path '/x'" in \
        failure(box, "run", "-w", box.workspace, "--ro", "/usr:/x", "--ro", "/etc:/x", "true")


# The workspace and its modes.


def test_workspace_is_the_current_folder(box):
    box.put("here", "yes\n")
    done = box.hutch("run", "--", "cat", "/workspace/here", cwd=box.workspace)
    assert (done.returncode, done.stdout) == (0, "yes\n")


def test_command_starts_in_the_workspace(box):
    assert box.run("pwd").stdout == "/workspace\n"


def test_cow_keeps_changes_apart(box):
    box.put("old", "before\n")
    done = box.run("sh", "-c", "cat old; echo after > old; echo new > new; cat old new")
    assert done.stdout == "before\nafter\nnew\n"
    assert (box.workspace / "old").read_text() == "before\n"
    assert not (box.workspace / "new").exists()


def test_direct_writes_through(box):
    box.put("old", "before\n")
    done = box.run("sh", "-c", "echo after > old; mkdir d; echo new > d/new", opts=["--mode", "direct"])
    assert done.returncode == 0, done
    assert (box.workspace / "old").read_text() == "after\n"
    made = box.workspace / "d" / "new"
    assert made.read_text() == "new\n"
    assert (made.stat().st_uid, made.stat().st_gid) == (box.caller.uid, box.caller.gid)


def test_ro_refuses(box):
    box.put("old", "before\n")
    done = box.run("sh", "-c", "cat old; echo after > old", opts=["--mode", "ro"])
    assert done.returncode != 0 and done.stdout == "before\n"
    assert (box.workspace / "old").read_text() == "before\n"


def test_apply(box):
    box.put("old", "before\n")
    box.put("gone", "x")
    done = box.run("sh", "-c", "echo after > old; echo new > new; rm gone", opts=["--apply"])
    assert (done.returncode, done.stderr) == (0, "hutch: applied 3 changes\n")
    assert (box.workspace / "old").read_text() == "after\n"
    assert (box.workspace / "new").read_text() == "new\n"
    assert not (box.workspace / "gone").exists()
    assert (box.workspace / "new").stat().st_uid == box.caller.uid


def test_apply_nothing(box):
    done = box.run("true", opts=["--apply"])
    assert (done.returncode, done.stderr) == (0, "hutch: nothing to apply\n")


def test_apply_only_on_success(box):
    done = box.run("sh", "-c", "echo new > new; exit 3", opts=["--apply"])
    assert (done.returncode, done.stderr) == (3, "")
    assert not (box.workspace / "new").exists()


def test_apply_with_a_conflict(box):
    box.put("mine", "before\n")
    with box.start("sh", "-c", "echo theirs > mine; echo new > new; echo ready; read go", opts=["--apply"]) as running:
        assert running.stdout.readline() == b"ready\n"
        box.put("mine", "edited meanwhile\n")
        _, stderr = running.communicate(b"go\n", timeout=300)
    assert running.returncode == 1
    lines = stderr.decode().splitlines()
    assert lines[0].startswith("hutch: conflict: mine: ")
    assert lines[-1] == "hutch: applied 1 change; 1 not applied"
    assert (box.workspace / "mine").read_text() == "edited meanwhile\n"
    assert (box.workspace / "new").read_text() == "new\n"


# Shares, environment, image.


def test_ro_share(box):
    folder = box.caller.folder(box.scratch, "share")
    (folder / "file").write_text("shared\n")
    done = box.run("sh", "-c", f"cat {folder}/file; echo x > {folder}/file", opts=["--ro", folder])
    assert done.stdout == "shared\n" and done.returncode != 0
    assert (folder / "file").read_text() == "shared\n"


def test_rw_share_at_another_place(box):
    folder = box.caller.folder(box.scratch, "share")
    done = box.run("sh", "-c", "echo written > /cache/file", opts=["--rw", f"{folder}:/cache"])
    assert done.returncode == 0, done
    assert (folder / "file").read_text() == "written\n"
    assert (folder / "file").stat().st_uid == box.caller.uid


def test_relative_share(box):
    folder = box.caller.folder(box.workspace, "inner")
    (folder / "file").write_text("yes\n")
    done = box.hutch("run", "-w", box.workspace, "--ro", folder.name, "--", "cat", folder / "file", cwd=box.workspace)
    assert done.stdout == "yes\n", done


def test_several_shares(box):
    opts = []
    for i in range(3):
        folder = box.caller.folder(box.scratch, "share")
        (folder / "file").write_text(f"{i}\n")
        opts += ["--ro", f"{folder}:/opt/s{i}"]
    assert box.run("sh", "-c", "cat /opt/s*/file", opts=opts).stdout == "0\n1\n2\n"


def test_environment_is_made_up(box):
    done = box.run("env", env={"SECRET": "s3cret", "PATH": os.environ["PATH"]})
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert "SECRET" not in seen and "s3cret" not in done.stdout
    assert seen["HOME"] == "/home/agent" and seen["USER"] == "agent"
    assert "/usr/bin" in seen["PATH"].split(":")


def test_env_option(box):
    opts = ["--env", "A=1", "--env", "EMPTY=", "--env", "B=x=y z\n", "--env", "HOME=/tmp", "--env", "A=2"]
    done = box.run("sh", "-c", 'printf "%s|%s|%s|%s|%s" "$A" "$EMPTY" "${EMPTY+set}" "$B" "$HOME"', opts=opts)
    assert done.stdout == "2||set|x=y z\n|/tmp"


def test_image_that_is_not_there(box):
    place = box.caller.home / ".local/share/hutch/images/nope/rootfs"
    assert failure(box, "run", "-w", box.workspace, "--image", "nope", "true") == \
        f"there is no image 'nope'; unpack its root filesystem to {place}"


def test_image(box):
    """A root filesystem with one program and its libraries."""
    data = box.caller.folder(box.scratch, "data")
    root = data / "hutch/images/tiny/rootfs"
    program = shutil.which("cat")
    libraries = [word for word in subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
                 .stdout.split() if word.startswith("/")]
    for path in [program, *libraries]:
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), copy)
    (root / "marker").write_text("the image's\n")
    subprocess.run(["chown", "-R", f"{box.caller.uid}:{box.caller.gid}", data], check=True)
    done = box.run(program, "/marker", "/workspace/file", opts=["--image", "tiny"], env={"XDG_DATA_HOME": str(data)})
    box.put("file", "the folder's\n")
    assert done.stdout == "the image's\n"
    done = box.run(program, "/marker", "/workspace/file", opts=["--image", "tiny"], env={"XDG_DATA_HOME": str(data)})
    assert done.stdout == "the image's\nthe folder's\n"


def test_command_that_is_on_the_host_only(box):
    tools = box.caller.folder(box.scratch, "tools")
    (tools / "bin").mkdir()
    tool = tools / "bin" / "hosttool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    subprocess.run(["chmod", "755", tools, tools / "bin"], check=True)
    done = box.run("hosttool", env={"PATH": f"{tools}/bin:/usr/bin:/bin"})
    assert done.returncode == 127
    assert done.stderr == (f"hutch: 'hosttool' is not in the box but is at {tool} on the host; show it with --ro {tools}"
                           " and call it by that path\n")
    assert box.run(tool, opts=["--ro", tools]).stdout == "ran\n"
    opts = ["--ro", tools, "--env", f"PATH={tools}/bin:/usr/bin:/bin"]
    assert box.run("hosttool", opts=opts, env={"PATH": f"{tools}/bin:/usr/bin:/bin"}).stdout == "ran\n"


def test_status_127_of_a_script_is_its_own(box):
    done = box.run("sh", "-c", "exit 127")
    assert (done.returncode, done.stderr) == (127, "")


# Streams.


def test_streams_are_apart(box):
    done = box.run("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_stdin_passes_through(box):
    data = bytes(range(256)) * 4096
    done = box.run("cat", input=data)
    assert done.stdout_bytes == data


def test_stdin_that_nobody_reads(box):
    assert box.run("true", input=b"x" * (4 << 20)).returncode == 0


def test_stdin_ends(box):
    assert box.run("sh", "-c", "cat; echo end").stdout == "end\n"


def test_null_as_stdin_stays_a_device(box):
    """rg and ack search the folder with /dev/null as standard input, but read a pipe."""
    assert box.run("readlink", "/proc/self/fd/0").stdout == "/dev/null\n"
    assert box.run("readlink", "/proc/self/fd/0", input="").stdout.startswith("pipe:")


def test_closed_descriptors(box):
    command = " ".join(box.command("sh", "-c", "'echo out; echo err >&2; exit 3'"))
    done = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], env=box.env, cwd="/", check=False, timeout=30)
    assert done.returncode == 3


def test_reader_that_goes_away(box):
    """`hutch run -- yes | head -n 1` ends, and so does the box."""
    with box.start("yes", stdin=subprocess.DEVNULL) as running:
        assert running.stdout.readline() == b"y\n"
        running.stdout.close()
        running.wait(timeout=300)
    assert running.returncode != 0




def test_a_gigabyte_arrives_whole(box):
    script = box.put("make.py", "import sys\nout = sys.stdout.buffer\nblock = bytes(range(256)) * 4096\n"
                     "for i in range(1024):\n    out.write(i.to_bytes(4, 'little') + block[4:])\n")
    wanted = hashlib.sha256()
    block = bytes(range(256)) * 4096
    for i in range(1024):
        wanted.update(i.to_bytes(4, "little") + block[4:])
    with box.start("/usr/bin/python3", f"/workspace/{script.name}", stdin=subprocess.DEVNULL) as running:
        got = hashlib.sha256()
        size = 0
        while data := running.stdout.read(1 << 20):
            got.update(data)
            size += len(data)
        running.wait(timeout=300)
    assert (running.returncode, size) == (0, 1 << 30)
    assert got.digest() == wanted.digest()


# Signals.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_box(box, number):
    with box.start("sh", "-c", "echo ready; sleep 30") as running:
        assert running.stdout.readline() == b"ready\n"
        os.kill(hutch_pid(running), number)
        running.wait(timeout=300)
    assert running.returncode == 128 + number


def hutch_pid(running):
    """The program's pid: setpriv, where it is used, becomes the program."""
    return running.pid


def test_killing_hutch_ends_the_box(box):
    before = set(harness.descendants())
    with box.start("sh", "-c", "echo ready; sleep 30") as running:
        assert running.stdout.readline() == b"ready\n"
        running.kill()
    assert harness.leftovers(before) == []


# The terminal.


class Terminal:
    """hutch on a pseudo-terminal, with what it shows."""

    def __init__(self, box, *argv, rows=33, cols=101):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.slave = slave
        self.shown = b""
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, cwd="/", start_new_session=True,
                                        env={**box.env, "TERM": "vt100"})

    def until(self, text, seconds=120):
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65536)

    def type(self, text):
        os.write(self.master, text)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(box):
    made = []

    def start(*argv, opts=("--tty",), **more):
        made.append(Terminal(box, *box.command(*argv, opts=opts), **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_tty_is_a_terminal(terminal):
    t = terminal("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && tty")
    t.until(b"33 101")
    t.until(b"vt100")
    assert t.process.wait(timeout=300) == 0


def test_no_tty_is_no_terminal(terminal):
    t = terminal("sh", "-c", "test -t 0 || test -t 1 || echo none", opts=())
    t.until(b"none")


def test_tty_is_raw_and_restored(terminal):
    t = terminal("sh", "-c", "echo ready; read line; echo got $line; exit 4")
    t.until(b"ready")
    assert t.is_raw()
    t.type(b"hello\r")
    t.until(b"got hello")
    assert t.process.wait(timeout=300) == 4
    assert not t.is_raw()


def test_tty_interrupt_goes_to_the_command(terminal):
    t = terminal("sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done")
    t.until(b"ready")
    t.type(b"\x03")
    t.until(b"interrupted")
    assert t.process.wait(timeout=300) == 9
    assert not t.is_raw()


def test_tty_is_restored_on_signals(terminal):
    t = terminal("sh", "-c", "echo ready; sleep 30")
    t.until(b"ready")
    assert t.is_raw()
    t.process.terminate()
    assert t.process.wait(timeout=300) == 143
    assert not t.is_raw()


def test_tty_follows_the_size(terminal):
    t = terminal("sh", "-c", "echo ready; while sleep 0.1; do stty size; done")
    t.until(b"33 101")
    fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 99, 0, 0))
    t.until(b"44 99")


def test_tty_without_a_terminal(box):
    """On a pseudo-terminal inside although there is none outside."""
    done = box.run("sh", "-c", "test -t 1 && echo yes", opts=["--tty"])
    assert done.stdout == "yes\r\n"


# The result object.

TYPES = {"exit_code": int, "signal": (str, type(None)), "timed_out": bool, "killed_by": (str, type(None)),
         "stdout": str, "stderr": str, "stdout_bytes": int, "stderr_bytes": int, "truncated": bool,
         "duration_ms": int, "cpu_ms": int, "max_rss": int, "changes": list}


def test_result_has_its_members(box):
    done = box.run("sh", "-c", "echo out; echo err >&2; exit 3", opts=["--json"])
    assert done.returncode == 3 and done.stderr == ""
    assert done.stdout.endswith("}\n") and done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert set(result) == set(TYPES)
    for name, kind in TYPES.items():
        assert isinstance(result[name], kind), name
    assert (result["exit_code"], result["signal"], result["timed_out"], result["killed_by"]) == (3, None, False, None)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert (result["stdout_bytes"], result["stderr_bytes"], result["truncated"]) == (4, 4, False)
    assert result["max_rss"] > 1 << 18 and 0 <= result["duration_ms"] < 30000


def test_result_of_a_signal(box):
    done = box.run("sh", "-c", "kill -SEGV $$", opts=["--json"])
    result = json.loads(done.stdout)
    assert (done.returncode, result["exit_code"], result["signal"]) == (139, 139, "SIGSEGV")


def test_result_of_bytes(box):
    result = box.json("printf", r"a\377b\0c")
    assert "stdout" not in result
    assert base64.b64decode(result["stdout_base64"]) == b"a\xffb\0c"
    assert result["stderr"] == "" and result["stdout_bytes"] == 5


@pytest.mark.parametrize("data, is_text", [(b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0\x1b[0m", True), (b"\xed\xa0\x80", False),
                                           (b"\xc0\xaf", False), (b"\xf4\x90\x80\x80", False), (b"\xe2\x82", False)])
def test_result_is_strict_about_utf8(box, data, is_text):
    box.put("data", data)
    result = box.json("cat", "data")
    if is_text:
        assert result["stdout"].encode() == data
    else:
        assert base64.b64decode(result["stdout_base64"]) == data


def test_result_keeps_head_and_tail(box):
    result = box.json("sh", "-c", "seq 1 100000", opts=["--output", "1K"])
    whole = "".join(f"{i}\n" for i in range(1, 100001))
    assert (result["truncated"], result["stdout_bytes"]) == (True, len(whole))
    head, gap, tail = result["stdout"].partition("\n[… ")
    count, _, tail = tail.partition(" bytes left out …]\n")
    assert gap and whole.startswith(head) and whole.endswith(tail)
    assert len(head) + len(tail) + int(count) == len(whole)
    assert 900 <= len(head) + len(tail) <= 1024 and len(head) > 200 and len(tail) > 200


def test_result_cuts_no_character(box):
    for limit in (100, 101, 102, 103):
        result = box.json("/usr/bin/python3", "-c", "print('€' * 10000, end='')", opts=["--output", limit])
        head, _, tail = result["stdout"].partition("\n[… ")
        count, _, tail = tail.partition(" bytes left out …]\n")
        assert set(head) == set(tail) == {"€"}
        assert 3 * (len(head) + len(tail)) + int(count) == result["stdout_bytes"] == 30000


def test_result_counts_a_gigabyte(box):
    result = box.json("head", "-c", "1G", "/dev/zero", opts=["--output", "64K"])
    assert (result["exit_code"], result["stdout_bytes"], result["truncated"]) == (0, 1 << 30, True)
    assert len(result["stdout"]) < 70000


def test_result_has_the_changes(box):
    box.put("old", "x")
    box.put("gone", "x")
    result = box.json("sh", "-c", "echo y > old; rm gone; mkdir d; echo z > d/new; printf x > \"$(printf 'n\\377')\"")
    changes = {c.get("path") or base64.b64decode(c["path_base64"]): c["kind"] for c in result["changes"]}
    assert changes["old"] == "modified" and changes["gone"] == "deleted" and changes["d/new"] == "added"
    assert changes[b"n\xff"] == "added"
    assert all(set(c) in ({"path", "kind"}, {"path_base64", "kind"}) for c in result["changes"])


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_result_has_no_changes_in_other_modes(box, mode):
    assert box.json("sh", "-c", "echo y > new; true", opts=["--mode", mode])["changes"] == []


def test_result_with_apply(box):
    done = box.run("sh", "-c", "echo y > new", opts=["--json", "--apply"])
    assert json.loads(done.stdout)["changes"] == [{"path": "new", "kind": "added"}]
    assert done.stderr == "hutch: applied 1 change\n"
    assert (box.workspace / "new").read_text() == "y\n"


def test_result_of_a_tty(box):
    result = box.json("sh", "-c", "test -t 1 && echo yes", opts=["--tty"])
    assert (result["exit_code"], result["stdout"]) == (0, "yes\r\n")
