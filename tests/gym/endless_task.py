"""Tasks whose tests take long, with a `sleep` that a test can find among the processes of the host."""
import json
import os

import calc_task

NAP = f"98{os.getpid()}"  # seconds; nobody else sleeps for as long
PATIENCE = {**calc_task.TASK["limits"], "test_time": "20m", "test_cpu": "20m"}
SLEEPS = f"__import__('subprocess').run(['sleep', '{NAP}'])"
LOOPS = f"__import__('subprocess').Popen(['sleep', '{NAP}']) and all(True for _ in iter(int, 1))"


def naps(code):
    return f"def total(prices, discount=0):\n    {code}\n    return sum(prices) + discount\n"


def write(folder, code=SLEEPS):
    """Like calc, but its code takes long in every test; its one patch changes nothing of that."""
    calc_task.write(folder, limits=PATIENCE)
    (folder / "src" / "calc.py").write_text(naps(code))
    diff = "--- /dev/null\n+++ b/note\n@@ -0,0 +1 @@\n+nothing\n"
    (folder / "patches.json").write_text(json.dumps([{"name": "fix-sign", "diff": diff}]))
    return folder


def write_patch(folder):
    """Like calc, but its second patch makes the code take long."""
    calc_task.write(folder, limits=PATIENCE)
    diff = ("--- a/src/calc.py\n+++ b/src/calc.py\n@@ -1,2 +1,3 @@\n def total(prices, discount=0):\n"
            f"+    {SLEEPS}\n     return sum(prices) + discount\n")
    (folder / "patches.json").write_text(json.dumps([calc_task.PATCHES[0], {"name": "nap", "diff": diff}]))
    return folder


def write_command(folder):
    """Tests by a command that takes long. They are not listed, so whoever opens the task must run them."""
    tests = {"runner": "command", "command": f"sleep {NAP}; echo 1..1 >%R", "format": "tap", "own": ["tests"]}
    return calc_task.write(folder, limits=PATIENCE, tests=tests)
