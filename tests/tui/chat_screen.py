"""`hutch chat` on a terminal, for people with fingers: keys, the input, the panel."""
import subprocess

import harness
from terminal import Terminal

RULE = "────"


class ChatScreen(Terminal):
    def __init__(self, env, *opts, **more):
        super().__init__(env, "chat", "--model", env.speak("anthropic"), "-w", env.workspace, *opts, **more)
        self.wait("scripted-1")

    def paste(self, text):
        """As a terminal that knows bracketed pastes does it."""
        command = [*self.caller.prefix, "tmux", "-S", self.socket, "load-buffer", "-"]
        subprocess.run(command, input=text.encode(), check=True, cwd="/", env=self.env.env)
        self.tmux("paste-buffer", "-p")

    def below(self):
        """What is below the rule: the input, the panel, the status line. Nothing while the screen is somebody else's, or half
        drawn."""
        lines = self.screen().rstrip("\n").split("\n")
        rules = [i for i, line in enumerate(lines) if line.startswith(RULE)]
        return lines[rules[-1] + 1:] if rules else []

    def input(self):
        """The first line of the input, without its prompt."""
        return next(iter(self.below()), "").removeprefix("› ")

    def wait_input(self, text):
        """Waits until the input is just this. One look decides: the next one may find the screen being drawn again."""
        harness.wait_until(lambda: self.input() == text, seconds=120, what=f"the input {text!r}")

    def leave(self):
        self.say("/quit")
        return self.wait_end()
