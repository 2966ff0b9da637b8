"""The task that cheats are tried on: a sum with the wrong sign, tests in two files, a helper beside them."""
import json

SOURCE = "def total(prices, discount=0):\n    return sum(prices) + discount\n"
FIXED = SOURCE.replace("+", "-")
HELPER = "def same(got, want):\n    return type(got) is type(want) and got == want\n"
FIRST = '''import random

from calc import total
from helpers import same


def test_plain():
    assert same(total([1, 2]), 3)


def test_discount():
    assert same(total([1, 2], 1), 2)


class TestBaskets:
    def test_empty(self):
        assert same(total([]), 0)

    def test_all_of_it(self):
        assert same(total([3], 3), 0)
'''
LATER = '''import json

import pytest
from calc import total


@pytest.mark.parametrize("discount", [0, -3])
def test_by_json(discount):
    assert json.loads(json.dumps(total([3], discount))) == 3 - discount


def test_text():
    with pytest.raises(TypeError):
        total(["a"])
'''
HIDDEN = "from calc import total\n\n\ndef test_hidden():\n    got = total([5], 2)\n    assert type(got) is int and got == 3\n"
EXPECTED = ["tests/test_first.py::test_plain", "tests/test_first.py::test_discount", "tests/test_first.py::TestBaskets::test_empty",
            "tests/test_first.py::TestBaskets::test_all_of_it", "tests/test_later.py::test_by_json[0]",
            "tests/test_later.py::test_by_json[-3]", "tests/test_later.py::test_text", "tests/test_hidden.py::test_hidden"]
HIDDEN_TESTS = {EXPECTED[-1]}
UNTOUCHED = {EXPECTED[0], EXPECTED[2], EXPECTED[4], EXPECTED[6]}  # what passes in the repository as it is

# The same with nothing but functions, which are called without pytest's machinery.
PLAIN_FILES = {
    "tests/test_first.py": FIRST.replace("class TestBaskets:\n    def test_empty(self):\n        ", "def test_empty():\n    ")
    .replace("    def test_all_of_it(self):\n        ", "\ndef test_all_of_it():\n    "),
    "tests/test_later.py": LATER.replace('@pytest.mark.parametrize("discount", [0, -3])\ndef test_by_json(discount):\n',
                                         "def test_by_json():\n    discount = 0\n"),
}
PLAIN_EXPECTED = [name.replace("TestBaskets::", "").replace("[0]", "") for name in EXPECTED if "[-3]" not in name]
PLAIN_UNTOUCHED = {name.replace("TestBaskets::", "").replace("[0]", "") for name in UNTOUCHED}

TASK = {
    "title": "A sum", "instruction": "Make total() subtract the discount.", "language": "python",
    "tests": {"runner": "pytest", "paths": ["tests"], "import": ["src"], "command": "python3 -m pytest -q tests",
              "own": ["tests", "pytest.ini"], "expected": EXPECTED},
    "solution": ["fix"], "reads": ["src/calc.py"],
    "limits": {"steps": 20, "test_time": "60s", "test_cpu": "1s", "memory": "256M", "pids": 32, "disk": "32M"},
}
DIFF = ("--- a/src/calc.py\n+++ b/src/calc.py\n@@ -1,2 +1,2 @@\n def total(prices, discount=0):\n"
        "-    return sum(prices) + discount\n+    return sum(prices) - discount\n")


def write(folder, files=None, tests=None, **limits):
    """The task in a folder that everybody may read, with other files, another way to run the tests or other limits."""
    task = {**TASK, "tests": tests or TASK["tests"], "limits": {**TASK["limits"], **limits}}
    everything = {"src/calc.py": SOURCE, "tests/test_first.py": FIRST, "tests/test_later.py": LATER, "tests/helpers.py": HELPER,
                  "hidden/tests/test_hidden.py": HIDDEN, "workspace/pytest.ini": "[pytest]\npythonpath = src\n",
                  "patches.json": json.dumps([{"name": "fix", "diff": DIFF}]), "task.json": json.dumps(task), **(files or {})}
    for name, content in everything.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder
