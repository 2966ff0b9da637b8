"""Boxes whose files are on disk: what fits, what ends them, and that nothing is left behind."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness

MIB, GIB = 1 << 20, 1 << 30
HALF_OF_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
FILL = "dd if=/dev/zero of=/tmp/fill bs=1M count={} status=none"


def used(folder):
    """Bytes of a folder's files, each counted once."""
    seen = {}
    for top, inner, names in os.walk(folder):
        for name in inner + names:
            about = os.lstat(os.path.join(top, name))
            seen[about.st_ino] = about.st_blocks * 512
    return sum(seen.values())


class Store:
    """A caller whose boxes keep their files in a folder of the test's own."""

    def __init__(self, box, folder=None):
        self.box = box
        self.folder = Path(folder or box.caller.folder(box.scratch, "store"))
        box.env["HUTCH_STORE"] = str(self.folder)
        self.ids = []

    def free(self):
        fs = os.statvfs(self.folder)
        return fs.f_bavail * fs.f_frsize

    def names(self):
        return os.listdir(self.folder)

    def new(self, *options):
        done = self.box.hutch("box", "new", "-w", self.box.workspace, *options)
        assert done.returncode == 0, done
        self.ids.append(done.stdout.strip())
        return self.ids[-1]

    def fork(self, box_id):
        done = self.box.hutch("box", "fork", box_id, timeout=120)
        assert done.returncode == 0, done
        self.ids.append(done.stdout.strip())
        return self.ids[-1]

    def sh(self, box_id, script, timeout=120):
        return self.box.hutch("box", "exec", box_id, "--", "sh", "-c", script, timeout=timeout)

    def remove(self):
        ids, self.ids = self.ids, []
        if ids:
            self.box.hutch("box", "rm", *ids, timeout=120)

    def wait_until_empty(self, seconds=120):
        harness.wait_until(lambda: not self.names(), seconds, f"an empty {self.folder}: {self.names()}")


@pytest.fixture
def store(box):
    s = Store(box)
    if subprocess.run(["stat", "-f", "-c", "%T", s.folder], capture_output=True, text=True).stdout.strip() not in (
            "ext2/ext3", "xfs", "btrfs"):
        pytest.skip("the tests' folder is not on ext4, xfs or btrfs")
    yield s
    s.remove()


@pytest.fixture
def ext4(scratch, request):
    """Makes a mounted ext4 image: ext4(size, mkfs options, mount options)."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    mounted = []

    def make(size, mkfs=(), options="loop"):
        image, folder = Path(scratch) / "image", Path(scratch) / "image-mount"
        folder.mkdir(exist_ok=True)
        with open(image, "wb") as f:
            f.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", *mkfs, image], check=True, capture_output=True)
        done = subprocess.run(["mount", "-o", options, image, folder], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount an image: {done.stderr}")
        mounted.append((image, folder))
        return folder

    yield make
    for image, folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)
        image.unlink()


def more_than_half_of_memory(store):
    disk = HALF_OF_MEMORY + GIB
    if store.free() < disk + 2 * GIB:
        pytest.skip("not enough free disk space for a box that is larger than half of the memory")
    return f"{disk // MIB}M"


def test_a_box_can_be_larger_than_memory_allows(store):
    disk = more_than_half_of_memory(store)
    done = store.box.run("sh", "-c", FILL.format(2500) + "; stat -c %s /tmp/fill", opts=["--disk", disk], timeout=120)
    assert done.stdout == f"{2500 * MIB}\n" and done.returncode == 0, done
    assert store.names() == []


def test_a_large_box_writes_to_the_disk_and_not_to_memory(store):
    box = store.new("--disk", "2G")
    assert store.sh(box, FILL.format(300)).returncode == 0
    assert used(store.folder) > 300 * MIB


def test_nothing_but_what_grows_is_made_on_the_disk(store):
    """Each file there may wait for the filesystem's journal: mount points and the layers of /etc stay in memory."""
    store.fork(store.new("--disk", "2G"))
    assert len(store.names()) == 2
    for name in store.names():
        assert sorted(os.listdir(store.folder / name)) == ["r", "s", "w"]


def test_a_small_box_writes_nothing_to_the_disk(store):
    box = store.new()
    assert store.sh(box, FILL.format(10)).returncode == 0
    assert store.names() == []


def test_diff_and_apply_of_what_is_on_disk(store):
    store.box.put("old", "old\n")
    (store.box.workspace / "gone").mkdir()
    store.box.caller.own(store.box.workspace / "gone")
    box = store.new("--disk", "2G")
    done = store.sh(box, "echo new >old; rmdir gone; mkdir -p a/b; echo deep >a/b/file; mkdir gone; rmdir gone")
    assert done.returncode == 0, done
    assert "+deep" in store.box.hutch("box", "diff", box).stdout
    assert store.box.hutch("box", "apply", box).returncode == 0
    assert (store.box.workspace / "old").read_text() == "new\n"
    assert (store.box.workspace / "a/b/file").read_text() == "deep\n"
    assert not (store.box.workspace / "gone").exists()


@pytest.mark.parametrize("first", ["true", "echo x >other", "mkdir -p d/e; rm gone"])
def test_what_a_later_command_touches_on_disk_can_be_merged(store, first):
    """The record of what the box read is brought up to date after each command that touches another file."""
    store.box.put("text", "1\n2\n3\n4\n5\n")
    store.box.put("gone", "gone\n")
    box = store.new("--disk", "2G")
    assert store.sh(box, first).returncode == 0
    assert store.sh(box, "true").returncode == 0
    assert store.sh(box, "sed -i s/5/five/ text").returncode == 0
    store.box.put("text", "one\n2\n3\n4\n5\n")
    done = store.box.hutch("box", "apply", box)
    assert done.returncode == 0 and "merged: text" in done.stderr, done
    assert (store.box.workspace / "text").read_text() == "one\n2\n3\n4\nfive\n"


def test_a_fork_has_the_files_and_outlives_its_source(store):
    box = store.new("--disk", "2G")
    assert store.sh(box, "echo first >/tmp/f; mkdir -p d/e; echo x >d/e/x").returncode == 0
    fork = store.fork(box)
    store.sh(box, "echo second >/tmp/f")
    store.box.hutch("box", "rm", box)
    done = store.sh(fork, "cat /tmp/f d/e/x; rm -r d; mkdir d; ls d")
    assert done.stdout == "first\nx\n" and done.returncode == 0, done
    store.remove()
    assert store.names() == []


@pytest.mark.parametrize("disk", ["700M", "2G"], ids=["memory", "disk"])
def test_a_snapshot_shares_unchanged_files_with_the_last(store, disk):
    """Ten snapshots of 100 MB in a box of 700 MB: copied each time, they would not fit."""
    box = store.new("--disk", disk)
    assert store.sh(box, FILL.format(100) + "; echo 1 >/tmp/small").returncode == 0
    for i in range(2, 12):
        done = store.box.hutch("box", "snapshot", box, timeout=120)
        assert done.returncode == 0, done
        assert store.sh(box, f"echo {i} >/tmp/small").returncode == 0
    assert used(store.folder) < 350 * MIB
    done = store.box.hutch("box", "restore", box, "s3")
    assert done.returncode == 0, done
    assert store.sh(box, "cat /tmp/small; stat -c %s /tmp/fill").stdout == f"3\n{100 * MIB}\n"


@pytest.mark.parametrize("disk", ["700M", "2G"], ids=["memory", "disk"])
def test_a_snapshot_has_what_was_written_through_a_mapping(store, disk):
    """A page that was dirty at the last snapshot is written again: its file's times do not change."""
    script = r"""
import mmap, os, sys
with open("/tmp/mapped", "wb") as f:
    f.truncate(8192)
f = open("/tmp/mapped", "r+b")
m = mmap.mmap(f.fileno(), 8192)
_ = m[0]
m[0] = ord("a")
os.mkfifo("/tmp/go")
open("/tmp/go").read()
m[0] = ord("b")
open("/tmp/done", "w").close()
os.mkfifo("/tmp/end")
open("/tmp/end").read()
"""
    box = store.new("--disk", disk)
    store.box.put("map.py", script)
    process = subprocess.Popen([*store.box.caller.prefix, store.box.program, "box", "exec", box, "--", "python3", "map.py"],
                               env=store.box.env, cwd="/")
    harness.wait_until(lambda: store.sh(box, "test -p /tmp/go").returncode == 0, 120)
    time.sleep(0.05)  # so that the file is older than the clock's tick, and is shared if nobody looks closer
    assert store.box.hutch("box", "snapshot", box).returncode == 0
    store.sh(box, "echo >/tmp/go")
    harness.wait_until(lambda: store.sh(box, "test -e /tmp/done").returncode == 0, 120)
    assert store.box.hutch("box", "snapshot", box).returncode == 0
    harness.wait_until(lambda: store.sh(box, "test -p /tmp/end").returncode == 0, 120)
    store.sh(box, "echo >/tmp/end")
    process.wait(30)
    assert store.box.hutch("box", "restore", box, "s2").returncode == 0
    assert store.sh(box, "head -c 1 /tmp/mapped").stdout == "b"


def test_a_box_that_writes_more_than_it_may_is_ended(store):
    result = store.box.json("sh", "-c", FILL.format(5000), opts=["--disk", "1100M"], timeout=120)
    assert result["killed_by"] == "disk" and result["exit_code"] != 0, result


def test_the_limit_is_not_exceeded_by_much(store):
    box = store.new("--disk", "1100M")
    done = store.sh(box, FILL.format(5000))
    assert done.returncode == 137 and "--disk" in done.stderr, done
    assert used(store.folder) < 2200 * MIB
    done = store.sh(box, "rm /tmp/fill && echo freed")
    assert done.stdout == "freed\n", done
    harness.wait_until(lambda: store.sh(box, FILL.format(50)).returncode == 0, 120, "a box with room again")


RESERVE = r"""
import ctypes, errno, os, struct
fd = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
libc = ctypes.CDLL(None, use_errno=True)
def refused(r): return "refused" if r < 0 and ctypes.get_errno() == errno.EOPNOTSUPP else f"{r} {ctypes.get_errno()}"
size = 50 << 30
for mode in 0, 1, 0x10, 0x40:
    print(refused(libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(size))))
for request in 0x40305828, 0x4030582a, 0x40305839:
    print(refused(libc.ioctl(fd, ctypes.c_ulong(request), struct.pack("=hh4xqqiI4i", 0, 0, 0, size, *[0] * 6))))
print(os.fstat(fd).st_blocks)
os.posix_fallocate(fd, 0, 10 << 20)
print(os.fstat(fd).st_size, os.fstat(fd).st_blocks * 512 >= 10 << 20)
print(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(10 << 20)), os.fstat(fd).st_blocks)
"""


def test_space_cannot_be_reserved_faster_than_the_watcher_looks(store):
    """The modes of fallocate() that reserve space, and the ioctls that do the same. What frees space works."""
    done = store.box.run("python3", "-c", RESERVE, opts=["--disk", "2G"])
    assert done.stdout == "refused\n" * 7 + f"0\n{10 * MIB} True\n0 0\n", done


def test_a_large_fallocate_leaves_the_free_space_of_the_host_alone(store):
    box = store.new("--disk", "2G")
    done = store.sh(box, f"fallocate -l {store.free() // 2} /tmp/f")
    assert done.returncode == 1 and "fallocate" in done.stderr, done
    assert used(store.folder) < 10 * MIB


def test_a_fork_cannot_reserve_space_either(store):
    fork = store.fork(store.new("--disk", "2G"))
    assert store.sh(fork, f"fallocate -l {store.free() // 2} /tmp/f").returncode == 1
    assert used(store.folder) < 10 * MIB


def test_folders_that_nobody_may_read_count(store):
    """The box's user owns them, and the host's user could not look inside."""
    script = "mkdir /tmp/d; exec >/tmp/d/x; chmod 000 /tmp/d; dd if=/dev/zero bs=1M count=5000 status=none"
    result = store.box.json("sh", "-c", script, opts=["--disk", "1100M"], timeout=120)
    assert result["killed_by"] == "disk", result


def test_a_million_empty_files_meet_the_limit(make_box):
    """1.1 GB have room for 281,600 files and folders."""
    store = Store(make_box("user"))
    script = "import os\nfor i in range(1000000):\n if i % 1000 == 0: os.mkdir(f'/tmp/{i}'); os.chdir(f'/tmp/{i}')\n " \
             "os.close(os.open(str(i), os.O_CREAT))\n"
    result = store.box.json("python3", "-c", script, opts=["--disk", "1100M"], timeout=300)
    assert result["killed_by"] == "disk", result
    assert store.names() == []


@pytest.mark.parametrize("name", ["root", "user"])
def test_a_host_whose_disk_fills_up_stops_the_box(make_box, ext4, name):
    box = make_box(name)
    mount = ext4(4 * GIB)
    folder = box.caller.own(mount / "store" if (mount / "store").mkdir(0o700) is None else None)
    store = Store(box, folder)
    process = box.start("sh", "-c", "touch /tmp/x; echo ready; sleep 60", opts=["--json", "--disk", "1100M"])
    harness.wait_until(store.names, 120, "a store")
    fs = os.statvfs(mount)
    subprocess.run(["fallocate", "-l", str(fs.f_bavail * fs.f_frsize - 50 * MIB), mount / "host"], check=True)
    out, _ = process.communicate(timeout=50)
    assert json.loads(out)["killed_by"] == "disk", out
    assert store.names() == []


@pytest.mark.parametrize("name", ["root", "user"])
def test_deleted_files_that_are_held_open_stop_at_the_free_space_of_the_host(make_box, ext4, name):
    """No count of the box's files finds them. The host keeps its floor, and has all of it back afterwards."""
    box = make_box(name)
    mount = ext4(1600 * MIB)
    (mount / "store").mkdir(0o700)
    store = Store(box, box.caller.own(mount / "store"))
    before = store.free()
    script = "exec 3>/tmp/f; rm /tmp/f; while :; do dd if=/dev/zero bs=1M count=100 status=none >&3; done"
    result = box.json("sh", "-c", script, opts=["--disk", "1100M"], timeout=120)
    assert result["killed_by"] == "disk", result
    assert store.names() == []
    harness.wait_until(lambda: store.free() > before - 50 * MIB, 120, "the space is free again")


def test_a_project_quota_limits_the_box_exactly(make_box, ext4):
    mount = ext4(4 * GIB, ["-O", "quota,project", "-E", "quotatype=prjquota"], "loop,prjquota")
    (mount / "store").mkdir(0o700)
    store = Store(make_box("root"), mount / "store")
    box = store.new("--disk", "1100M")
    assert store.sh(box, "fallocate -l 100M /tmp/reserved && rm /tmp/reserved").returncode == 0
    assert store.sh(box, "fallocate -l 2000M /tmp/reserved").returncode == 1
    assert store.sh(box, "rm -f /tmp/reserved").returncode == 0
    done = store.sh(box, FILL.format(2000))
    assert done.returncode == 1 and ("quota" in done.stderr or "No space" in done.stderr), done
    assert used(store.folder) <= 1101 * MIB
    result = store.box.json("sh", "-c", FILL.format(2000), opts=["--disk", "1100M"], timeout=120)
    assert result["killed_by"] == "disk" and result["exit_code"] == 1, result
    store.remove()
    assert store.names() == []


HOSTILE_TREE = r"""
mkdir -m 700 closed; echo x >closed/file; ln -s /etc/passwd closed/link; chmod 000 closed/file closed
mkdir sticky; touch sticky/a; chmod 1555 sticky
python3 -c '
import os
for i in range(3000):
    os.mkdir("d"); os.chdir("d"); open("f", "w").close()
'
i=0; while [ $i -lt 2000 ]; do echo $i >/tmp/$i; i=$((i+1)); done
"""


def test_nothing_is_left_of_a_box_that_is_removed(store):
    box = store.new("--disk", "2G")
    assert store.sh(box, HOSTILE_TREE).returncode == 0
    assert store.names()
    store.remove()
    assert store.names() == []


def keepers(caller):
    found = []
    for pid in harness.descendants():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "hutch-keeper" in status.splitlines()[0]:
            found.append(pid)
    return found


def test_nothing_is_left_when_the_keeper_is_killed(store):
    box = store.new("--disk", "2G")
    assert store.sh(box, HOSTILE_TREE).returncode == 0
    store.fork(box)
    assert len(store.names()) == 2
    for pid in keepers(store.box.caller):
        os.kill(pid, signal.SIGKILL)
    store.wait_until_empty()
    store.ids = []


def test_nothing_is_left_when_hutch_run_is_killed(store):
    process = store.box.start("sh", "-c", HOSTILE_TREE + "echo ready; while :; do echo x >/tmp/more; rm /tmp/more; done",
                              opts=["--disk", "2G"])
    assert process.stdout.readline() == b"ready\n"
    assert store.names()
    process.kill()
    process.wait()
    store.wait_until_empty()


def test_a_link_in_a_box_does_not_lead_its_removal_out(store):
    victim = store.box.caller.folder(store.box.scratch, "victim")
    (victim / "precious").write_text("mine")
    done = store.box.run("sh", "-c", f"ln -s {victim} /tmp/out; ln -s {victim}/precious /tmp/file; mkdir -m 0 /tmp/z",
                         opts=["--disk", "2G"])
    assert done.returncode == 0 and store.names() == []
    assert (victim / "precious").read_text() == "mine"


def test_stores_without_an_owner_are_removed_at_the_next_start(store):
    caller = store.box.caller
    dead, alive, other = (store.folder / name for name in ("box-dead", "box-alive", "notes"))
    for folder in (dead, alive, other):
        folder.mkdir(0o700)
        (folder / "file").write_text("x")
        caller.own(folder / "file")
        caller.own(folder)
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert store.box.run("true", opts=["--disk", "2G"]).returncode == 0
    harness.wait_until(lambda: not dead.exists(), 120, "the abandoned store is gone")
    assert (alive / "file").exists() and (other / "file").exists()
    os.close(lock)


def test_nobody_else_can_enter_the_folder_of_the_stores(store):
    home = store.box.caller.folder(store.box.scratch, "state")
    done = store.box.run("true", opts=["--disk", "2G"], env={"HUTCH_STORE": "", "XDG_STATE_HOME": str(home)})
    assert done.returncode == 0
    assert (home / "hutch/store").stat().st_mode & 0o777 == 0o700


def test_without_a_filesystem_that_fits_memory_serves(make_box, who):
    box = make_box(who)
    folder = box.caller.folder("/dev/shm", "hutch-store")
    try:
        store = Store(box, folder)
        if HALF_OF_MEMORY > 1200 * MIB:
            done = box.run("sh", "-c", "echo x >/tmp/x; df --output=fstype /tmp | tail -1", opts=["--disk", "1100M"])
            assert done.returncode == 0 and store.names() == [], done
        done = box.hutch("run", "-w", box.workspace, "--disk", f"{HALF_OF_MEMORY // MIB + 1024}M", "true")
        assert done.returncode == 125 and "HUTCH_STORE" in done.stderr and done.stderr.count("\n") == 1, done
    finally:
        shutil.rmtree(folder)


def test_a_disk_larger_than_the_free_space_is_refused(store):
    done = store.box.hutch("run", "-w", store.box.workspace, "--disk", f"{store.free() // GIB + 100}G", "true")
    assert done.returncode == 125 and "has room for" in done.stderr, done
    assert store.names() == []


def test_the_box_ends_when_nothing_watches_its_disk(store):
    box = store.new("--disk", "2G")
    for pid in harness.descendants():
        if Path(f"/proc/{pid}/comm").exists() and Path(f"/proc/{pid}/comm").read_text() == "box-store\n":
            os.kill(pid, signal.SIGKILL)
    harness.wait_until(lambda: store.sh(box, "true").returncode == 125, 120, "a box that has ended")
    store.remove()
    assert store.box.run("true", opts=["--disk", "2G"]).returncode == 0
    store.wait_until_empty()  # the next one swept it
