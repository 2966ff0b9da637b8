"""A working day with the agent, as a person has it: one chat on a terminal with a scripted model, from the clone to the pull request."""
import subprocess
import sys

import pytest

import harness
from forge_person import TOKEN

sys.path.insert(0, str(harness.REPO / "tests" / "agent"))

from agent_env import AgentEnv  # noqa: E402
from model_reply import Reply, call  # noqa: E402
from model_server import ModelServer  # noqa: E402
from terminal import Terminal  # noqa: E402

FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return add(a, a)\n",
    "test_calc.py": "import unittest\n\nfrom calc import add, double\n\n\nclass TestCalc(unittest.TestCase):\n"
                    "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n"
                    "    def test_double(self):\n        self.assertEqual(double(4), 8)\n",
    "README": "A calculator.\n",
    ".gitignore": "__pycache__/\n",
}


class Day:
    """The person's chat, and their shell beside it."""

    def __init__(self, person, server):
        self.person, self.server = person, server
        self.env = AgentEnv(person.box, server)
        person.caller.own(person.workspace)
        for name, text in FILES.items():
            person.box.put(name, text)
        self.git("add", "-A")
        self.git("commit", "-qm", "Begin")
        self.git("push", "-q", str(person.remote), "main")
        self.ssh = person.over_ssh()
        self.env.env |= {"HOME": str(person.home), "GIT_SSH_COMMAND": self.ssh.command(), "MY_TOKEN": TOKEN}
        self.api = person.api("gitea", token=TOKEN)
        self.env.configure(forges={"127.0.0.1": {"kind": "gitea", "api": self.api.api, "token": "${MY_TOKEN}"},
                                   f"127.0.0.1:{self.ssh.port}": {"kind": "gitea", "api": self.api.api, "token": "${MY_TOKEN}"}})
        self.terminal, self.said = None, 0

    def git(self, *args):
        return self.person.git(*args, GIT_SSH_COMMAND=self.ssh.command() if hasattr(self, "ssh") else "ssh")

    def clone(self):
        """Begins the day with a fresh clone over SSH in place of the workspace."""
        subprocess.run(["rm", "-rf", *self.person.workspace.iterdir()], check=True)
        self.git("clone", "-q", self.ssh.url(self.person.remote), ".")

    def chat(self):
        self.terminal = Terminal(self.env, "chat", "--plain", "--model", self.env.speak("anthropic"), "-w", self.env.workspace,
                                 width=200, height=2000)
        self.answered(0)

    def answered(self, before, *texts, end="›"):
        """Waits until the chat has said all of the texts after the first `before` characters, and asks for the next line."""
        def ready():
            new = self.terminal.screen().rstrip()[before:]
            return all(text in new for text in texts) and new.endswith(end)
        try:
            harness.wait_until(ready, seconds=120, what=f"the chat says {texts} and waits")
        except BaseException:
            print(self.terminal.screen().rstrip())
            raise
        return self.terminal.screen().rstrip()[before:]

    def say(self, line, *expected, replies=(), end="›"):
        if replies:
            self.server.script(list(replies))
        before = len(self.terminal.screen().rstrip())
        self.terminal.say(line)
        return self.answered(before, *expected, end=end)

    def close(self):
        if self.terminal:
            self.terminal.close()
        self.env.close()


@pytest.fixture
def day(person):
    with ModelServer() as server:
        someone = Day(person, server)
        yield someone
        someone.close()


def test_working_day(day):
    git, env = day.git, day.env
    day.clone()
    git("switch", "-qc", "hutch/fix-add")
    day.chat()

    # The agent finds the mistake, corrects it, runs the tests, and commits in its box; nothing reaches the folder.
    day.say("make the tests pass", "The tests pass.", replies=[
        Reply(call("run_tests")), Reply(call("edit_file", path="calc.py", old="return a - b", new="return a + b")),
        Reply(call("run_tests")), Reply(call("bash", command="git commit -qam 'Add instead of subtracting' && git log --format=%an -1")),
        Reply("The tests pass.")])
    assert git("status", "--porcelain") == "" and git("rev-list", "--count", "HEAD") == "2"

    # Applied: the file and the commit, under the person's name.
    day.say("/apply", "Applied 1 change")
    assert git("log", "--format=%an %s", "-1") == "Pat Add instead of subtracting" and git("status", "--porcelain") == ""

    # A turn that goes wrong is applied, undone, and what reverts it applied: byte for byte as it was.
    day.say("tidy up", "Tidied.", replies=[
        Reply(call("bash", command="rm test_calc.py; mv README README.md; echo 'x = 1' >>calc.py")), Reply("Tidied.")])
    day.say("/apply", "Applied")
    assert "D test_calc.py" in git("status", "--porcelain")
    day.say("/undo", "Undid turn 2: restored 4 files in the box", "4 files of it were applied to your folder")
    day.say("/apply", "Applied")
    assert git("status", "--porcelain") == ""

    # The person writes meanwhile; the agent sees it, and both changes of one file are kept.
    env.put("README", "A calculator.\n\nIt adds.\n")
    day.say("say more in the README", "Done.", replies=[
        Reply(call("bash", command="sed -i '1s/$/ By hand./' README")), Reply("Done.")])
    assert "README" in str(day.server.requests[-2].body)
    day.say("/apply", "Applied")
    assert env.get("README") == "A calculator. By hand.\n\nIt adds.\n"

    # Another way is tried in a fork, undone there, and done differently.
    day.say("/fork", "fork")
    day.say("add triple", "Wrong.", replies=[Reply(call("write_file", path="calc2.py", content="wrong\n")), Reply("Wrong.")])
    day.say("/undo", "Undid turn", "restored 1 file in the box")
    shown = day.say("add triple in a file of its own, and propose it", "Push these commits?", end="[y/N]", replies=[
        Reply(call("write_file", path="triple.py", content="from calc import add\n\n\ndef triple(a):\n    return add(a, add(a, a))\n")),
        Reply(call("bash", command="git add -A && git commit -qm 'Add triple'")),
        Reply(call("git_push")), Reply(call("create_pr", title="Fix add, add triple", body="It subtracted.")), Reply("It is proposed.")])
    assert "Add triple" in shown and "Pat <pat@example.org>" in shown
    assert "refs/heads/hutch/fix-add" not in day.person.remote_branches() and not day.api.requests
    day.say("y", "Open this pull request?", "It subtracted.", end="[y/N]")
    day.say("y", "It is proposed.")
    pushed = day.person.remote_branches()["refs/heads/hutch/fix-add"]
    assert [pr["title"] for pr in day.api.created()] == ["Fix add, add triple"]
    day.api.check()

    # What was pushed is what the person gets, and its tests pass.
    day.say("/apply", "Applied")
    assert git("rev-parse", "HEAD") == pushed and git("status", "--porcelain") == ""
    assert git("log", "--format=%s").splitlines() == ["Add triple", "Add instead of subtracting", "Begin", "first"]
    assert subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=env.workspace, capture_output=True, check=False).returncode == 0
    day.terminal.say("/quit")
    assert day.terminal.wait_end(60) == 0
