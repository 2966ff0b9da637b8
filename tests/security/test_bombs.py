"""Bombs: a box that uses up everything hits its own limits; the host stays healthy and nothing is left of it."""
import contextlib
import os
import pty
import resource
import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest

import harness
from arsenal import breach_if, judge, reached


def available_memory():
    """Bytes that the host could give to somebody."""
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) << 10 for line in info if line.startswith("MemAvailable"))


class Watch:
    """Samples the host while a bomb goes off: processes below this one, and memory that went away."""

    def __init__(self):
        self.most, self.least, self.first = 0, available_memory(), available_memory()
        self.going = True
        self.thread = threading.Thread(target=self.sample, daemon=True)

    def sample(self):
        while self.going:
            self.most = max(self.most, len(harness.descendants()))
            self.least = min(self.least, available_memory())
            time.sleep(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.thread.join()

    @property
    def eaten(self):
        return self.first - self.least


def explode(box, arsenal, kind, ceiling, *args, opts=(), timeout=200):
    """Sets off a bomb; returns its result object. By its own word or another's, it must not reach its ceiling."""
    result = box.json(arsenal.arm(box, "bomb"), kind, ceiling, *args, opts=["--timeout", "150s", *opts], timeout=timeout)
    breach_if("BREACH" in result["stdout"], f"{kind} reached {ceiling}: {result}")
    return result


def host_is_well():
    began = time.monotonic()
    subprocess.run(["true"], check=True)
    breach_if(time.monotonic() - began > 20, "the host crawls")


def test_a_fork_bomb_meets_its_limit(box, arsenal):
    with Watch() as watch:
        result = explode(box, arsenal, "forks", 600, opts=["--pids", "64"])
    breach_if(watch.most > 64 + 16, f"{watch.most} processes with a limit of 64")
    assert result["killed_by"] in (None, "pids"), result
    if result["killed_by"] is None:
        assert reached(result["stdout"]) <= 64
    host_is_well()


def test_an_endless_fork_bomb_ends(box, arsenal):
    """Every child forks as well and nobody exits: it is ended by the limit or by the clock, and all of it is gone."""
    with Watch() as watch:
        result = explode(box, arsenal, "forks-deep", 600, opts=["--pids", "64", "--timeout", "4s"])
    breach_if(watch.most > 64 + 16, f"{watch.most} processes with a limit of 64")
    assert result["killed_by"] in ("pids", "timeout"), result
    assert result["exit_code"] != 0
    host_is_well()


@pytest.mark.parametrize("kind", ["memory", "memory-split"])
def test_a_memory_bomb_meets_its_limit(box, arsenal, kind):
    """In one process, and in eight of which none is large."""
    with Watch() as watch:
        result = explode(box, arsenal, kind, 1024, opts=["--memory", "96M"])
    assert result["killed_by"] == "memory" or reached(result["stdout"]) < 200, result
    breach_if(watch.eaten > 700 << 20, f"the host lost {watch.eaten >> 20} MB")
    host_is_well()


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/workspace", "/home/agent", "/var/tmp"])
def test_a_disk_bomb_meets_its_limit(box, arsenal, folder):
    """Wherever a box may write: its disk, which on this host may be memory, has one size."""
    with Watch() as watch:
        result = explode(box, arsenal, "fill", 400, folder, opts=["--disk", "24M"])
    if result["exit_code"] == 2 and "bomb" in result["stderr"]:
        return
    assert result["killed_by"] in (None, "disk", "memory"), result
    if result["killed_by"] is None:
        breach_if(reached(result["stdout"]) > 26, f"wrote {result['stdout']} with a limit of 24M")
    breach_if(watch.eaten > 350 << 20, f"the host lost {watch.eaten >> 20} MB")


def test_a_disk_bomb_cannot_be_spread(box, arsenal):
    """All folders share the one limit."""
    fill = "for d in /tmp /dev/shm /workspace /home/agent; do head -c 16M /dev/zero >$d/fill; done 2>/dev/null; " \
           "cat /tmp/fill /dev/shm/fill /workspace/fill /home/agent/fill | wc -c"
    result = box.json("sh", "-c", fill, opts=["--disk", "24M", "--timeout", "20s"])
    if result["killed_by"] is None:
        breach_if(int(result["stdout"]) > 26 << 20, f"kept {result['stdout']} bytes with a limit of 24M")


@pytest.mark.parametrize("kind", ["memory-files", "memory-segments"])
def test_memory_that_no_process_maps_is_limited(box, arsenal, kind):
    """memfd and detached System V segments: they live in memory like the box's files, and count with these."""
    if not harness.host_has_cgroup("memory", box.caller):
        pytest.skip("no cgroup memory controller for this user on this host: only what processes map is counted")
    with Watch() as watch:
        explode(box, arsenal, kind, 600, opts=["--memory", "96M", "--disk", "64M"])
    breach_if(watch.eaten > 500 << 20, f"the host lost {watch.eaten >> 20} MB")


def test_an_inode_bomb_meets_its_limit(box, arsenal):
    """24 MB of disk have no room for 200,000 files, empty as they may be: their inodes are the host's memory."""
    with Watch() as watch:
        explode(box, arsenal, "inodes", 200000, "/tmp", opts=["--disk", "24M", "--memory", "128M"])
    breach_if(watch.eaten > 400 << 20, f"the host lost {watch.eaten >> 20} MB")


def test_a_descriptor_bomb_meets_its_limit(box, arsenal):
    result = explode(box, arsenal, "descriptors", 4000, opts=["--files", "100"])
    breach_if(reached(result["stdout"]) > 100, f"opened {result['stdout']} with a limit of 100")


def test_the_descriptor_limit_cannot_be_raised(box):
    """The soft limit is a program's own to raise, up to the hard one."""
    lift = ("import resource as r\nfor v in ((4097, 4097), (100, 5000), (100, r.RLIM_INFINITY)):\n"
            "    try: r.setrlimit(r.RLIMIT_NOFILE, v); print('BREACH raised to', v)\n    except (OSError, ValueError): pass\n"
            "print(r.getrlimit(r.RLIMIT_NOFILE))\n")
    done = box.run("/usr/bin/python3", "-c", lift, opts=["--files", "100"])
    judge(done)
    assert done.returncode == 0 and done.stdout == "(100, 4096)\n", done


@contextlib.contextmanager
def held(box, arsenal, kind, ceiling):
    """A bomb that has gone off and holds what it took; yields how much that is."""
    process = box.start(arsenal.arm(box, "bomb"), kind, ceiling, opts=["--timeout", "30s"])
    try:
        line = process.stdout.readline().decode()
        assert line.startswith("REACHED"), (line, process.stderr.read())
        yield int(line.split()[1])
    finally:
        process.communicate(b"", timeout=300)


def test_a_terminal_bomb_leaves_terminals_for_the_host(box, arsenal):
    """The kernel has one number of terminals for all: a box must not take them."""
    with held(box, arsenal, "terminals", 4000) as taken:
        for fd in pty.openpty():
            os.close(fd)
        breach_if(taken > 1024, f"took {taken} terminals")


@contextlib.contextmanager
def usual_files():
    """The limit of open files that a login gives."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


WATCH = "import ctypes, sys; sys.exit(ctypes.CDLL(None).inotify_init() < 0)"


def test_a_watch_bomb_leaves_watches_for_others(box, make_box, who, arsenal):
    """inotify instances are counted per user, and those of a box also on the user who made it."""
    with held(box, arsenal, "watches", 4000) as taken:
        host = subprocess.run([*box.caller.prefix, "/usr/bin/python3", "-c", WATCH], check=False, env=box.env, cwd="/")
        breach_if(host.returncode != 0, f"took all {taken} inotify instances of the host's user")
        other = make_box(who).run("/usr/bin/python3", "-c", WATCH)
        breach_if(other.returncode != 0, f"took all {taken} inotify instances of other boxes")


def test_many_watch_bombs_leave_watches_for_others(make_box, who, arsenal):
    """Each box within its limit: the sum of five must not be all that the user has either."""
    with contextlib.ExitStack() as stack:
        boxes = [make_box(who) for _ in range(5)]
        taken = sum(stack.enter_context(held(box, arsenal, "watches", 4000)) for box in boxes)
        box = boxes[0]
        host = subprocess.run([*box.caller.prefix, "/usr/bin/python3", "-c", WATCH], check=False, env=box.env, cwd="/")
        breach_if(host.returncode != 0, f"took all {taken} inotify instances of the host's user")


def test_a_timer_bomb_leaves_pending_signals_for_others(box, arsenal):
    """A timer is a pending signal, and the user who started the box has so many of them."""
    with held(box, arsenal, "timers", 4000) as taken:
        breach_if(taken > 1024, f"took {taken} timers")


PIPE = "import fcntl, os; print(fcntl.fcntl(os.pipe()[0], 1032))"


def test_pages_of_pipes_are_counted_per_box(make_box, arsenal):
    """Beyond a number per user pipes become small. Boxes that root started have a user each; an ordinary user's are all
    that user's (docs/security.md)."""
    box, other = make_box("root"), make_box("root")
    with held(box, arsenal, "pipe-pages", 400) as taken:
        size = other.run("/usr/bin/python3", "-c", PIPE).stdout.strip()
        breach_if(size != "65536", f"{taken} large pipes in one box leave {size} bytes to one in another")


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_socket_bomb_meets_the_limit_on_memory(box, arsenal, kind):
    """Buffers that nobody reads, through the box's own loopback: they are the kernel's memory, and all of the host has
    one amount for them."""
    result = explode(box, arsenal, kind, 200, opts=["--memory", "64M"])
    assert result["killed_by"] == "memory" or reached(result["stdout"]) < 100, result


def test_descriptors_in_flight_do_not_stop_other_boxes(box, make_box, who, arsenal):
    """So are descriptors on their way through sockets, which is also how hutch talks to its boxes. The kernel compares
    their number with the sender's limit of open files: here the usual one."""
    with usual_files(), held(box, arsenal, "in-flight", 20000) as taken:
        other = make_box(who)
        done = other.hutch("run", "-w", other.workspace, "--", "echo", "fine")
        breach_if(done.stdout != "fine\n", f"{taken} descriptors in flight stopped another box: {done!r}")


def test_a_pipe_bomb_meets_its_limit(box, arsenal):
    """Full pipes are kernel memory, which counts like any other."""
    with Watch() as watch:
        explode(box, arsenal, "pipes", 500 << 10, opts=["--memory", "128M"])
    breach_if(watch.eaten > 450 << 20, f"the host lost {watch.eaten >> 20} MB")
    host_is_well()


def test_a_bomb_of_threads_meets_the_limit_of_processes(box):
    make = ("import threading, time\nn = 0\ntry:\n    while n < 600:\n"
            "        threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); n += 1\n"
            "except RuntimeError: pass\nprint('BREACH threads' if n >= 600 else 'held', n, flush=True)\nimport os; os._exit(0)")
    result = box.json("/usr/bin/python3", "-c", make, opts=["--pids", "64", "--timeout", "10s"])
    breach_if("BREACH" in result["stdout"], result["stdout"])
    assert result["killed_by"] == "pids" or int(result["stdout"].split()[1]) <= 64, result


def test_bombs_of_two_boxes_do_not_touch_a_third(make_box, who, arsenal):
    """While two boxes of the same user bomb away, another one of that user still works."""
    bombers = [make_box(who) for _ in range(2)]
    going = [b.start(arsenal.arm(b, "bomb"), "forks-deep", "600", opts=["--pids", "64", "--timeout", "4s"]) for b in bombers]
    try:
        time.sleep(0.5)
        done = make_box(who).json("sh", "-c", "for i in 1 2 3 4 5; do sleep 0.05 & done; wait; echo fine", opts=["--pids", "64"])
        assert done["stdout"] == "fine\n", done
    finally:
        for process in going:
            process.communicate(timeout=300)


@pytest.fixture
def another_session():
    """A memory group (cgroup version 1) beside the one of these tests, as another login or service has its own; yields
    the shell command that enters it."""
    own = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
    path = next((where for _, controllers, where in own if controllers == "memory"), None)
    folder = Path(f"/sys/fs/cgroup/memory{path}/hutch-test-{os.getpid()}")
    if os.geteuid() != 0 or not path or not folder.parent.is_dir():
        pytest.skip("no cgroup version 1 memory controller that this user may divide on this host")
    folder.mkdir()
    yield f"echo $$ >{folder}/tasks"
    for base, _, _ in os.walk(folder, topdown=False):
        os.rmdir(base)


def test_boxes_of_two_sessions_do_not_share_a_limit(make_box, arsenal, another_session):
    """Where controllers are mounted apart, two sessions may differ in one and be the same in another."""
    first, second = make_box("root"), make_box("root")
    arsenal.arm(first, "bomb")
    bomb = first.start("sh", "-c", "echo here; read go; exec /workspace/bomb forks 600",
                       opts=["--pids", "64", "--timeout", "20s"])
    assert bomb.stdout.readline() == b"here\n"
    command = shlex.join(second.command("sh", "-c", "echo here; cat", opts=["--pids", "300", "--timeout", "20s"]))
    other = subprocess.Popen(["sh", "-c", f"{another_session}; exec {command}"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=second.env)
    try:
        assert other.stdout.readline() == b"here\n"
        said, _ = bomb.communicate(b"go\n", timeout=300)
        breach_if(reached(said.decode()) > 64, f"{reached(said.decode())} processes with a limit of 64")
    finally:
        other.communicate(b"", timeout=300)
