"""`hutch gym …` as a caller runs it, and what it prints."""
import json
import subprocess

STEP = {"step", "action", "observation", "reward", "pass_rate", "terminated", "truncated"}
SUMS = {"return", "pass_rate", "calls", "seconds", "seed"}


class Gym:
    """The command line, in a folder of the caller's own."""

    def __init__(self, box, tasks):
        self.box, self.folder, self.tasks = box, box.workspace, tasks

    def run(self, command, *words, status=0, timeout=120, **more):
        more.setdefault("cwd", self.folder)
        done = self.box.hutch("gym", command, "--tasks", self.tasks, *words, timeout=timeout, **more)
        assert status is None or done.returncode == status, done
        return done

    def json(self, command, *words, **more):
        return json.loads(self.run(command, *words, "--json", **more).stdout)

    def episode(self, *words, **more):
        """(steps, sums) of an episode under the virtual clock."""
        done = self.run("episode", *words, "--clock", "virtual", "--json", **more)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return lines[:-1], lines[-1]

    def start(self, command, *words):
        """Left running; whoever started it waits for it."""
        argv = [*self.box.caller.prefix, str(self.box.program), "gym", command, "--tasks", str(self.tasks), *map(str, words)]
        return subprocess.Popen(argv, env=self.box.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
