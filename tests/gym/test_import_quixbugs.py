"""`--from quixbugs:DIR`, with a checkout of that layout whose programs are made up here."""
import json

import pytest

from listing import tasks, write

CONFTEST = """import pytest


def pytest_addoption(parser):
    parser.addoption("--correct", action="store_true", help="the correct programs")
    parser.addoption("--fast", dest="quick", action="store_false")
    parser.getgroup("programs").addoption("--program-folder", default="python_programs")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")
    pytest.use_correct = config.getoption("--correct")
    pytest.quick = config.option.quick
    pytest.program_folder = config.getoption("--program-folder")
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
    if expected == "slow":
        pytest.skip("takes long")
    assert {0}(*given) == expected
"""

NODE = """class Node:
    def __init__(self, value, nexts=()):
        self.value, self.nexts = value, list(nexts)
"""

UTILS = """import importlib
import pytest


def load(name):
    assert pytest.quick is True
    return getattr(importlib.import_module(f"{pytest.program_folder}.{name}"), name)
"""

NODE_TEST = """import pytest
from node import Node
from test_utils import load

reaches = load("reaches")


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
# The right ones have no description at their end, but other ways to do it.
CLAMPED = "\n" + CLAMP[:CLAMP.index('\n"""')].replace("return low\n    return x", "return high\n    return x") + '''
"""
def clamp(low, x, high):
    return sorted((low, x, high))[1]
"""
'''
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
    "python_testcases/test_utils.py": UTILS,
    "python_programs/clamp.py": CLAMP,
    "correct_python_programs/clamp.py": CLAMPED,
    "python_testcases/test_clamp.py": TABLE_TEST.format("clamp"),
    "json_testcases/clamp.json": rows([[1, 0, 3], 1], [[1, 2, 3], 2], [[1, 9, 3], 3], [[3, 5, 1], None]),
    "python_programs/halve.py": HALVE.format("n + 2"),
    "correct_python_programs/halve.py": HALVE.format("n"),
    "python_testcases/test_halve.py": TABLE_TEST.format("halve"),
    "json_testcases/halve.json": rows([[1], 0], [[8], 3], [[9], "slow"]),
    "python_programs/reaches.py": REACHES.format("False"),
    "correct_python_programs/reaches.py": REACHES.format("node.value == value"),
    "python_testcases/test_reaches.py": NODE_TEST,
    "python_programs/untested.py": "x = 1\n", "correct_python_programs/untested.py": "x = 2\n",
    "python_programs/node.py": NODE, "python_programs/reaches_test.py": "from reaches import reaches\n",
    "correct_python_programs/node.py": NODE, "correct_python_programs/reaches_test.py": "from reaches import reaches\n",
    "java_programs/CLAMP.java": "class CLAMP {}\n",
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
    assert listed.said.splitlines() == [
        "hutch: untested: left out: it has no python_testcases/test_untested.py",
        "hutch: java_programs: left out: only the Python programs can be played"], listed.said
    again = tasks(box, "--no-check", "--from", f"quixbugs:{checkout}")
    assert [again.tasks[name]["digest"] for name in again.tasks] == [one["digest"] for one in listed.tasks.values()]


def test_the_tasks_are_in_order(box, checkout):
    listed = tasks(box, "--from", f"quixbugs:{checkout}")
    assert listed.status == 0 and all(one["valid"] for one in listed.tasks.values()), listed
    assert listed.tasks["clamp"]["tests"] == 4 and listed.tasks["reaches"]["tests"] == 3
    assert listed.tasks["halve"]["tests"] == 2, "a bug that never ends is stopped; a test that is skipped does not count"


def test_the_solution_is_the_bug_alone(box, checkout):
    """The two programs differ in a blank line at the top and in the text behind the code, too."""
    done = box.hutch("gym", "episode", "--from", f"quixbugs:{checkout}", "--task", "clamp", "--agent", "search",
                     "--clock", "virtual", "--json")
    first, _, last = [json.loads(line) for line in done.stdout.splitlines()]
    changed = [line for line in first["action"]["diff"].splitlines()[2:] if line[0] in "+-"]
    assert changed == ["-        return low", "+        return high"] and last["pass_rate"] == 1, done


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
    assert "halve: left out:" in done.stderr and "is a symlink" in done.stderr
    assert "reaches: left out:" in done.stderr and "correct_python_programs/reaches.py" in done.stderr


def test_a_checkout_without_tests(box):
    where = write(box, "old", {path: text for path, text in FILES.items() if not path.startswith("python_testcases/")})
    done = box.hutch("gym", "tasks", "--from", f"quixbugs:{where}")
    assert done.returncode == 125 and "has no folder python_testcases; checkouts of before 2021 have no tests" in done.stderr


def test_something_else_is_no_checkout(box):
    done = box.hutch("gym", "tasks", "--from", f"quixbugs:{box.workspace}")
    assert done.returncode == 125 and "not a checkout of QuixBugs" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", "quixbug:x")
    assert done.returncode == 125 and "quixbugs:DIR" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", "quixbugs")
    assert done.returncode == 125 and "say where: quixbugs:DIR" in done.stderr, done
