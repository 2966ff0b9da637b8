"""The agent against the least that an agent can be (bare_loop.py), both with the same model server: 20 turns of `true`."""
import os
import shutil
import subprocess
import time
from pathlib import Path

import footprint
import host
from fast_model import FastModel, calls, says

TURNS = 20
KEY = "key-of-the-bench"


def script():
    return [*(calls(i, "bash", command="true") for i in range(TURNS)), says("Done.")]


def environment(c, server):
    return {**c.user.env, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "no_proxy": "127.0.0.1"}


def commands(c):
    """Who is measured; all print to nowhere and work in the same folder."""
    return {"hutch ask": [c.stage.program("hutch"), "ask", "--model", "anthropic/scripted-1", "-w", c.user.workspace, "go"],
            "bare Python loop": ["/usr/bin/python3", bare(c), "go"]}


def bare(c):
    path = c.stage.folder / "bare_loop.py"
    if not path.exists():
        shutil.copy2(Path(__file__).parent.parent / "bare_loop.py", path)
    return path


def start(c, server, command):
    """(process, when it was started)"""
    began = time.monotonic()
    process = subprocess.Popen([*c.user.prefix, *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment(c, server), cwd=c.user.workspace if os.geteuid() == 0 else None)
    return process, began


def finish_any(process, name):
    said = process.stderr.read().decode(errors="replace").strip()
    process.stderr.close()
    if process.wait() != 0:
        raise host.Failed(f"{name} ended with {process.returncode}: {said[-300:]}")


def finish(process, server, name):
    finish_any(process, name)
    if len(server.arrived) != TURNS + 1:
        raise host.Failed(f"{name} made {len(server.arrived)} requests instead of {TURNS + 1}")


def once(c, command, name):
    """(start to first request, gaps), in nanoseconds."""
    with FastModel(script()) as server:
        process, began = start(c, server, command)
        finish(process, server, name)
        return (server.arrived[0] - began) * 1e9, [gap * 1e9 for gap in server.gaps()]


def status_of(pid):
    """(name, VmHWM in KiB, Pss in KiB or None)"""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    share = None
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        share = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    except (OSError, StopIteration):
        pass
    return lines["Name"].strip(), int(lines["VmHWM"].split()[0]), share  # a zombie has none: KeyError


class Peak:
    """The most that the processes below this one have held: each one's own peak, added up whenever a request has come."""

    def __init__(self):
        self.parts, self.share = [], 0

    def look(self, _number):
        parts, shares = [], 0
        for pid in footprint.below():
            try:
                name, high, share = status_of(pid)
            except (OSError, KeyError):
                continue
            if name.startswith(("hutch", "python3")):
                parts.append((name, high))
                shares += share or 0
        self.share = max(self.share, shares)
        self.parts = max(self.parts, parts, key=lambda all: sum(high for _, high in all))

    @property
    def sum(self):
        return sum(high for _, high in self.parts)


def peak(c, command, name):
    seen = Peak()
    with FastModel(script(), watch=seen.look) as server:
        process, _ = start(c, server, command)
        finish(process, server, name)
    return seen


def memory(c):
    rows, hutch = [], None
    for name, command in commands(c).items():
        seen = peak(c, command, name)
        hutch = hutch or seen
        parts = ", ".join(f"{part} {high / 1024:.1f}" for part, high in seen.parts)
        rows.append([name, seen.sum / 1024, seen.share / 1024 if os.geteuid() == 0 else None, parts])
    c.report.table("peak memory, MB", ["sum of VmHWM", "most PSS", "of"], rows)
    c.report.target("hutch, its keeper and its guest together, sum of VmHWM", hutch.sum / 1024, 20.0, " MB")


def agent(c):
    footprint.adopt_orphans()
    first, turn = {}, {}
    for _ in range(3 if c.quick else 20):
        for name, command in commands(c).items():
            began, gaps = once(c, command, name)
            first.setdefault(name, []).append(began)
            turn.setdefault(name, []).extend(gaps)
    c.report.times("process start to first request", first, "hutch ask")
    c.report.ratio("process start to first request", first, "hutch ask", "bare Python loop", 0.5)
    c.report.times(f"one of {TURNS} tool turns", turn, "hutch ask")
    c.report.ratio("overhead of a tool turn", turn, "hutch ask", "bare Python loop", 1.2)
    memory(c)


