"""Renaming a folder of the workspace, which an overlay refuses and the guest then does (src/guest/notify.c)."""
import os
import shutil
import subprocess

import pytest


def make_folder(box, name, files=(), mode=0o755):
    path = box.workspace / name
    path.mkdir(parents=True)
    for parent in [path, *path.parents]:
        if parent == box.workspace:
            break
        box.caller.own(parent)
    for file in files:
        box.put(f"{name}/{file}", f"content of {file}")
    path.chmod(mode)
    return path


def python(box, code, **more):
    return box.run("python3", "-c", "import errno, os, sys\n" + code, **more)


TREE = """
def tree(top):
    found = {}
    for folder, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else "" if os.path.isdir(path) else open(path, "rb").read()
            found[os.path.relpath(path, top)] = (oct(st.st_mode), st.st_mtime_ns, content)
    return found
"""


def make_tree(box):
    make_folder(box, "lib", ["a", "b"])
    make_folder(box, "lib/sub/deep", ["c"])
    make_folder(box, "lib/empty")
    box.put("lib/sub/program", "#!/bin/sh\n", mode=0o750)
    os.symlink("../a", box.workspace / "lib/sub/link")
    os.symlink("/nowhere", box.workspace / "lib/dangling")
    for name in ("sub/link", "dangling"):
        box.caller.own(box.workspace / "lib" / name)
    (box.workspace / "lib/sub/deep").chmod(0o555)
    (box.workspace / "lib/empty").chmod(0o2775)
    for name in ("lib", "lib/sub", "lib/empty", "lib/sub/deep"):
        os.utime(box.workspace / name, (1_000_000_000, 1_100_000_000))


@pytest.mark.parametrize("disk", ["1G", "3G"], ids=["memory", "disk"])
def test_a_renamed_folder_has_all_it_had(box, disk):
    """In layers that are kept in memory, and on disk."""
    make_tree(box)
    done = python(box, TREE + """
before, st = tree("lib"), os.stat("lib")
os.rename("lib", "lib3")
assert not os.path.lexists("lib"), os.listdir(".")
assert tree("lib3") == before, (before, tree("lib3"))
now = os.stat("lib3")
assert (now.st_mode, now.st_mtime_ns) == (st.st_mode, st.st_mtime_ns)
os.rename("lib3", "lib")
assert tree("lib") == before
print(sorted(os.listdir(".")))
""", opts=["--disk", disk])
    assert done.stdout == "['lib']\n", done


def test_git_mv_moves_a_folder(box):
    make_tree(box)
    script = "git init -q && git add . && git -c user.name=n -c user.email=e commit -qm all"
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, env=box.env, cwd=box.workspace)
    done = box.run("sh", "-c", "git mv lib lib3 && git status --short && test ! -e lib")
    assert done.returncode == 0 and "R  lib/sub/deep/c -> lib3/sub/deep/c\n" in done.stdout, done


def test_node_renames_a_folder(box):
    if not shutil.which("node"):
        pytest.skip("no node on this host")
    make_folder(box, "lib", ["a"])
    done = box.run("node", "-e", "fs.renameSync('lib', 'dist'); console.log(fs.readdirSync('dist'))", opts=["--memory", "1G"])
    assert done.stdout == "[ 'a' ]\n", done


@pytest.mark.parametrize("code, expected", [
    ("os.rename('lib', 'target')", "done"),                              # not there
    ("os.mkdir('target'); os.rename('lib', 'target')", "done"),          # empty, of the box
    ("os.rename('lib', 'hollow')", "done"),                              # empty, of the host
    ("os.rename('lib', 'other')", "ENOTEMPTY"),
    ("os.rename('lib', 'file')", "ENOTDIR"),
    ("os.rename('file', 'lib')", "EISDIR"),
    ("os.rename('lib', 'lib/sub')", "EINVAL"),
    ("os.rename('lib', 'lib')", "done"),
    ("os.rename('other/..', 'target')", "EBUSY"),
    ("os.rename('missing', 'target')", "ENOENT"),
    ("os.rename('lib', 'missing/target')", "ENOENT"),
    ("os.rename('lib/', 'target/')", "done"),
    ("os.rename('lib', '/tmp/lib')", "EXDEV"),
    ("os.rename('link', 'target'); assert os.path.islink('target')", "done"),
    ("os.rename('lib', 'x' * 300)", "ENAMETOOLONG"),
])
def test_a_rename_answers_as_on_an_ordinary_disk(box, code, expected):
    make_folder(box, "lib", ["a"])
    make_folder(box, "other", ["b"])
    make_folder(box, "hollow")
    box.put("file")
    os.symlink("lib", box.workspace / "link")
    box.caller.own(box.workspace / "link")
    done = python(box, f"""
try:
    {code}
    print("done")
except OSError as error:
    print(errno.errorcode[error.errno])
left = [name for name in os.listdir(".") if name.startswith(".")]
assert not left, left
""")
    assert (done.stdout, done.returncode) == (expected + "\n", 0), done


def test_renames_through_descriptors_and_working_folders(box):
    make_folder(box, "a/lib", ["x"])
    make_folder(box, "b")
    done = python(box, """
a, b = os.open("a", os.O_RDONLY), os.open("b", os.O_RDONLY)
os.rename("lib", "moved", src_dir_fd=a, dst_dir_fd=b)
os.chdir("b")
os.rename("moved", "../c")
os.rename("/workspace/c", "/workspace/a/again")
print(os.listdir("/workspace/a/again"))
""")
    assert done.stdout == "['x']\n", done


FLAGS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for flags in (1, 2, 4):
    r = libc.renameat2(-100, b"lib", -100, b"other", flags)
    print(flags, "done" if r == 0 else errno.errorcode[ctypes.get_errno()])
print(libc.renameat2(-100, b"lib", -100, b"target", 1), os.listdir("target"))
"""


def test_flags_of_renameat2_keep_their_meaning(box):
    """NOREPLACE finds the target; an exchange of lower folders stays EXDEV; whiteouts are nobody's to make."""
    make_folder(box, "lib", ["a"])
    make_folder(box, "other", ["b"])
    done = python(box, FLAGS)
    assert done.stdout == "1 EEXIST\n2 EXDEV\n4 EPERM\n0 ['a']\n", done


def test_extended_attributes_of_folders_stay(box):
    make_folder(box, "lib/sub", ["a"])
    try:
        os.setxattr(box.workspace / "lib/sub", "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    done = python(box, "os.rename('lib', 'lib2')\nprint(os.getxattr('lib2/sub', 'user.note'))")
    assert done.stdout == "b'kept'\n", done


def test_a_folder_of_5000_files_is_renamed(box):
    make_folder(box, "big")
    script = "i=0; while [ $i -lt 50 ]; do mkdir big/$i; j=0; while [ $j -lt 100 ]; do : >big/$i/$j; j=$((j+1)); done; i=$((i+1)); done"
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, cwd=box.workspace)
    done = python(box, "os.rename('big', 'large')\nprint(sum(len(f) for _, _, f in os.walk('large')), os.listdir('.'))")
    assert done.stdout == "5000 ['large']\n", done


def test_a_rename_that_runs_out_of_disk_is_taken_back(box):
    make_folder(box, "lib/sub", ["a"])
    for i in range(6):
        box.put(f"lib/sub/large{i}", os.urandom(1 << 20))
    done = python(box, TREE + """
before = tree("lib")
try:
    os.rename("lib", "lib2")
except OSError as error:
    print(errno.errorcode[error.errno])
now = tree("lib")
assert {k: (v[0], v[2]) for k, v in now.items()} == {k: (v[0], v[2]) for k, v in before.items()}
print(os.listdir("."))
""", opts=["--disk", "4M"])
    assert done.stdout == "ENOSPC\n['lib']\n", done


def test_a_tree_that_is_too_deep_is_left_as_it_was(box):
    """The guest keeps two descriptors per level open, and gives up at 128."""
    script = "mkdir top && cd top && for i in $(seq 140); do mkdir d && cd d && echo $i >f; done"
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, cwd=box.workspace)
    done = python(box, TREE + """
before = tree("top")
try:
    os.rename("top", "other")
except OSError as error:
    print(errno.errorcode[error.errno])
now = tree("top")
assert {k: (v[0], v[2]) for k, v in now.items()} == {k: (v[0], v[2]) for k, v in before.items()}
print(len(now), os.listdir("."))
os.rename("top" + "/d" * 100, "other")
print(len(tree("top")), len(tree("other")))
""")
    assert done.stdout == "EXDEV\n280 ['top']\n198 81\n", done


def test_diff_and_apply_after_a_rename(box):
    make_tree(box)
    (box.workspace / "lib/sub/deep").chmod(0o755) # apply removes the old one as the person could
    done = python(box, "os.rename('lib', 'lib3')\nopen('lib3/a', 'a').write('more\\n')", opts=["--apply"])
    assert done.returncode == 0, done
    assert not (box.workspace / "lib").exists()
    assert (box.workspace / "lib3/a").read_text() == "content of amore\n"
    assert (box.workspace / "lib3/sub/deep/c").read_text() == "content of c"
    assert os.readlink(box.workspace / "lib3/sub/link") == "../a"


def test_who_stands_in_the_folder_stays_in_the_old_one(box):
    """The documented difference: a folder that the guest moves is another one afterwards."""
    make_folder(box, "lib", ["a"])
    done = python(box, """
os.chdir("lib")
os.rename("/workspace/lib", "/workspace/lib2")
print(os.listdir("."), os.path.exists("a"))
os.chdir("/workspace/lib2")
print(os.listdir("."))
""")
    assert done.stdout == "[] False\n['a']\n", done


def test_paths_into_proc_do_not_lead_into_the_guest(box):
    """/proc/self is the guest's own for the guest; links below it must not be followed for somebody else."""
    make_folder(box, "lib", ["a"])
    done = python(box, """
for path in ("/proc/self/cwd/lib", "/proc/self/root/workspace/lib", "/proc/thread-self/cwd/lib"):
    try:
        os.rename(path, "/proc/self/cwd/lib2")
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
print(os.listdir("."))
""")
    assert done.stdout == "EXDEV\nEXDEV\nEXDEV\n['lib']\n", done


def test_rules_of_landlock_bind_the_rename_too(box):
    """A program that may not write there by its own rules does not have the guest do it."""
    make_folder(box, "lib", ["a"])
    done = python(box, """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
attr = struct.pack("Q", (1 << 4) | (1 << 5) | (1 << 7) | (1 << 8) | (1 << 13))
fd = libc.syscall(444, attr, len(attr), 0)
assert fd >= 0 and libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, fd, 0) == 0, ctypes.get_errno()
try:
    os.rename("lib", "lib2")
    print("BREACH")
except OSError as error:
    print(errno.errorcode[error.errno], os.listdir("."))
""")
    assert done.stdout in ("EACCES ['lib']\n", "EXDEV ['lib']\n"), done


MANY = """
import multiprocessing
def work(i):
    for n in range(30):
        os.rename(f"d{i}" if n == 0 else f"m{i}.{n - 1}", f"m{i}.{n}")
        os.rename(f"m{i}.{n}/f0", f"m{i}.{n}/g")
        os.rename(f"m{i}.{n}/g", f"m{i}.{n}/f0")
jobs = [multiprocessing.get_context("fork").Process(target=work, args=(i,)) for i in range(4)]
for job in jobs: job.start()
for job in jobs: job.join()
print(sorted(os.listdir(".")), [len(os.listdir(name)) for name in os.listdir(".")])
"""


def test_many_processes_rename_at_once(box):
    for i in range(4):
        make_folder(box, f"d{i}", [f"f{j}" for j in range(50)])
    done = python(box, MANY)
    assert done.stdout == "['m0.29', 'm1.29', 'm2.29', 'm3.29'] [50, 50, 50, 50]\n", done


def test_a_caller_that_is_killed_leaves_the_folder_whole(box):
    """All at one of the two places, with no rest in between, however far the guest had come."""
    make_folder(box, "big")
    script = "j=0; while [ $j -lt 3000 ]; do echo $j >big/$j; j=$((j+1)); done"
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, cwd=box.workspace)
    done = python(box, """
import subprocess, time, signal
for delay in (0.0, 0.002, 0.01, 0.03):
    place = "big" if os.path.exists("big") else "other"
    child = subprocess.Popen([sys.executable, "-c", f"import os; print(flush=True); os.rename({place!r}, 'other' if {place!r} == 'big' else 'big')"], stdout=subprocess.PIPE)
    child.stdout.readline()
    time.sleep(delay)
    child.kill()
    child.wait()
    # The guest serves one call after the other: this one comes after the end of that one.
    os.mkdir("probe"); os.rename("probe", "probe2"); os.rmdir("probe2")
    assert len(os.listdir(".")) == 1, os.listdir(".")
    assert len(os.listdir(os.listdir(".")[0])) == 3000
os.rename(os.listdir(".")[0], "end")
print("whole")
""")
    assert done.stdout == "whole\n", done


RENAME_ALL = """
import os, sys
for i in range(12):
    os.rename(f"d{i}", f"m{i}")
    print(i, flush=True)
"""
COUNT = "ls -A | wc -l; for folder in *; do ls $folder | wc -l; done | sort -u"


def test_a_snapshot_is_taken_before_or_after_a_rename(box):
    """Never in between: the box is frozen only when the guest has moved all of a folder."""
    script = "for i in 0 1 2 3 4 5 6 7 8 9 10 11; do mkdir d$i; (cd d$i; seq 500 | xargs touch); done"
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, cwd=box.workspace)
    made = box.hutch("box", "new", "-w", box.workspace)
    assert made.returncode == 0, made
    name, copies = made.stdout.split()[0], []
    command = [*box.caller.prefix, str(box.program), "box", "exec", name, "--", "python3", "-c", RENAME_ALL]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=box.env, cwd="/") as renaming:
            assert renaming.stdout.readline() == b"0\n"
            for _ in range(4):
                forked = box.hutch("box", "fork", name)
                assert forked.returncode == 0, forked
                copies.append(forked.stdout.split()[0])
            assert renaming.stdout.read().endswith(b"11\n")
        for copy in [*copies, name]:
            assert box.hutch("box", "exec", copy, "--", "sh", "-c", COUNT).stdout.split() == ["12", "500"]
    finally:
        for each in [*copies, name]:
            box.hutch("box", "rm", each)


FLOOD = """
import os, sys
if os.fork() and os.fork() and os.fork():
    print("flooding", flush=True)
name = f"/tmp/{os.getpid()}"
open(name, "w").close()
while True:
    for _ in range(1000):
        os.rename(name, name + "x")
        os.rename(name + "x", name)
    try:
        os.rename("big", f"/tmp/never")
    except OSError:
        pass
"""


def test_a_flood_of_renames_holds_up_nothing_else(box):
    """The guest serves them in a thread of its own: commands, files and a snapshot still work, and the box ends."""
    make_folder(box, "big", [f"f{i}" for i in range(20)])
    name = box.hutch("box", "new", "-w", box.workspace).stdout.split()[0]
    command = [*box.caller.prefix, str(box.program), "box", "exec", name, "--", "python3", "-c", FLOOD]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=box.env, cwd="/") as flood:
            assert flood.stdout.readline() == b"flooding\n"
            done = box.hutch("box", "exec", name, "--", "sh", "-c", "echo x >new && cat new")
            assert done.stdout == "x\n", done
            copy = box.hutch("box", "fork", name)
            assert copy.returncode == 0, copy
            assert box.hutch("box", "rm", name, copy.stdout.split()[0]).returncode == 0
            flood.wait(60)
    finally:
        box.hutch("box", "rm", name)
