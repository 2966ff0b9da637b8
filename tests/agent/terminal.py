"""A real terminal for `hutch chat`: tmux without anybody's configuration, typed into and looked at."""
import os
import re
import subprocess
import time
import uuid
from pathlib import Path

import pytest


class Terminal:
    """One program on one screen. tmux may lose the last output of a pane that ends: with `hold` a shell keeps the pane open
    after the program, for tests that read what it printed last."""

    def __init__(self, env, *args, width=80, height=24, colours=256, more_env=None, program=None, hold=False):
        self.env, self.caller, self.hold = env, env.caller, hold
        self.socket = f"{env.runtime}/tmux-{uuid.uuid4().hex[:8]}"
        variables = {**env.env, "COLORTERM": "truecolor" if colours > 256 else "", **(more_env or {})}
        command = ["env", *(f"{k}={v}" for k, v in variables.items()), str(program or env.box.program), *map(str, args)]
        if hold:
            command = ["sh", "-c", '"$@"; printf "[ended %d]" $?; exec sleep 1000000', "sh", *command]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", env.workspace, "sleep 1000000")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        self.tmux("set-option", "-g", "history-limit", "50000")
        self.tmux("respawn-pane", "-k", "-c", env.workspace, *command)

    def tmux(self, *args, check=True):
        command = [*self.caller.prefix, "tmux", "-S", self.socket, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd="/",
                              env={**self.env.env, "TERM": "screen-256color"})
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout

    def keys(self, *names):
        """Keys by tmux's names: Enter, Escape, C-c, Up."""
        self.tmux("send-keys", *names)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def say(self, text):
        """A line of the person."""
        self.type(text)
        self.keys("Enter")

    def screen(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def everything(self):
        return self.tmux("capture-pane", "-p", "-S", "-")

    def wait(self, *texts, seconds=120):
        """Waits until all of the texts are on the screen at once; the screen."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            if "Pane is dead" in screen:
                break
            time.sleep(0.03)
        pytest.fail(f"{texts} never came on the screen:\n{self.screen()}")

    def wait_gone(self, text, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if text not in self.screen():
                return
            time.sleep(0.03)
        pytest.fail(f"{text!r} stays on the screen:\n{self.screen()}")

    @property
    def status(self):
        """The program's exit status; None while it runs."""
        if self.hold:
            ended = re.findall(r"\[ended (\d+)\]", self.everything())
            return int(ended[-1]) if ended else None
        state = self.tmux("display-message", "-p", "#{pane_dead},#{pane_dead_status},#{pane_dead_signal}").strip()
        dead, status, by_signal = state.split(",")
        if dead == "1" and (status or by_signal):
            return int(status or -int(by_signal))
        return self.zombie_status() if dead == "1" else None

    def zombie_status(self):
        """tmux sees the end of the output first, and now and then forgets to ask for the status: the kernel has it."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return os.waitstatus_to_exitcode(int(fields[-1])) if fields[0] == "Z" else None

    @property
    def pid(self):
        return int(self.tmux("display-message", "-p", "#{pane_pid}"))

    def wait_end(self, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.status is not None:
                return self.status
            time.sleep(0.03)
        pytest.fail(f"the program does not end:\n{self.screen()}")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def close(self):
        self.tmux("kill-server", check=False)
        if os.path.exists(self.socket):
            os.unlink(self.socket)
