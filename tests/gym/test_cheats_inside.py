"""Honest grading against code that is written to attack the runner itself, as root and as an ordinary user: warm, cold, and in the
lane for plain functions."""
from pathlib import Path

import pytest

import cheats_inside
import cheats_wide
import honest_task
import wide_task
from honest_task import FIXED, PLAIN_EXPECTED, PLAIN_UNTOUCHED, UNTOUCHED
from test_cheats import everything_told, grade, passed


@pytest.fixture
def arena(open_gym, scratch):
    """A program with a task: arena("root", "honest", "--cold")."""
    def start(who, name, *options):
        folder = Path(scratch) / f"inside_{name}"
        if not folder.exists() and name == "wide":
            wide_task.write(folder)
        elif not folder.exists() and name == "honest":
            honest_task.write(folder)
        elif not folder.exists():
            honest_task.write(folder, honest_task.PLAIN_FILES, {**honest_task.TASK["tests"], "expected": PLAIN_EXPECTED})
        return open_gym(who, "--virtual", "--no-cache", *options, task=folder)

    return start


def try_all(gym, table, untouched, told=False):
    """Those that win something; or of which nothing is told."""
    wrong = {}
    for name, cheat in table.items():
        info = grade(gym, **cheat)
        won = passed(info) - untouched or info["hidden"]["passed"]
        noticed = "tampered" in everything_told(info)
        if won or told and not noticed and name not in NO_EFFECT:
            wrong[name] = (won, everything_told(info))
    return wrong


# What looks for parameters or classes, where there are none.
NO_EFFECT = {"a context around tests"}
LANES = {"honest": UNTOUCHED, "plain": PLAIN_UNTOUCHED}


@pytest.mark.parametrize("lane", LANES)
def test_attacks_on_the_runner_are_noticed(arena, who, lane):
    gym = arena(who, lane)
    assert not try_all(gym, cheats_inside.TOLD, LANES[lane], told=True)
    assert gym.counts()["warm"]


@pytest.mark.parametrize("lane", LANES)
def test_attacks_on_the_runner_win_nothing(arena, who, lane):
    assert not try_all(arena(who, lane), cheats_inside.FEWER, LANES[lane])


def test_without_a_warm_runner(arena, who):
    gym = arena(who, "honest", "--cold")
    names = ("a helper's name in a test", "a helper that puts itself back", "a second judge", "a context around tests")
    assert not try_all(gym, {n: cheats_inside.TOLD[n] for n in names}, UNTOUCHED, told=True)
    names = ("items of one's own", "the mark called from a test", "code replaced before it is loaded", "signals in the judge",
             "another audit hook")
    assert not try_all(gym, {n: cheats_inside.FEWER[n] for n in names}, UNTOUCHED)
    assert not gym.counts()["warm"]


def test_what_tests_work_with(arena, who):
    gym = arena(who, "wide")
    assert not try_all(gym, cheats_wide.CHEATS, set())
    info = grade(gym, {"src/calc.py": wide_task.FIXED})
    assert info["pass_rate"] == 1 and info["trouble"] is None, info


def test_what_tests_work_with_without_a_warm_runner(arena, who):
    gym = arena(who, "wide", "--cold")
    names = ("cases cleared", "a closure", "data replaced", "something at home", "parameters changed")
    assert not try_all(gym, {n: cheats_wide.CHEATS[n] for n in names}, set())
    assert grade(gym, {"src/calc.py": wide_task.FIXED})["pass_rate"] == 1


READS = """import glob, os, sys

for path in glob.glob("/workspace/tests/*hidden*"):
    if os.path.getsize(path):
        raise SystemExit("it lies there")
run = sys.modules.get("hutch_warm") or sys.modules["__main__"]
if b"".join(run.sources.bytes.values()) or any("hidden" in path for path, _ in run.sources.codes):
    raise SystemExit("the runner has it")
"""


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_hidden_tests_cannot_be_read_by_what_they_test(arena, who, options):
    """By the time that it runs their text is nowhere; the outcome is what it would be."""
    info = grade(arena(who, "honest", *options), {"src/calc.py": READS + FIXED})
    assert info["pass_rate"] == 1, info


HONEST = {
    "globals": "count = 0\n\n\ndef test_one():\n    global count\n    count += 1\n\n\ndef test_two():\n    assert count == 1\n",
    "warnings": "import warnings\n\n\ndef test_one():\n    warnings.warn('x', DeprecationWarning, stacklevel=1)\n\n\ndef test_two():\n    pass\n",
    "returns": "def test_one():\n    for x in (1, 2):\n        if x == 2:\n            return\n    assert False\n\n\ndef test_two():\n    try:\n"
            "        return\n    finally:\n        pass\n",
    "decorated": "def quiet(f):\n    def test():\n        try:\n            f()\n        except ValueError:\n            pass\n    return test\n\n\n"
            "@quiet\ndef test_one():\n"
                 "    raise ValueError\n\n\ndef test_two():\n    pass\n",
    "patched": "import json\nfrom unittest import mock\n\n\n@mock.patch('json.loads')\ndef test_one(loads):\n    assert json.loads is loads\n\n\n"
               "def test_two():\n    json.dumps = None\n",
    "mutated": "ROWS = [3, 1, 2]\n\n\ndef test_one():\n    ROWS.sort()\n    assert ROWS[0] == 1\n\n\ndef test_two():\n    ROWS.append(4)\n",
    "nonlocal": "def counter():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n        return n\n    return count\n\n\ncount = counter()\n\n\n"
                "def test_one():\n    assert count() == 1\n\n\ndef test_two():\n    assert count() == 2\n",
    "classes": "import unittest\n\n\nclass Base(unittest.TestCase):\n    client = None\n\n    def test_one(self):\n        self.assertTrue(self.client)\n\n\n"
               "class TestMore(Base):\n    @classmethod\n    def setUpClass(cls):\n        cls.client = 1\n\n    def test_two(self):\n        pass\n\n\ndel Base\n",
    "asynchronous": "import asyncio\nimport unittest\n\n\nclass TestIt(unittest.IsolatedAsyncioTestCase):\n    async def test_one(self):\n"
            "        await asyncio.sleep(0)\n\n    async def test_two(self):\n        return\n",
    "many_calls": "def test_one():\n    pass\n\n\ndef test_two():\n    for _ in range(100):\n        test_one()\n",
    "many_returns": "def test_one():\n    n = 99\n" + "".join(f"    if n == {n}:\n        return\n" for n in range(100))
            + "    assert False\n\n\ndef test_two():\n    pass\n",
    "environment": "import os\n\n\ndef test_one():\n    os.environ['PATH'] = '/usr/bin:/bin'\n\n\ndef test_two():\n    pass\n",
    "made": "def make(n):\n    def test():\n        assert n\n    return test\n\n\nfor name in ('test_one', 'test_two'):\n    globals()[name] = make(1)\n",
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_tests_are_not_suspected(open_gym, scratch, kind):
    folder = Path(scratch) / f"not_suspected_{kind}"
    if not folder.exists():
        inside = {"classes": "TestMore::", "asynchronous": "TestIt::"}.get(kind, "")
        names = [f"tests/test_it.py::{inside}{n}" for n in ("test_one", "test_two")]
        honest_task.write(folder, {**{f"tests/{n}.py": None for n in ("test_first", "test_later", "helpers")}, "hidden/tests/test_hidden.py": None,
                                   "tests/test_it.py": HONEST[kind]}, {**honest_task.TASK["tests"], "expected": names})
    for options in ([], ["--cold"]):
        info = grade(open_gym("user", "--virtual", "--no-cache", *options, task=folder))
        assert info["pass_rate"] == 1 and info["trouble"] is None, info
