"""What the tests that drive the built program share: who runs it, in which folder, and what is left behind.

A Box is one caller (root, or an ordinary user) with a workspace folder of its own. Every command that a test starts
goes through it, so that time limits, environment and clean-up are the same everywhere. Nothing here trusts what a box
prints: tests assert on the host's side where they can.
"""
import ctypes
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
ACCOUNT = "hutch-test"
PR_SET_CHILD_SUBREAPER = 36


def decode(data):
    """Bytes of a box as text, losslessly: whatever is not UTF-8 survives as surrogates."""
    return data.decode("utf-8", "surrogateescape")


class Caller:
    """Who starts the program: its ids, its made-up home, and the prefix that turns root into it."""

    def __init__(self, name, uid, gid, scratch):
        self.name, self.uid, self.gid = name, uid, gid
        self.home = self.folder(scratch, "home-" + name)
        self.prefix = []
        if os.geteuid() != uid:
            self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]

    def own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path

    def folder(self, parent, prefix):
        """A fresh folder that only this caller can enter."""
        return self.own(Path(tempfile.mkdtemp(prefix=prefix + "-", dir=parent)))

    def can_run(self, path):
        return subprocess.run([*self.prefix, "test", "-x", str(path)], check=False).returncode == 0


def ordinary_account():
    """An account without any right, made for these tests when root runs them."""
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        pass
    if not shutil.which("useradd"):
        pytest.skip("no useradd on this host: cannot make an ordinary user to test as")
    subprocess.run(["useradd", "-M", "-d", "/nonexistent", "-s", "/bin/sh", ACCOUNT], check=False, capture_output=True)
    return pwd.getpwnam(ACCOUNT)


def make_caller(name, scratch):
    if name == "root":
        if os.geteuid() != 0:
            pytest.skip("not root: root half needs root")
        return Caller("root", 0, 0, scratch)
    if os.geteuid() != 0:
        return Caller("user", os.geteuid(), os.getegid(), scratch)
    account = ordinary_account()
    return Caller("user", account.pw_uid, account.pw_gid, scratch)


def reachable_program(program, caller, scratch):
    """The program where the caller can start it: in place, or copied with its other parts beside it."""
    if not program.exists():
        pytest.skip(f"not built: {program}")
    if caller.can_run(program):
        return program
    copy = Path(tempfile.mkdtemp(prefix="bin-", dir=scratch))
    copy.chmod(0o755)
    copy_parts(program, copy)
    return copy / program.name


def copy_parts(program, folder):
    for name in (program.name, "hutch-guest", "hutch-agent", "hutch-server", "hutch-worker", "hutch-warm.so"):
        if program.with_name(name).exists():
            shutil.copy2(program.with_name(name), folder / name)
    shutil.copytree(program.with_name("hutch-skeleton"), folder / "hutch-skeleton", symlinks=True)


def built(name):
    """A program of the tests' own; skips where it was not built."""
    path = Path(os.environ.get("HUTCH") or REPO / "build" / "hutch").parent / "tests" / "unit" / name
    if not path.exists():
        pytest.skip(f"not built: {path}")
    return path


_beside = {}


def beside_parts(program, caller, scratch):
    """A copy of the program with all parts of hutch beside it, where the caller can start it; one for the whole session."""
    key = program, caller.name, scratch
    if key not in _beside:
        folder = caller.folder(scratch, "parts")
        copy_parts(program.parents[3] / "hutch", folder)
        _beside[key] = Path(shutil.copy2(program, folder))
        for path in folder.glob("*"):
            caller.own(path)
    return _beside[key]


class Dialogue:
    """A program that answers each line of its input with a line of JSON. The first comes by itself."""

    def __init__(self, command, wait=True, **popen):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **popen)
        self.opened = self.answer() if wait else {}

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"it ended with status {self.process.wait()}"
        return json.loads(line)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Finished:
    """How a command ended. Output is text that keeps every byte (see decode)."""

    def __init__(self, returncode, stdout, stderr, seconds):
        self.returncode, self.seconds = returncode, seconds
        self.stdout_bytes, self.stderr_bytes = stdout, stderr
        self.stdout, self.stderr = decode(stdout), decode(stderr)

    def __repr__(self):
        return (f"<status {self.returncode} after {self.seconds:.1f}s\n"
                f"stdout: {self.stdout[-3000:]}\nstderr: {self.stderr[-2000:]}>")


class Box:
    """`hutch run` as one caller, in one workspace."""

    def __init__(self, program, caller, scratch):
        self.program, self.caller, self.scratch = program, caller, scratch
        self.workspace = caller.folder(scratch, "ws")
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                    "HOME": str(caller.home), "XDG_RUNTIME_DIR": str(caller.home)}
        if "HUTCH_WEAKEN" in os.environ:
            self.env["HUTCH_WEAKEN"] = os.environ["HUTCH_WEAKEN"]

    def put(self, name, data="", mode=0o644):
        """A file of the caller in the workspace."""
        path = self.workspace / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        return self.caller.own(path)

    def command(self, *argv, opts=(), workspace=None):
        where = str(workspace or self.workspace)
        return [*self.caller.prefix, str(self.program), "run", "-w", where, *map(str, opts), "--", *map(str, argv)]

    def hutch(self, *args, input=None, timeout=180, env=None, cwd=None, pass_fds=()):
        """Any subcommand, run to its end."""
        return self._finish([*self.caller.prefix, str(self.program), *map(str, args)], input, timeout, env, cwd, pass_fds)

    def run(self, *argv, opts=(), workspace=None, input=None, timeout=180, env=None, cwd=None, pass_fds=()):
        """One command in a fresh box, run to its end. Fails the test if the box could not be made."""
        done = self._finish(self.command(*argv, opts=opts, workspace=workspace), input, timeout, env, cwd, pass_fds)
        if done.returncode == 125 and "hutch:" in done.stderr:
            pytest.fail(f"the box was not made: {done.stderr}")
        return done

    def json(self, *argv, opts=(), **more):
        """The result object of one command."""
        done = self.run(*argv, opts=["--json", *opts], **more)
        try:
            return json.loads(done.stdout_bytes)
        except ValueError:
            pytest.fail(f"not one JSON object: {done!r}")

    def start(self, *argv, opts=(), workspace=None, env=None, **popen):
        """One command in a fresh box, left running; the caller waits for it."""
        for stream in ("stdin", "stdout", "stderr"):
            popen.setdefault(stream, subprocess.PIPE)
        popen.setdefault("cwd", self.workspace if os.geteuid() == 0 else None)
        return subprocess.Popen(self.command(*argv, opts=opts, workspace=workspace), env={**self.env, **(env or {})},
                                **popen)

    def _finish(self, command, input, timeout, env, cwd, pass_fds):
        if isinstance(input, str):
            input = input.encode()
        feed = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, env={**self.env, **(env or {})},
                                  cwd=cwd or "/", pass_fds=pass_fds, check=False, **feed)
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"still running after {timeout}s: {' '.join(command)}\n"
                        f"stdout: {decode(late.stdout or b'')[-2000:]}\nstderr: {decode(late.stderr or b'')[-2000:]}")
        return Finished(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def adopt_orphans():
    """Whatever a test leaves running becomes a child of this process, however often it forked and called setsid:
    the first process of a box hangs under hutch, and all others of the box under that first one."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def process_stat(pid):
    """(parent, state) of a process, or None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return int(fields[1]), fields[0]


def descendants(root=None):
    """All processes below one, zombies left out."""
    root = root or os.getpid()
    parents = {}
    for name in os.listdir("/proc"):
        stat = process_stat(name) if name.isdigit() else None
        if stat:
            parents.setdefault(stat[0], []).append((int(name), stat[1]))
    found, queue = [], [root]
    while queue:
        for pid, state in parents.get(queue.pop(), []):
            queue.append(pid)
            if state != "Z":
                found.append(pid)
    return found


def describe(pid):
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return f"{pid}: {decode(line).strip() or Path(f'/proc/{pid}/comm').read_text().strip()}"
    except OSError:
        return f"{pid}: gone"


def leftovers(before, patience=3.0):
    """Processes below this one that were not there before, after giving an asynchronous end its time."""
    deadline = time.monotonic() + patience
    while True:
        left = [pid for pid in descendants() if pid not in before]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def reap_orphans():
    """Collects what was adopted and has ended, so that a long session does not fill the process table."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if process_stat(pid) == (os.getpid(), "Z"):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def end_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def mounts():
    """How many mounts this process sees, but for those that other sessions of tests make meanwhile."""
    return sum(not re.match(r"/var/tmp/hutch-(test-\d+-\w+$|podman-)", line.split()[4])
               for line in Path("/proc/self/mountinfo").read_text().splitlines())


def wait_until(condition, seconds=60.0, what="condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"never came true in {seconds}s: {what}")


def host_has_cgroup(controller, caller):
    """True where this caller can get that cgroup controller: version 2 delegated to it, or version 1 as root."""
    if caller.uid == 0 and os.path.isdir(f"/sys/fs/cgroup/{controller}"):
        return True
    own = Path("/proc/self/cgroup").read_text().split("0::", 1)
    if len(own) < 2:
        return False
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        folder = Path(base + own[1].strip())
        try:
            if controller in (folder / "cgroup.controllers").read_text().split():
                return caller.uid == 0 or folder.stat().st_uid == caller.uid
        except OSError:
            continue
    return False
