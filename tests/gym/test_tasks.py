"""The tasks that come with hutch, seen without hutch: see check_tasks.py."""

import json
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
TASKS = HERE.parent.parent / "tasks"
NAMES = sorted(entry.name for entry in TASKS.iterdir() if entry.is_dir())


def load(name):
    return json.loads((TASKS / name / "task.json").read_text())


@pytest.fixture(scope="module")
def problems():
    done = subprocess.run(["/usr/bin/python3", "-B", HERE / "check_tasks.py", TASKS], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes_and_nothing_less_does(problems, name):
    assert problems[name] == []


def test_the_checker_finds_what_is_wrong(tmp_path):
    """A task whose tests are too weak: the original passes, and so does a patch that is no solution."""
    task = tmp_path / "weak"
    for folder in "src", "tests":
        (task / folder).mkdir(parents=True)
    (task / "src" / "one.py").write_text("ONE = 1\n")
    (task / "tests" / "test_one.py").write_text("def test_one():\n    import one\n\n\ndef test_two():\n    pass\n")
    diff = "--- a/src/one.py\n+++ b/src/one.py\n@@ -1 +1 @@\n-ONE = {}\n+ONE = {}\n"
    patches = [{"name": f"set-{number}", "diff": diff.format(1, number)} for number in (2, 3)]
    patches += [{"name": "stale", "diff": diff.format(7, 8)}, {"name": "broken", "diff": diff.format(1, "(")}]
    (task / "patches.json").write_text(json.dumps(patches))
    (task / "task.json").write_text(json.dumps({
        "title": "t", "instruction": "i", "language": "python", "solution": ["set-2"],
        "tests": {"runner": "pytest", "paths": ["tests"], "import": ["src"], "expected": ["tests/test_one.py::test_one"]}}))
    done = subprocess.run(["/usr/bin/python3", "-B", HERE / "check_tasks.py", tmp_path], stdout=subprocess.PIPE, check=True)
    assert sorted(json.loads(done.stdout)["weak"]) == [
        "set-2: runs tests that are not expected: ['tests/test_one.py::test_two']",
        "set-3: passes all tests",
        "stale: does not apply",
        "the original: passes all tests"]


def test_there_are_tasks_of_every_kind():
    tasks = {name: load(name) for name in NAMES}
    assert "bugfix_1" in NAMES and len(NAMES) >= 14
    assert {task["language"] for task in tasks.values()} == {"python", "c", "javascript"}
    assert {task["tests"]["runner"] for task in tasks.values()} == {"pytest", "command"}
    assert sum((TASKS / name / "hidden").is_dir() for name in NAMES) >= 2
    assert {1, 2, 3} <= {len(task["solution"]) for task in tasks.values()}


def test_the_answer_has_no_favourite_place():
    """Who always applies the first patch, or the last, should not get far."""
    places = []
    for name in NAMES:
        patches = [patch["name"] for patch in json.loads((TASKS / name / "patches.json").read_text())]
        places += [patches.index(step) / (len(patches) - 1) for step in load(name)["solution"]]
    assert places.count(0) <= len(places) / 4
    assert places.count(1) <= len(places) / 4


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_plain(name):
    """Short lines without tabs or blanks at their ends; a title that is no sentence; an instruction that is some."""
    task = load(name)
    assert not task["title"].endswith(".") and len(task["title"]) <= 60
    assert task["instruction"].endswith(".") and 150 <= len(task["instruction"]) <= 700
    for path in (TASKS / name).rglob("*"):
        if path.suffix in (".py", ".c", ".h", ".js"):
            text = path.read_text()
            assert text.endswith("\n") and not text.endswith("\n\n"), path
            bad = [line for line in text.splitlines() if re.search(r"\t|\s$", line) or len(line) > 120]
            assert bad == [], path
