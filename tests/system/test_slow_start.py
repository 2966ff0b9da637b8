"""Boxes that start while the host's process is held up, as on a busy machine."""
import shutil
import subprocess

import pytest

# Each time that the program opens a file it is held up for 20 ms; the processes that it starts are not.
SLOWLY = ["strace", "-o", "/dev/null", "-e", "trace=openat,open", "-e", "inject=openat,open:delay_enter=20000"]


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_box_does_not_start_under_the_limits_of_the_last_one(callers):
    """Control groups are used again. Root only: others have none."""
    caller, program = callers("root")
    run = lambda words, before=(): subprocess.run([*caller.prefix, *before, str(program), "run", *words], cwd=caller.home,
                                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
    run(["--pids", "1", "--", "true"])
    done = run(["--", "sh", "-c", "true | true | true; echo fine"], SLOWLY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
