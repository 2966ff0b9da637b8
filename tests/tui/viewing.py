"""The view, played from a script (tests/unit/tui/view_show.c): in a tmux that can be looked at, or on a bare pseudo-terminal
whose every byte is seen."""
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

import harness

SCREENS = Path(__file__).parent / "screens"
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
SECONDS = 30


def program():
    built = Path(os.environ.get("HUTCH") or harness.REPO / "build" / "hutch").parent / "tests" / "unit" / "tui" / "view_show"
    if not built.exists():
        pytest.skip(f"not built: {built}")
    return built


def write_script(folder, steps):
    """The steps as a file; each {"wait": True} gets a file of its own, which are returned in order."""
    waits = []
    lines = []
    for step in steps:
        if step.get("wait"):
            waits.append(folder / f"wait{len(waits)}")
            step = {"wait": str(waits[-1])}
        lines.append(json.dumps(step))
    path = folder / "script.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path, waits


def until(true, what):
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


class Player:
    """What both kinds of terminal share: the script, and going on from one wait to the next."""

    def __init__(self, folder, steps):
        self.folder = folder
        self.script, self.waits = write_script(folder, steps)
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        self.go = os.open(self.fifo, os.O_RDWR)

    def reached(self):
        return self.waits[0].exists()

    def on(self):
        """Lets the script go on from the wait that it stands at."""
        os.write(self.go, b"\n")


class Tmux(Player):
    def __init__(self, folder, steps, width=80, height=24, **env):
        super().__init__(folder, steps)
        self.socket = folder / "tmux"
        config = folder / "tmux.conf"
        config.write_text("set -g default-terminal tmux-256color\nset -g status off\nset -g remain-on-exit on\n")
        pairs = [f"{k}={v}" for k, v in env.items()]
        self.tmux("-f", config, "new-session", "-d", "-x", width, "-y", height,
                  *(["env", *pairs] if pairs else []), program(), self.script, self.fifo)

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-S", self.socket, *map(str, args)], capture_output=True, text=True, check=False,
                              env={**CLEAN, "TERM": "xterm-256color"}, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait(self):
        until(self.reached, f"{self.waits[0].name}:\n{self.screen()}")
        self.waits.pop(0)
        return self

    def screen(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def wait_for(self, text):
        until(lambda: text in self.screen(), text)

    def wait_until(self, true):
        until(lambda: true(self.screen()), "what the test waits for")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def cursor(self):
        return tuple(map(int, self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split()))

    def close(self):
        os.close(self.go)
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)


class Bare(Player):
    """A pseudo-terminal without anything behind it: what is written to it is kept as it is."""

    def __init__(self, folder, steps, width=80, height=24, term="xterm-256color", **env):
        super().__init__(folder, steps)
        self.bytes = b""
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([program(), self.script, self.fifo], stdin=self.slave, stdout=self.slave,
                                        stderr=subprocess.PIPE, env={**CLEAN, "TERM": term, **env}, start_new_session=True)

    def drain(self, seconds=0.0):
        while select.select([self.master], [], [], seconds)[0]:
            self.bytes += os.read(self.master, 65536)

    def wait(self):
        """To the next wait; returns the bytes since the last."""
        before = len(self.bytes)

        def there():
            self.drain()
            return self.reached() or self.process.poll() is not None
        until(there, self.waits[0].name)
        assert self.process.poll() is None, self.process.stderr.read()
        self.drain()
        self.waits.pop(0)
        return self.bytes[before:]

    def end(self):
        """To the end of the program: its status."""
        def gone():
            self.drain()
            return self.process.poll() is not None
        until(gone, "the end")
        self.drain()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        for fd in (self.go, self.master, self.slave):
            os.close(fd)


def expect_screen(name, shown):
    """Compares with tests/tui/screens/NAME; UPDATE=1 writes it instead."""
    path = SCREENS / name
    if os.environ.get("UPDATE"):
        path.write_text(shown)
    assert path.exists(), f"{path} is missing; UPDATE=1 makes it"
    assert shown == path.read_text(), f"differs from {path} (UPDATE=1 takes it over):\n{shown}"
