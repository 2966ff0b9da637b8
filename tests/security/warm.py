"""A box and a warm process, driven through tests/unit/warm_probe.c."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import harness

# A run is Python source; `fd` is where the runner speaks to the host.
PROGRAM = """
import os
def prepare(text):
    global SETUP
    SETUP = text
def run(text, fd):
    exec(compile(text, "<run>", "exec"), {"__name__": "__main__", "fd": fd, "setup": SETUP, "os": os})
"""


class Warm:
    """One warm_probe: a question in, its answer out."""

    def __init__(self, program, box, *options, source=PROGRAM, setup="the setup", env=None, wait=True):
        self.caller = box.caller
        self.process = subprocess.Popen([*box.caller.prefix, program, *options, source, setup], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd="/", env={**box.env, **(env or {})})
        self.opened = self.answer() if wait else {}
        self.pid = self.opened.get("warm")

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"warm_probe ended with {self.process.wait()}"
        return json.loads(line)

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def run(self, text, **more):
        """How a run went; it must have come about."""
        answer = self.ask(run=text, **more)
        assert "error" not in answer, answer
        return answer

    def works(self):
        """A plain run, in the same box, goes as it should."""
        done = self.run("print('printed'); os.write(fd, setup.encode())")
        assert (done["exit_code"], done["output"], done["said"]) == (0, "printed\n", "the setup"), done

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def folder_of(box, scratch):
    """The probe with all parts of hutch beside it, where the caller can start it."""
    built = Path(os.environ.get("HUTCH") or harness.REPO / "build" / "hutch").parent
    probe = built / "tests" / "unit" / "warm_probe"
    if not probe.exists():
        pytest.skip(f"not built: {probe}")
    folder = box.caller.folder(scratch, "warm")
    harness.copy_parts(built / "hutch", folder)
    shutil.copy2(probe, folder / "warm_probe")
    for path in folder.glob("*"):
        box.caller.own(path)
    return folder
