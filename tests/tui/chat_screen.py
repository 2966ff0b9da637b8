"""`hutch chat` on a terminal, for people with fingers: keys, the input, the panel."""
import subprocess

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
        """What is below the rule: the input, the panel, the status line."""
        lines = self.screen().rstrip("\n").split("\n")
        return lines[max(i for i, line in enumerate(lines) if line.startswith(RULE)) + 1:]

    def input(self):
        """The first line of the input, without its prompt."""
        return self.below()[0].removeprefix("› ")

    def wait_input(self, text):
        self.wait(f"› {text}")
        assert self.input() == text

    def leave(self):
        self.say("/quit")
        return self.wait_end()
