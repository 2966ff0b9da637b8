"""A task of the tests' own: a sum with the wrong sign, two patches, one file to read. Its discrete actions are FIX to SUBMIT."""
import json

FIX, WRONG, TESTS, READ, SUBMIT = range(5)
EXPECTED, PASSED_AT_FIRST = 4, 1

SOURCE = "def total(prices, discount=0):\n    return sum(prices) + discount\n"
TEST = """import calc


def test_plain():
    assert calc.total([1, 2]) == 3


def test_discount():
    assert calc.total([1, 2], 1) == 2


def test_all_of_it():
    assert calc.total([3], 3) == 0


def test_surcharge():
    assert calc.total([3], -3) == 6
"""


def diff(new):
    return ("--- a/src/calc.py\n+++ b/src/calc.py\n@@ -1,2 +1,2 @@\n def total(prices, discount=0):\n"
            f"-    return sum(prices) + discount\n+    return {new}\n")


PATCHES = [{"name": "fix-sign", "diff": diff("sum(prices) - discount")},
           {"name": "drop-it", "diff": diff("sum(prices) - abs(discount)")}]

TASK = {
    "title": "A sum", "instruction": "Make total() subtract the discount.", "language": "python",
    "tests": {"runner": "pytest", "paths": ["tests"], "import": ["src"], "command": "python3 -m pytest -q tests",
              "own": ["tests", "pytest.ini"],
              "expected": [f"tests/test_calc.py::{name}"
                           for name in ("test_plain", "test_discount", "test_all_of_it", "test_surcharge")]},
    "solution": ["fix-sign"], "reads": ["src/calc.py"],
    "limits": {"steps": 20, "test_time": "20s", "test_cpu": "10s", "memory": "256M", "pids": 32, "disk": "32M"},
    "prices": {"call": 0.01, "second": 0.01},
}


def write(folder, **changes):
    """The task in a new folder that everybody may read; `changes` replace members of task.json."""
    for name, content in {"src/calc.py": SOURCE, "tests/test_calc.py": TEST,
                          "workspace/pytest.ini": "[pytest]\npythonpath = src\n", "patches.json": json.dumps(PATCHES),
                          "task.json": json.dumps({**TASK, **changes})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder
