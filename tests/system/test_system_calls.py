"""System calls answer as programs expect that were written for an ordinary user of an ordinary machine."""
import os
import shutil
import subprocess

import pytest

FOREIGN_IDS = """
import errno, os
open("f", "w").close()
calls = [
    ("chown", lambda: os.chown("f", 0, -1)), ("chown group", lambda: os.chown("f", -1, 4)),
    ("fchown", lambda: os.fchown(os.open("f", os.O_RDONLY), 33, 33)), ("lchown", lambda: os.lchown("f", 1001, 1000)),
    ("setuid", lambda: os.setuid(0)), ("setgid", lambda: os.setgid(0)), ("setreuid", lambda: os.setreuid(-1, 0)),
    ("setregid", lambda: os.setregid(7, -1)), ("setresuid", lambda: os.setresuid(0, 0, 0)),
    ("setresgid", lambda: os.setresgid(-1, -1, 65534)), ("setgroups", lambda: os.setgroups([4])),
]
for name, call in calls:
    try:
        call()
        print(name, "worked")
    except OSError as error:
        if error.errno != errno.EPERM:
            print(name, errno.errorcode[error.errno])
os.chown("f", 1000, 1000)
os.chown("f", -1, -1)
os.setresuid(1000, -1, 1000)
os.setgid(1000)
print("own ids work")
"""


def test_foreign_ids_are_refused_as_to_an_ordinary_user(box):
    done = box.run("python3", "-c", FOREIGN_IDS)
    assert done.stdout == "own ids work\n", done


def test_address_randomisation_can_be_switched_off(box):
    done = box.run("setarch", "-R", "sh", "-c", "grep ' .stack.$' /proc/self/maps; grep ' .stack.$' /proc/self/maps")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2 and lines[0] == lines[1], done


def test_gdb_runs_a_program(box):
    if not shutil.which("gdb"):
        pytest.skip("no gdb on this host")
    done = box.run("gdb", "-q", "-batch", "-ex", "run", "/bin/true", opts=["--memory", "1G"])
    assert "exited normally" in done.stdout and "randomization" not in done.stderr, done


def make_repository(box, files):
    """A committed repository of the caller whose index has the host's ids and inode numbers."""
    folder = box.workspace / "repo"
    script = (f"mkdir {folder} && cd {folder} && git init -q && for i in $(seq {files}); do echo $i >f$i; done && "
              "touch -d '2 hours ago' f* && git add . && git -c user.name=n -c user.email=e commit -qm all && git status --short")
    subprocess.run([*box.caller.prefix, "sh", "-c", script], check=True, env=box.env)
    return folder


def test_git_status_hashes_no_file_again_in_a_fresh_box(box):
    """git reads a file again whose stat differs from the index: here it finds all of them unreadable if it does."""
    folder = make_repository(box, 200)
    for path in folder.glob("f*"):
        path.chmod(0o044 if os.geteuid() else 0o000)
    done = box.run("sh", "-c", "git -c core.fileMode=false status --short 2>&1 | head -3; id -u", opts=[], workspace=folder)
    assert done.stdout == "1000\n", done


SETUID = """
set -e
mkdir in && echo '#!/bin/sh' >in/program && cp in/program in/plain
python3 - <<'END'
import tarfile
with tarfile.open("archive.tar", "w") as tar:
    for name, mode in (("program", 0o4755), ("both", 0o6755)):
        info = tarfile.TarInfo(name)
        info.mode = mode
        tar.addfile(info)
END
tar xpf archive.tar
install -m 4755 in/program installed
mkdir -m 2775 shared
mkdir later && chmod 2775 later && chmod 6775 later
cd in && chmod 4711 plain && chmod u+s,g+x ../installed
stat -c '%n %a' ../program ../both ../installed plain ../shared ../later
"""


@pytest.mark.parametrize("mode", ["cow", "direct"])
def test_set_user_id_bits_are_dropped_silently(box, mode):
    """Archives hold them, and tar and install fail if the call does. Set-group-id of folders stays."""
    done = box.run("sh", "-c", SETUID, opts=["--mode", mode])
    assert done.stdout == ("../program 755\n../both 755\n../installed 755\nplain 711\n../shared 2775\n../later 2775\n"), done
    assert not done.stderr, done


def test_chmod_with_set_user_id_answers_as_usual(box):
    done = box.run("python3", "-c", """
import errno, os
open("f", "w").close(); os.symlink("f", "link"); os.symlink("loop", "loop"); os.mkdir("d")
fd, d = os.open("f", os.O_RDONLY), os.open("d", os.O_RDONLY)
for call in (lambda: os.chmod("missing", 0o4755), lambda: os.chmod("f/x", 0o4755), lambda: os.chmod("/usr/bin/env", 0o4755),
             lambda: os.chmod("x" * 300, 0o4755), lambda: os.chmod("link", 0o4751), lambda: os.fchmod(fd, 0o4750),
             lambda: os.chmod("../f", 0o4700, dir_fd=d), lambda: os.fchmod(99, 0o4755), lambda: os.chmod("/proc/self/status", 0o4755),
             lambda: os.chmod("/proc/self/cwd/f", 0o4755)):
    try:
        call()
        print(oct(os.stat("f").st_mode)[-4:])
    except OSError as error:
        print(errno.errorcode[error.errno])
""")
    assert done.stdout.split() == ["ENOENT", "ENOTDIR", "EROFS", "ENAMETOOLONG", "0751", "0750", "0700", "EBADF", "EPERM", "EPERM"], done
