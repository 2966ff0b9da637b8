"""What boxes leave behind: nothing, when they end by themselves and when hutch is killed at any moment."""
import hashlib
import json
import os
import random
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import harness

GROUPS_MAX = 256  # control group folders that hutch keeps for reuse
RUNS = 200
RUN_KILLS, EXEC_KILLS, NEW_KILLS = 110, 44, 46  # 200 moments
FIRST_MOMENTS_S = 0.008
GONE_S = 1.0

# A command that would outlive its box if it could, and that writes all over the workspace.
LINGER = "echo ready; echo changed >file; rm -rf folder; mkdir new; (setsid sleep 300 &) ; sleep 300 & sleep 300"
WRITE = "echo changed >file; rm -rf folder; mkdir new; (setsid sleep 300 &) ; sleep 300 & exit 0"


def fingerprint(top):
    """Every name below a folder with its kind, rights, owner, times and content."""
    state = hashlib.sha256()
    for folder, inner, names in os.walk(top):
        inner.sort()
        for path in [folder, *(os.path.join(folder, name) for name in sorted(inner + names))]:
            about = os.lstat(path)
            kept = (os.path.relpath(path, top), about.st_mode, about.st_uid, about.st_gid, about.st_ino, about.st_nlink,
                    about.st_size if not stat.S_ISDIR(about.st_mode) else 0, about.st_mtime_ns, about.st_ctime_ns)
            state.update(repr(kept).encode("utf-8", "surrogateescape"))
            if stat.S_ISREG(about.st_mode):
                state.update(Path(path).read_bytes())
            elif stat.S_ISLNK(about.st_mode):
                state.update(os.fsencode(os.readlink(path)))
    return state.hexdigest()


def strange_groups():
    """Control groups of hutch's that are not of its pool."""
    found = []
    for folder, inner, _ in os.walk("/sys/fs/cgroup"):
        if os.path.basename(folder) == "hutch":
            found += [os.path.join(folder, name) for name in inner
                      if not re.fullmatch(r"[0-9]+", name) or int(name) >= GROUPS_MAX]
            inner.clear()
    return found


class Watch:
    """One caller with a workspace to protect and folders of its own for everything that hutch may keep."""

    def __init__(self, box):
        self.box = box
        self.runtime = box.caller.folder(box.scratch, "run")
        self.temporary = box.caller.folder(box.scratch, "tmp")
        self.env = {**box.env, "XDG_RUNTIME_DIR": str(self.runtime), "TMPDIR": str(self.temporary)}
        self.registry = self.runtime / "hutch" / "boxes"
        self.fill_workspace()
        self.workspace = fingerprint(box.workspace)
        self.processes = set(harness.descendants())
        self.mounts = harness.mounts()
        self.shared = self.shared_files()

    def fill_workspace(self):
        self.box.put("file", "as it was\n")
        self.box.put("script", "#!/bin/sh\n", mode=0o755)
        os.symlink("file", self.box.workspace / "link")
        folder = self.box.workspace / "folder"
        folder.mkdir()
        self.box.caller.own(folder)
        for i in range(20):
            self.box.put(f"folder/{i}", os.urandom(2000))

    def shared_files(self):
        """What bears the name of this caller's state, had it gone elsewhere than told."""
        uid = self.box.caller.uid
        return [path for path in (f"/tmp/hutch-{uid}", str(self.box.caller.home / "hutch")) if os.path.lexists(path)]

    def start(self, *words, **popen):
        """hutch itself, as the caller from its first moment: no program in between that would be killed instead."""
        who = {}
        if os.geteuid() != self.box.caller.uid:
            who = {"user": self.box.caller.uid, "group": self.box.caller.gid, "extra_groups": []}
        for stream in ("stdin", "stdout", "stderr"):
            popen.setdefault(stream, subprocess.DEVNULL)
        return subprocess.Popen([str(self.box.program), *map(str, words)], env=self.env, cwd="/", **who, **popen)

    def start_run(self, script, **popen):
        return self.start("run", "-w", self.box.workspace, "--", "sh", "-c", script, **popen)

    def hutch(self, *words):
        done = self.box.hutch(*words, env=self.env)
        assert done.returncode == 0, done
        return done.stdout

    def new(self):
        return self.hutch("box", "new", "-w", self.box.workspace).strip()

    def keepers(self):
        return {one["id"]: one["pid"] for one in json.loads(self.hutch("box", "ls", "--json"))}

    def running(self, patience=GONE_S):
        left = harness.leftovers(self.processes, patience)
        harness.reap_orphans()
        return [harness.describe(pid) for pid in left]

    def state_files(self):
        return [os.path.join(folder, name) for folder, inner, names in os.walk(self.registry) for name in inner + names]

    def assert_clean_after_next_start(self):
        """A folder without its name yet may be of somebody who is just making it, so it is left alone for a minute."""
        for unfinished in self.registry.glob("new-*"):
            os.utime(unfinished, (1, 1))
        self.hutch("run", "-w", self.box.workspace, "--", "true")
        self.hutch("box", "ls")
        assert self.state_files() == []
        self.assert_nothing()

    def assert_nothing(self):
        assert self.running() == []
        assert harness.mounts() == self.mounts
        assert strange_groups() == []
        assert os.listdir(self.temporary) == [] and self.shared_files() == self.shared
        assert fingerprint(self.box.workspace) == self.workspace


@pytest.fixture
def watch(box):
    return Watch(box)


@pytest.fixture
def moments():
    """Times to kill at, the same in every run: in the first milliseconds, and around when the command starts."""
    chance = random.Random(20)

    def pick(count, typical_s):
        first = [chance.uniform(0, FIRST_MOMENTS_S) for _ in range(count // 2)]
        return first + [chance.uniform(0, 2 * typical_s) for _ in range(count - count // 2)]

    return pick


def test_many_runs_leave_nothing(watch):
    loop = 'i=0; while [ $i -lt %d ]; do "$0" run -w "$1" -- sh -c "$2" || exit 1; i=$((i+1)); done' % RUNS
    done = subprocess.run([*watch.box.caller.prefix, "sh", "-c", loop, str(watch.box.program), str(watch.box.workspace),
                           WRITE], env=watch.env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert watch.state_files() == []
    watch.assert_nothing()


def time_to_first_output(watch):
    began = time.monotonic()
    with watch.start_run("echo ready; sleep 300", stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        seconds = time.monotonic() - began
        running.kill()
    assert watch.running() == []
    return seconds


def kill_after(process, seconds):
    time.sleep(seconds)
    process.kill()
    process.wait(timeout=300)


def test_killed_run_leaves_nothing(watch, moments):
    output = watch.box.scratch + "/output"  # not a pipe: whatever is left would keep it open, and this test waiting
    ready = 0
    for moment in moments(RUN_KILLS, time_to_first_output(watch)):
        with open(output, "w+b") as out:
            running = watch.start_run(LINGER, stdout=out)
            kill_after(running, moment)
            assert watch.running() == [], f"killed after {moment * 1000:.2f} ms"
            ready += os.fstat(out.fileno()).st_size > 0
    assert 0 < ready < RUN_KILLS, "the moments did not lie on both sides of the start"
    watch.assert_clean_after_next_start()


def test_killed_keeper_leaves_nothing(watch, moments):
    """The keeper dies while a command begins in its box; whoever waits for the command is told."""
    for moment in moments(EXEC_KILLS, 0.005):
        one = watch.new()
        pid = watch.keepers()[one]
        with watch.start("box", "exec", one, "--", "sh", "-c", LINGER, stderr=subprocess.PIPE) as running:
            time.sleep(moment)
            os.kill(pid, signal.SIGKILL)
            assert running.wait(timeout=300) == 125
            assert running.stderr.read().startswith(b"hutch: ")
        assert watch.running() == [], f"killed after {moment * 1000:.2f} ms"
    watch.assert_clean_after_next_start()


def keepers_below():
    """Processes that are keepers, by name; a box's first process has that name too, for a moment, but is its child."""
    named = {}
    for pid in harness.descendants():
        try:
            if Path(f"/proc/{pid}/comm").read_text() == "hutch-keeper\n":
                named[pid] = harness.process_stat(pid)
        except OSError:
            continue
    return [pid for pid, stat_now in named.items() if stat_now and stat_now[0] not in named]


def settled(watch):
    """Nothing runs, or only boxes that `hutch box ls` knows."""
    return not watch.running(patience=0) or watch.keepers()


@pytest.mark.parametrize("victim", ["maker", "keeper"])
def test_killed_while_a_box_is_made(watch, moments, victim):
    """Either of the two processes dies: then there is a whole box, which the next kill ends, or none."""
    for moment in moments(NEW_KILLS // 2, 0.01):
        making = watch.start("box", "new", "-w", watch.box.workspace)
        time.sleep(moment)
        harness.end_all(keepers_below() if victim == "keeper" else [making.pid])
        making.wait(timeout=300)
        harness.wait_until(lambda: settled(watch), GONE_S, "an end of the box or of its making")
        harness.end_all(watch.keepers().values())
        assert watch.running() == [], f"killed after {moment * 1000:.2f} ms"
    watch.assert_clean_after_next_start()
