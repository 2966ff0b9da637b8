"""`--from quixbugs:DIR`, with a checkout of that layout whose programs are made up here."""
import json

import pytest

from listing import tasks, write

CONFTEST = """import pytest


def pytest_addoption(parser):
    parser.addoption("--correct", action="store_true", help="the correct programs")


def pytest_configure(config):
    pytest.use_correct = config.getoption("--correct")
"""

LOADER = """import json
from pathlib import Path


def load_json_testcases(name):
    lines = (Path(__file__).parent.parent / "json_testcases" / f"{name}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]
"""

TABLE_TEST = """import pytest
from load_testdata import load_json_testcases

if pytest.use_correct:
    from correct_python_programs.{0} import {0}
else:
    from python_programs.{0} import {0}


@pytest.mark.parametrize("given,expected", load_json_testcases("{0}"))
def test_{0}(given, expected):
    assert {0}(*given) == expected
"""

NODE = """class Node:
    def __init__(self, value, nexts=()):
        self.value, self.nexts = value, list(nexts)
"""

NODE_TEST = """import pytest
from node import Node

if pytest.use_correct:
    from correct_python_programs.reaches import reaches
else:
    from python_programs.reaches import reaches


def test_one():
    assert reaches(Node(1), 1)


def test_far():
    assert reaches(Node(1, [Node(2, [Node(3)])]), 3)


def test_not():
    assert not reaches(Node(1, [Node(2)]), 9)
"""

CLAMP = """def clamp(low, x, high):
    if x < low:
        return low
    if high < low:
        return None
    if x > high:
        return low
    return x

\"\"\"
Keeps x between low < high.
\"\"\"
"""
HALVE = """def halve(n):
    steps = 0
    while n > 1:
        n = {} // 2
        steps = steps + 1
    return steps
"""
REACHES = """def reaches(node, value):
    for following in node.nexts:
        if reaches(following, value):
            return True
    return {}
"""


def rows(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


FILES = {
    "README.md": "x", "conftest.py": CONFTEST,
    "python_testcases/load_testdata.py": LOADER, "python_testcases/node.py": NODE,
    "python_programs/clamp.py": CLAMP,
    "correct_python_programs/clamp.py": CLAMP.replace("return low\n    return x", "return high\n    return x"),
    "python_testcases/test_clamp.py": TABLE_TEST.format("clamp"),
    "json_testcases/clamp.json": rows([[1, 0, 3], 1], [[1, 2, 3], 2], [[1, 9, 3], 3], [[3, 5, 1], None]),
    "python_programs/halve.py": HALVE.format("n + 2"),
    "correct_python_programs/halve.py": HALVE.format("n"),
    "python_testcases/test_halve.py": TABLE_TEST.format("halve"),
    "json_testcases/halve.json": rows([[1], 0], [[8], 3]),
    "python_programs/reaches.py": REACHES.format("False"),
    "correct_python_programs/reaches.py": REACHES.format("node.value == value"),
    "python_testcases/test_reaches.py": NODE_TEST,
    "python_programs/untested.py": "x = 1\n", "correct_python_programs/untested.py": "x = 2\n",
}


@pytest.fixture
def checkout(box):
    return write(box, "checkout", FILES)


def test_each_program_with_a_test_is_a_task(box, checkout):
    listed = tasks(box, "--no-check", "--from", f"quixbugs:{checkout}")
    assert sorted(listed.tasks) == ["clamp", "halve", "reaches"], listed
    clamp = listed.tasks["clamp"]
    assert clamp["language"] == "python" and clamp["solution"] == ["line-7"]
    assert clamp["patches"] == 3, "the solution, and lines that it leaves alone: 2 and 4"
    again = tasks(box, "--no-check", "--from", f"quixbugs:{checkout}")
    assert [again.tasks[name]["digest"] for name in again.tasks] == [one["digest"] for one in listed.tasks.values()]


def test_the_tasks_are_in_order(box, checkout):
    listed = tasks(box, "--from", f"quixbugs:{checkout}")
    assert listed.status == 0 and all(one["valid"] for one in listed.tasks.values()), listed
    assert listed.tasks["clamp"]["tests"] == 4 and listed.tasks["reaches"]["tests"] == 3
    assert listed.tasks["halve"]["tests"] == 2, "a bug that never ends is stopped, and the others are not hurt"


def test_one_program_alone(box, checkout):
    listed = tasks(box, "--no-check", "--from", f"quixbugs:{checkout}", "reaches")
    assert list(listed.tasks) == ["reaches"]
    done = box.hutch("gym", "tasks", "--no-check", "--from", f"quixbugs:{checkout}", "reach")
    assert done.returncode == 125 and "there is no task reach" in done.stderr, done


def test_what_is_no_task_is_left_out_with_the_reason(box):
    files = {**FILES, "correct_python_programs/clamp.py": CLAMP, "python_programs/halve.py": ("link", "/etc/passwd")}
    del files["correct_python_programs/reaches.py"]
    where = write(box, "bad", files)
    done = box.hutch("gym", "tasks", "--no-check", "--from", f"quixbugs:{where}")
    assert done.returncode == 125 and "none of its tasks can be played" in done.stderr, done
    assert "clamp: left out: python_programs/clamp.py: is the same as the correct program" in done.stderr
    assert "halve: left out:" in done.stderr and "is a link" in done.stderr
    assert "reaches: left out:" in done.stderr and "correct_python_programs/reaches.py" in done.stderr


def test_something_else_is_no_checkout(box):
    done = box.hutch("gym", "tasks", "--from", f"quixbugs:{box.workspace}")
    assert done.returncode == 125 and "is no checkout of QuixBugs" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", "quixbug:x")
    assert done.returncode == 125 and "quixbugs:DIR" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", "quixbugs")
    assert done.returncode == 125 and "say where: quixbugs:DIR" in done.stderr, done
