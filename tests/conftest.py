"""Fixtures of the tests that drive the built program (tests/system, tests/security, tests/guest).

`who` runs a test twice: as root and as an ordinary user. The program is $HUTCH, or build/hutch of this checkout.
"""
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness


DISK_SIZE = 32 << 30  # of a sparse file


def hear_signals():
    """A shell starts what runs in its background with SIGINT ignored, nohup does so with SIGHUP, and a program that is ignoring a
    signal hands that on. hutch respects it, so the tests that send signals would wait in vain: a handler is not handed on."""
    for which in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(which) == signal.SIG_IGN:
            signal.signal(which, lambda *_: None)


# A box differs between root and an ordinary user; what is built on a box does not. Tests in these folders run as root as
# well only in the files named here, or with --both-users.
BUILT_ON_BOXES = {"agent", "gym", "mcp", "model", "python", "serve", "tool"}
AS_ROOT_TOO = {"test_apply_diff.py", "test_bash.py", "test_cheats.py", "test_cheats_inside.py", "test_client_config.py",
               "test_edit_file.py", "test_env.py", "test_folder_news.py", "test_git.py", "test_pending.py", "test_python_box.py",
               "test_runner.py", "test_trust.py", "test_undo_applied.py", "test_worker_faults.py", "test_write_file.py"}


def pytest_addoption(parser):
    parser.addoption("--both-users", action="store_true", help="run every test of a box as root and as an ordinary user")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--both-users"):
        return

    def runs(item):
        who = getattr(item, "callspec", None) and item.callspec.params.get("who")
        return who != "root" or item.path.parent.name not in BUILT_ON_BOXES or item.path.name in AS_ROOT_TOO

    config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
    items[:] = [item for item in items if runs(item)]


def pytest_configure(config):
    hear_signals()
    harness.adopt_orphans()


def mount_disk(folder):
    """Mounts a fresh ext4 with a journal at the folder; the image has no name. Images of virtual machines often have an ext4
    without one: there the kernel looks at every inode that was deleted in the last minutes before it makes a file, so a suite
    that makes and removes a million files gets slower and slower. Returns False where root's rights are missing."""
    with tempfile.NamedTemporaryFile(prefix="hutch-disk-", dir="/var/tmp") as image:
        image.truncate(DISK_SIZE)
        for command in (["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", image.name],
                        ["mount", "-o", "loop,noinit_itable", image.name, folder]):
            try:
                if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                    return False
            except FileNotFoundError:
                return False
    return True


def remove_scratch(folder, mounted):
    if mounted:
        subprocess.run(["umount", "--lazy", folder], check=False)
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def remove_abandoned():
    """Folders of sessions that were killed; the process is part of the name."""
    for folder in Path("/var/tmp").glob("hutch-test-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path("/proc", owner).exists() and folder.stat().st_uid == os.geteuid():
            remove_scratch(folder, os.path.ismount(folder))


@pytest.fixture(scope="session")
def scratch():
    """A folder of this session that every user may walk through, but not list. Its trees may be too deep for Python."""
    remove_abandoned()
    folder = tempfile.mkdtemp(prefix=f"hutch-test-{os.getpid()}-", dir="/var/tmp")
    mounted = os.geteuid() == 0 and mount_disk(folder)
    os.chmod(folder, 0o711)
    yield folder
    remove_scratch(folder, mounted)


@pytest.fixture(scope="session")
def hutch():
    """The program under test."""
    return Path(os.environ.get("HUTCH") or harness.REPO / "build" / "hutch")


@pytest.fixture(params=["root", "user"])
def who(request):
    return request.param


@pytest.fixture(scope="session")
def callers(scratch, hutch):
    """Callers by name, made once per session, each with the program where it can reach it."""
    made = {}

    def get(name):
        if name not in made:
            caller = harness.make_caller(name, scratch)
            made[name] = (caller, harness.reachable_program(hutch, caller, scratch))
        return made[name]

    return get


@pytest.fixture
def make_box(callers, scratch):
    """Boxes on demand, for tests that need more than one: make_box("user")."""

    def make(name):
        caller, program = callers(name)
        return harness.Box(program, caller, scratch)

    return make


@pytest.fixture
def box(make_box, who):
    return make_box(who)


@pytest.fixture(autouse=True)
def nothing_left_running():
    """No process that a test started, or that a box of it started, outlives the test."""
    before = set(harness.descendants())
    yield
    left = harness.leftovers(before)
    said = [harness.describe(pid) for pid in left]
    harness.end_all(left)
    harness.reap_orphans()
    assert not left, "BREACH left running: " + "; ".join(said)
