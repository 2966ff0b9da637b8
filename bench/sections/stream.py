"""What `hutch chat` costs while a model talks fast, on a real terminal (tmux)."""
import os
import shutil
import subprocess
import time
from pathlib import Path

import host
from fast_model import FastModel, says

from .agent import environment

TICKS = os.sysconf("SC_CLK_TCK")
RATE = 2000
SIZES = ((80, 24), (200, 50))
TEXT = ("Some *Markdown* with `code`, **bold** words and a list:\n\n- one point of it\n- another, which is long enough that it "
        "does not fit on a line of eighty columns and has to be wrapped\n\n```python\ndef f(x):\n    return x + 1\n```\n\n")


def tokens(count):
    """Pieces of text of about four characters."""
    whole = TEXT * (count * 4 // len(TEXT) + 1)
    return [whole[i:i + 4] for i in range(0, count * 4, 4)]


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Tmux:
    def __init__(self, c, size, server):
        self.c, self.socket = c, str(c.user.temporary / "tmux")
        env = environment(c, server)
        chat = [c.stage.program("hutch"), "chat", "--model", "anthropic/scripted-1", "-w", str(c.user.workspace)]
        self.do("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "sleep 100000")
        self.do("respawn-pane", "-k", "env", *(f"{k}={v}" for k, v in env.items()), "TERM=screen-256color", *chat)

    def do(self, *args):
        command = [*self.c.user.prefix, "tmux", "-S", self.socket, *args]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=self.c.user.env).stdout

    def end(self):
        subprocess.run([*self.c.user.prefix, "tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)


def wait_for(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise host.Failed(f"never happened: {what}")
        time.sleep(0.02)


def share(c, size, seconds):
    """(the part of one core that the chat takes while the stream runs, tokens per second that it got)"""
    with FastModel([says(*tokens(RATE * seconds))], pace=RATE) as server:
        screen = Tmux(c, size, server)
        try:
            pid = int(screen.do("display-message", "-p", "#{pane_pid}"))
            wait_for(lambda: screen.do("capture-pane", "-p").strip(), "the chat shows itself")
            time.sleep(0.3)
            screen.do("send-keys", "-l", "go")
            screen.do("send-keys", "Enter")
            wait_for(lambda: server.arrived, "the first request")
            began, before = time.monotonic(), cpu(pid)
            wait_for(lambda: server.left, "the end of the stream")
            took = time.monotonic() - began
            return (cpu(pid) - before) / took, RATE * seconds / took
        finally:
            screen.end()


def stream(c):
    if not shutil.which("tmux"):
        return c.report.say("  tmux is not installed")
    seconds = 3 if c.quick else 8
    shares = {f"{w}×{h}": share(c, (w, h), seconds) for w, h in SIZES}
    c.report.table(f"hutch chat, {RATE:,} tokens/s", ["cores", "tokens/s"],
                   [[name, *both] for name, both in shares.items()])
    return c.report.target("processor share, the larger of the two", max(cores for cores, _ in shares.values()), 0.5, " cores")
