"""`hutch gym tasks`: what it lists, and what it finds in tasks that are not in order."""
import json

import pytest

import calc_task
from listing import tasks

DIFF = calc_task.diff
TWO = """import calc


def test_plain():
    assert calc.total([1, 2]) == 3


def test_discount():
    assert calc.total([1, 2], 1) == 2


def test_text():
    assert calc.show(3) == "3 EUR"
"""


@pytest.fixture
def make(box):
    """A folder of the caller's with one task: the calc task, with some files and members replaced."""

    def write(name="calc", files=(), **changes):
        folder = calc_task.write(box.workspace / "tasks" / name, **changes)
        for path, text in dict(files).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        box.workspace.chmod(0o755)
        for path in [folder.parent, folder, *folder.rglob("*")]:
            box.caller.own(path)
        return box.workspace / "tasks"

    return write


def found(box, folder):
    """The findings of the one task there."""
    listed = tasks(box, "--tasks", folder)
    (task,) = listed.tasks.values()
    assert task["valid"] == (listed.status == 0) == (not task["findings"]), listed
    return task


def test_a_task_in_order(box, make):
    task = found(box, make())
    assert task["valid"] and task["notes"] == []
    assert (task["patches"], task["tests"], task["actions"], task["solution"]) == (2, 4, 5, ["fix-sign"])
    assert task["runs"] == 4, "the original, the solution twice, the other patch"


def test_the_table(box, make):
    make("other", solution=["drop-it"])
    done = box.hutch("gym", "tasks", "--tasks", make())
    assert done.returncode == 1 and done.stderr == "hutch: 1 of 2 tasks are not correct\n", done
    head, calc, other, *findings = done.stdout.splitlines()
    assert head.split() == ["NAME", "LANGUAGE", "PATCHES", "TESTS", "TITLE"]
    assert calc.split() == ["ok", "calc", "python", "2", "4", "A", "sum"]
    assert other.split()[:2] == ["wrong", "other"]
    assert findings[0].startswith("    the solution passes 3 of 4 tests: tests/test_calc.py::test_surcharge failed"), findings


def test_only_a_list(box, make):
    done = box.hutch("gym", "tasks", "--no-check", "--tasks", make(solution=["drop-it"]))
    assert done.returncode == 0 and done.stdout.splitlines()[1].split()[:2] == ["calc", "python"], done


def test_tasks_by_name_and_by_path(box, make):
    make("other")
    folder = make()
    assert list(tasks(box, "--no-check", "--tasks", folder, "other").tasks) == ["other"]
    assert list(tasks(box, "--no-check", "--tasks", folder, "calc", "other").tasks) == ["calc", "other"]
    assert list(tasks(box, "--no-check", f"{folder}/other").tasks) == ["other"]
    assert list(tasks(box, "--no-check", "other", env={"HUTCH_TASKS": str(folder)}).tasks) == ["other"]
    done = box.hutch("gym", "tasks", "--tasks", folder, "othre")
    assert done.returncode == 125 and "did you mean other?" in done.stderr, done
    done = box.hutch("gym", "tasks", "--tasks", "/nonexistent")
    assert done.returncode == 125 and "/nonexistent: not a folder" in done.stderr, done


def test_a_task_that_cannot_be_loaded_is_told_with_its_line(box, make):
    make("broken", limits={"steps": -1})
    listed = tasks(box, "--tasks", make())
    assert listed.status == 1 and listed.tasks["calc"]["valid"]
    broken = listed.tasks["broken"]
    assert not broken["valid"] and "broken/task.json: limits.steps: " in broken["findings"][0], broken


def test_the_original_passes(box, make):
    task = found(box, make(files={"src/calc.py": calc_task.SOURCE.replace("+ discount", "- discount")}))
    assert task["findings"][0] == "the original already passes; there is nothing to solve"


def test_a_patch_that_is_not_the_solution_passes(box, make):
    patches = [*calc_task.PATCHES, {"name": "negate", "diff": DIFF("sum([*prices, -discount])")}]
    task = found(box, make(files={"patches.json": json.dumps(patches)}))
    assert task["findings"] == ["the patch 'negate' passes alone, and is not the solution"]


def test_patches_that_do_not_apply(box, make):
    patches = [*calc_task.PATCHES, {"name": "stale", "diff": DIFF("0").replace("-    return sum", "-    return max")}]
    task = found(box, make(files={"patches.json": json.dumps(patches)}))
    assert task["valid"] and task["notes"][0].startswith("the patch 'stale' does not apply: "), task
    task = found(box, make(files={"patches.json": json.dumps(patches)}, solution=["stale"]))
    assert task["findings"][0].startswith("cannot apply the solution: the patch 'stale' does not apply"), task


def test_parts_of_the_solution(box, make):
    """Two must be combined; the third is not needed, and a note is not enough."""
    source = calc_task.SOURCE + "\n\ndef show(x):\n    return f\"{x} USD\"\n\n\nNAME = 1\n"
    text = "--- a/src/calc.py\n+++ b/src/calc.py\n@@ -5,2 +5,2 @@\n def show(x):\n-    return f\"{x} USD\"\n+    return f\"{x} EUR\"\n"
    name = "--- a/src/calc.py\n+++ b/src/calc.py\n@@ -9 +9 @@\n-NAME = 1\n+NAME = 2\n"
    patches = [calc_task.PATCHES[0], {"name": "euro", "diff": text}, {"name": "name", "diff": name}]
    files = {"src/calc.py": source, "tests/test_calc.py": TWO, "patches.json": json.dumps(patches)}
    expected = [f"tests/test_calc.py::{test}" for test in ("test_plain", "test_discount", "test_text")]
    tests = {**calc_task.TASK["tests"], "expected": expected}
    task = found(box, make(files=files, tests=tests, solution=["fix-sign", "euro"]))
    assert task["valid"], task
    task = found(box, make(files=files, tests=tests, solution=["fix-sign", "name", "euro"]))
    assert task["findings"] == ["a part of the solution passes without the rest: fix-sign, euro"], task


def test_the_list_of_expected_tests_is_not_right(box, make):
    tests = calc_task.TASK["tests"]
    task = found(box, make(tests={**tests, "expected": tests["expected"][:3]}))
    assert "tests.expected: 1 tests are run that are not in the list" in task["findings"], task
    task = found(box, make(tests={**tests, "expected": [*tests["expected"], "tests/test_calc.py::test_gone"]}))
    assert "the solution passes 4 of 5 tests: tests/test_calc.py::test_gone is missing" in task["findings"][0], task
    del (without := dict(tests))["expected"]
    task = found(box, make(tests=without))
    assert task["valid"] and task["tests"] == 4, task


def test_grading_twice_differs(box, make):
    lines = "\n\n".join(f"def test_{i}():\n    assert os.urandom(1)[0] & 1" for i in range(24))
    tests = {**calc_task.TASK["tests"], "expected": [f"tests/test_calc.py::test_{i}" for i in range(24)]}
    task = found(box, make(files={"tests/test_calc.py": "import os\n\n" + lines + "\n"}, tests=tests))
    assert any(line.startswith("the solution graded twice gives different results") for line in task["findings"]), task


def test_a_solution_that_never_ends_is_stopped(box, make):
    loop = [{"name": "loop", "diff": DIFF("total(iter(int, 1) if prices else sum(prices))").replace("total(iter", "sum(iter")}]
    limits = {**calc_task.TASK["limits"], "test_cpu": "500ms"}
    task = found(box, make(files={"patches.json": json.dumps(loop)}, solution=["loop"], limits=limits))
    assert "cpu-time" in task["findings"][0], task


def test_usage(box):
    done = box.hutch("gym", "tasks", "--nonsense")
    assert done.returncode == 2 and "--nonsense" in done.stderr, done
    assert "--no-check" in box.hutch("gym", "tasks", "--help").stdout
