"""Closing and interrupting from another thread, through libhutch.so, while tests run that would take very long."""
import sys
from pathlib import Path

import pytest

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "gym"))
import endless_task


@pytest.fixture(scope="session")
def endless(scratch):
    """Folders of tasks: one whose tests take long, and one that cannot be opened without running them."""
    place = Path(scratch) / "lib-endless"
    place.mkdir(mode=0o755)
    return {"loops": endless_task.write(place / "loops", endless_task.LOOPS), "command": endless_task.write_command(place / "command")}


@pytest.mark.parametrize("what", ["close-env", "stop-env", "close-vector", "stop-vector", "close-box", "arena"])
def test_ends_from_another_thread(program, run, endless, what):
    task = endless["command" if what == "arena" else "loops"]
    done = run(program("interrupt"), what, task, endless_task.NAP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
