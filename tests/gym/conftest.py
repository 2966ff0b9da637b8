"""Fixtures of the tests of the gym: the shipped tasks where every caller can read them, and environments to play in."""
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import harness
import calc_task
import learning
from playing import Gym

# Models that play, and terminals, are those of the agent's tests.
AGENT = harness.REPO / "tests" / "agent"
sys.path.insert(0, str(AGENT))
_spec = importlib.util.spec_from_file_location("agent_conftest", AGENT / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
model_server, make_env = _fixtures.model_server, _fixtures.make_env
agent_env, user_env = _fixtures.agent_env, _fixtures.user_env


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
    """tests/unit/gym/gym_run beside the parts that a box is made of."""
    program = hutch.parent / "tests" / "unit" / "gym" / "gym_run"
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


@pytest.fixture
def make_gym(make_box, tasks):
    """The command line on demand: make_gym("user")."""
    return lambda name: learning.Gym(make_box(name), tasks)


@pytest.fixture
def cli(make_gym, who):
    """`hutch gym …` as root and as an ordinary user."""
    return make_gym(who)


@pytest.fixture
def user_cli(make_gym):
    """As an ordinary user only, for what does not depend on who it is."""
    return make_gym("user")
