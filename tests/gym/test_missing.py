"""What a person is told whose host, or whose task, is not in order: never zeros without a word."""
import json
import subprocess
from pathlib import Path

import pytest

import calc_task

UNHEARD = {"tests": {**calc_task.TASK["tests"], "expected": [*calc_task.TASK["tests"]["expected"], "tests/test_calc.py::test_none"]}}


def without_pytest(caller, *command, **more):
    """A command for which pytest's folder is empty, in a mount namespace of its own."""
    found = subprocess.run(["/usr/bin/python3", "-c", "import pytest; print(pytest.__file__)"], capture_output=True, text=True,
                           check=True)
    hide = 'mount -t tmpfs none "$1" && shift && exec "$@"'
    return subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", str(Path(found.stdout.strip()).parent), *caller.prefix,
                           *map(str, command)], capture_output=True, text=True, check=False, **more)


def test_a_host_without_pytest(cli, calc):
    if cli.box.caller.name == "user" and not cli.box.caller.prefix:
        pytest.skip("only root can hide pytest")
    words = [cli.box.program, "gym"]
    done = without_pytest(cli.box.caller, *words, "episode", "--task", calc, env=cli.box.env, cwd=cli.folder)
    assert done.returncode == 125 and done.stdout == ""
    assert done.stderr == ("hutch: cannot prepare the task calc: its tests are run by pytest, which python3 does not have on this "
                           "host; Debian's package is python3-pytest\n")
    done = without_pytest(cli.box.caller, *words, "tasks", calc, env=cli.box.env, cwd=cli.folder)
    assert done.returncode == 1 and "which python3 does not have" in done.stdout


def test_one_task_of_several_is_not_in_order(user_cli, calc, scratch):
    """The others are compared; alone, or if all are like it, it is an error."""
    tests = {**calc_task.TASK["tests"], "import": ["nowhere"]}
    del tests["expected"]
    broken = calc_task.write(Path(scratch) / "broken" / "other", tests=tests)
    words = ["--agents", "random,greedy", "--seeds", "2", "--clock", "virtual"]
    done = user_cli.run("eval", "--task", f"{calc},{broken}", *words, "--json", status=1)
    rows = {(row["task"], row["agent"]): row for row in json.loads(done.stdout)}
    for agent in ("random", "greedy"):
        assert rows["calc", agent]["episodes"] == 2 and rows["calc", agent]["failed"] == 0
        assert rows["other", agent]["episodes"] == 0 and rows["other", agent]["failed"] == 2
        assert rows["other", agent]["why"].startswith("cannot prepare the task other: no test passes with the task's solution")
        assert rows["all", agent]["episodes"] == 2 and rows["all", agent]["failed"] == 2
    done = user_cli.run("eval", "--task", f"{broken},{broken}", *words, "--json", status=125)
    assert done.stdout == "" and done.stderr.startswith("hutch: cannot prepare the task other: ")


def test_the_last_step_tells_why_tests_were_not_heard_of(user_cli, scratch):
    task = calc_task.write(Path(scratch) / "leaves" / "calc")
    (task / "src" / "calc.py").write_text("import os\nos._exit(0)\n")
    done = user_cli.run("episode", "--task", task, "--agent", "random", "--max-steps", "1")
    assert "     problem: the run ended before its tests did, with exit code 0" in done.stdout


def test_a_task_that_cannot_be_solved(user_cli, scratch):
    task = calc_task.write(Path(scratch) / "unheard" / "calc", **UNHEARD)
    done = user_cli.run("train", "--task", task, "--episodes", "20", "--clock", "virtual", "--json")
    assert done.stderr == ("hutch: no sequence of actions passes all tests: check the task with 'hutch gym tasks'\n")
