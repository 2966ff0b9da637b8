"""What a session of shells keeps in the box, and shells that are not bash."""

import os

import pytest

from shell_kit import shell_box
from wire import NUMBERS, ROOT

SAVED, LOST = NUMBERS["STATE_SAVED"], NUMBERS["STATE_LOST"]
ENOENT, E2BIG = 2, 7


@pytest.fixture
def box(tmp_path):
    yield from shell_box(tmp_path)


# What is kept in the box


def restart(box):
    """Another guest over the same /tmp is what a fork of the box begins with; here its file is carried over."""
    return box.out("cat /tmp/.hutch/shell/main")


def plant(box, data, name="new"):
    (box.folder / "state").write_bytes(data)
    box.run(f"mkdir -p /tmp/.hutch/shell; cp {ROOT}/state /tmp/.hutch/shell/{name}")


def test_session_goes_on_from_its_file(box):
    box.out("cd /usr; export A='x y'; f() { echo f; }")
    plant(box, restart(box))
    assert box.out("pwd; echo $A; f", NAME="new") == b"/usr\nx y\nf\n"


def test_file_is_written_only_when_something_changed(box):
    box.out("export A=1")
    look = "stat -c '%i %Y %Z' /tmp/.hutch/shell/main"
    before = box.run(look)[2][1]
    box.out("true")
    box.out("B=2; ls / >/dev/null")
    assert box.run(look)[2][1] == before
    box.out("export A=2")
    assert box.run(look)[2][1] != before


STATE = b"/usr\n\0export A=1\n\0\0end\0"


@pytest.mark.parametrize("data", [
    b"", b"\0", b"/usr\n\0", STATE[:-1], STATE + b"x", STATE.replace(b"/usr", b"usr"), b"/usr\0export A=1\n\0\0end\0",
    b"\xff" * 300_000, b"/" * 5000 + b"\n\0\0\0end\0", b"\n\0\0\0end\0"],
    ids=lambda data: f"{len(data)}-{data[:6].hex()}")
def test_file_that_is_no_state(box, data):
    plant(box, data)
    result, output = box.sh("pwd; echo ${A-none}", NAME="new")
    assert output.endswith(b"none\n") and b"session was reset" in result["NOTE"]
    assert "NOTE" not in box.sh("true", NAME="new")[0]


@pytest.mark.parametrize("make", ["mkfifo", "mkdir", "ln -s /dev/zero", "ln -s /etc/passwd"])
def test_file_that_is_something_else(box, make):
    box.run(f"mkdir -p /tmp/.hutch/shell; {make} /tmp/.hutch/shell/new")
    result, _ = box.sh("export A=1", NAME="new")
    assert result["EXIT_CODE"] == 0
    assert box.out("echo $A", NAME="new") == b"1\n"


@pytest.mark.parametrize("exports", [b"kill -9 $$", b"exit 3", b"syntax ' error", b"exec 3<&- 4<&-"])
def test_state_that_breaks_the_shell_is_left_behind(box, exports):
    plant(box, b"/usr\n\0" + exports + b"\n\0\0end\0")
    result, output = box.sh("echo ran; export A=1", NAME="new")
    assert output.endswith(b"ran\n") and result["EXIT_CODE"] == 0
    assert box.out("echo $A", NAME="new") == b"1\n"


def test_state_that_hangs_the_shell_is_left_behind(box):
    plant(box, b"/usr\n\0while :; do :; done\n\0\0end\0")
    result, output = box.sh("echo ran", NAME="new")
    assert output == b"ran\n" and b"session was reset" in result["NOTE"]


def test_folder_of_the_files_cannot_be_made(box):
    box.run("rm -rf /tmp/.hutch; ln -s /nowhere /tmp/.hutch")
    box.out("export A=1")
    assert box.out("echo $A") == b"1\n"


# Without bash


@pytest.fixture
def plain(box):
    """The variables of a session in a box without bash: PATH leads to sh and little else."""
    folder = box.folder / "bin"
    folder.mkdir()
    for name in ("ls", "cat", "sleep", "printenv"):
        (folder / name).symlink_to("/bin/" + name if os.path.exists("/bin/" + name) else "/usr/bin/" + name)
    (folder / "sh").symlink_to("/bin/dash")
    return {"ENV": [f"PATH={ROOT}/bin", "HOME=/tmp"], "NAME": "plain"}


def test_plain_shell(box, plain):
    assert box.out("echo $0; pwd", **plain).startswith(b"sh\n")
    box.sh("cd /usr; export A=\"it's\"; exit 3", **plain)
    assert box.out('pwd; echo "$A"; ls /proc/self/fd', **plain) == b"/usr\nit's\n0\n1\n2\n3\n"
    assert box.out("cat; read x || echo end", DATA="in\n", **plain) == b"in\nend\n"
    assert box.out("pwd", CWD="/tmp", **plain) == b"/tmp\n"
    assert box.refused("pwd", CWD="/nowhere", **plain)[0] == ENOENT
    result, _ = box.sh("export A=2; echo 'open", **plain)
    assert result["EXIT_CODE"] == 2
    assert box.out('echo "$A"; pwd', **plain) == b"it's\n/usr\n"
    assert box.refused("#" * 200_000, **plain)[0] == E2BIG


def test_no_shell_at_all(box):
    code, text = box.refused("true", ENV=["PATH=/nowhere"], NAME="none")
    assert code == ENOENT and "no shell" in text
