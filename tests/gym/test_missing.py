"""What a person is told whose host, or whose task, is not in order: never zeros without a word."""
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


def test_the_last_step_tells_why_tests_were_not_heard_of(user_cli, scratch):
    task = calc_task.write(Path(scratch) / "leaves" / "calc")
    (task / "src" / "calc.py").write_text("import os\nos._exit(0)\n")
    done = user_cli.run("episode", "--task", task, "--agent", "random", "--max-steps", "1")
    assert "     trouble: the run ended before its tests did, with exit code 0" in done.stdout


def test_a_task_that_cannot_be_solved(user_cli, scratch):
    task = calc_task.write(Path(scratch) / "unheard" / "calc", **UNHEARD)
    done = user_cli.run("train", "--task", task, "--episodes", "20", "--clock", "virtual", "--json")
    assert done.stderr == ("hutch: no sequence of actions passes all tests: 'hutch gym tasks' tells whether the task is in order "
                           "here\n")
