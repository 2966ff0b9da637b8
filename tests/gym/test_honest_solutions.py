"""Correct solutions get the full score, whatever they do on the way: in the warm runner, in an interpreter of its own, for tests that
are plain functions, and where a command runs the tests."""
from pathlib import Path

import pytest

import honest_solutions
from test_cheats import grade

LANES = {"warm": ("fixtures", []), "plain": ("plain", []), "cold": ("fixtures", ["--cold"]), "command": ("command", [])}


@pytest.fixture
def arena(open_gym, scratch):
    def start(who, lane):
        kind, options = LANES[lane]
        folder = Path(scratch) / f"honest_solutions_{kind}"
        if not folder.exists():
            honest_solutions.write(folder, kind)
        return open_gym(who, "--virtual", "--no-cache", *options, task=folder)

    return start


def score(gym, source):
    info = grade(gym, {"src/calc.py": source})
    return info["pass_rate"], info["trouble"], [t for t in info["tests"] if t["outcome"] != "passed"], info["hidden"]


def refused(gym, table):
    """Those that do not get the full score, and what was said of them."""
    found = {}
    for name, source in table.items():
        got = score(gym, source)
        if got[:2] != (1.0, None):
            found[name] = got
    return found


@pytest.mark.parametrize("lane", ["warm", "plain"])
def test_correct_solutions_get_the_full_score(arena, who, lane):
    gym = arena(who, lane)
    assert score(gym, honest_solutions.SOURCE)[0] < 1, "the tests tell a wrong solution from a right one"
    assert refused(gym, honest_solutions.SOLUTIONS) == {}
    assert gym.counts()["warm"]


@pytest.mark.parametrize("lane", ["cold", "command"])
def test_correct_solutions_get_the_full_score_without_the_warm_runner(arena, lane):
    """As an ordinary user only: each of these starts an interpreter, and that it is another user's changes nothing."""
    gym = arena("user", lane)
    assert score(gym, honest_solutions.SOURCE)[0] < 1
    assert refused(gym, honest_solutions.SOLUTIONS) == {}
    assert not gym.counts()["warm"]


@pytest.mark.parametrize("lane", LANES)
def test_numpy_gets_the_full_score(arena, lane):
    pytest.importorskip("numpy", reason="Debian's package python3-numpy is not installed")
    assert refused(arena("user", lane), {"numpy": honest_solutions.NUMPY}) == {}
