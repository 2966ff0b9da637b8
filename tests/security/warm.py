"""A box and a warm process, driven through tests/unit/box/warm_probe.c."""
import json

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


class Warm(harness.Dialogue):
    """One warm_probe: a question in, its answer out."""

    def __init__(self, program, box, *options, source=PROGRAM, setup="the setup", env=None, wait=True):
        self.caller = box.caller
        super().__init__([*box.caller.prefix, program, *options, source, setup], wait, cwd="/",
                         env={**box.env, **(env or {})})
        self.pid = self.opened.get("warm")

    def ask(self, **question):
        return self.say(json.dumps(question))

    def run(self, text, **more):
        """How a run went; it must have come about."""
        answer = self.ask(run=text, **more)
        assert "error" not in answer, answer
        return answer

    def works(self):
        """A plain run, in the same box, goes as it should."""
        done = self.run("print('printed'); os.write(fd, setup.encode())")
        assert (done["exit_code"], done["output"], done["said"]) == (0, "printed\n", "the setup"), done
