"""Small projects with tests, and calls of run_tests in them."""
import json
import os

import pytest

COUNTS = ("passed", "failed", "errors", "skipped")


def need(*programs):
    for program in programs:
        if not os.path.exists(f"/usr/bin/{program}"):
            pytest.skip(f"no {program} in /usr/bin")


class Project:
    """A workspace and calls of run_tests in it, each in a box of its own unless one is named."""

    def __init__(self, box):
        self.box = box

    def write(self, files):
        for name, (text, mode) in {k: v if isinstance(v, tuple) else (v, 0o644) for k, v in files.items()}.items():
            path = self.box.workspace / name
            for folder in reversed(path.relative_to(self.box.workspace).parents[:-1]):
                full = self.box.workspace / folder
                if not full.exists():
                    full.mkdir()
                    self.box.caller.own(full)
            self.box.put(name, text, mode)

    def call(self, opts=(), wait=120, **given):
        opts = ["-w", self.box.workspace, *opts] if "--box" not in opts else opts
        done = self.box.hutch("tool", "run_tests", "--json", *opts, json.dumps(given), timeout=wait)
        assert done.returncode in (0, 1), done
        result = json.loads(done.stdout)
        assert (done.returncode == 1) == bool(result.get("failed")), done
        return result

    def tests(self, *args, **given):
        """The data of a run that is a result."""
        result = self.call(*args, **given)
        assert not result.get("failed"), result["text"]
        check_shape(result["data"])
        return result["data"]

    def fails(self, *args, **given):
        """The text, and the data, of a run that is none."""
        result = self.call(*args, **given)
        assert result.get("failed"), result
        return result["text"], result.get("data")


def check_shape(data):
    assert set(data) >= {*COUNTS, "duration", "tests", "framework", "command", "exit_code", "timed_out", "report", "output",
                         "truncated"}
    for test in data["tests"]:
        assert set(test) == {"name", "outcome", "message", "file", "line"}
    if not data["truncated"]:
        outcomes = [test["outcome"] for test in data["tests"]]
        assert [outcomes.count(o) for o in ("passed", "failed", "error", "skipped")] == counts(data)


def counts(data):
    return [data[name] for name in COUNTS]


def by_name(data):
    return {test["name"]: test for test in data["tests"]}


PYTEST = {
    "calc.py": "def divide(a, b):\n    return a / b\n",
    "tests/test_calc.py": """import pytest
from calc import divide

def test_divides():
    assert divide(4, 2) == 2

class TestMore:
    @pytest.mark.parametrize("b", [1, 0])
    def test_by(self, b):
        assert divide(1, b) == 1

@pytest.mark.skip(reason="later")
def test_skipped(): pass

@pytest.fixture
def broken():
    raise RuntimeError("no fixture today")

def test_error(broken): pass

def test_wrong():
    print("seen")
    assert divide(1, 2) == 1, "half \u00bd"
""",
    "pytest.ini": "[pytest]\npythonpath = .\n",
}

NODE = """const {test, describe} = require('node:test'); const assert = require('node:assert');
test('good', () => {});
test('skipped', {skip: 'later'}, () => {});
describe('suite', () => {
  test('bad', () => { assert.strictEqual(1, 2); });
});
"""
