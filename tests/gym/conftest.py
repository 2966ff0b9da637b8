"""Fixtures of the tests of the gym: the shipped tasks where every caller can read them, and environments to play in."""
import shutil
import tempfile
from pathlib import Path

import pytest

import harness
import calc_task
from playing import Gym


@pytest.fixture(scope="session")
def tasks(scratch):
    """The shipped tasks, where every user may read them."""
    folder = Path(scratch) / "tasks"
    shutil.copytree(harness.REPO / "tasks", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture(scope="session")
def gym_run(hutch, scratch):
    """tests/unit/gym_run beside the parts that a box is made of."""
    program = hutch.parent / "tests" / "unit" / "gym_run"
    if not program.exists():
        pytest.skip(f"not built: {program}")
    folder = Path(tempfile.mkdtemp(prefix="gym-", dir=scratch))
    folder.chmod(0o755)
    shutil.copy2(program, folder)
    for part in ("hutch-guest", "hutch-warm.so"):
        shutil.copy2(hutch.parent / part, folder)
    shutil.copytree(hutch.parent / "hutch-skeleton", folder / "hutch-skeleton", symlinks=True)
    return folder / program.name


@pytest.fixture(scope="session")
def calc(scratch):
    """The task of calc_task.py."""
    return calc_task.write(Path(scratch) / "calc")


@pytest.fixture
def open_gym(callers, gym_run, calc):
    """Programs with one arena each: open_gym("user", "--virtual", task=FOLDER)."""
    opened = []

    def start(name, *options, task=calc):
        caller, _ = callers(name)
        opened.append(Gym([*caller.prefix, str(gym_run), *options, str(task)]))
        return opened[-1]

    yield start
    for gym in opened:
        gym.close()


@pytest.fixture
def gym(open_gym, who):
    """With the virtual clock, as root and as an ordinary user."""
    return open_gym(who, "--virtual")
