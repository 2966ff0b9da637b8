"""A session of three million tokens: how long until the next request leaves, what it takes, what one more message costs."""
import os

import big_session
import footprint
import host
from fast_model import FastModel, calls, says

from .agent import finish_any, start, status_of

SESSION, TOKENS = "20260101-000000", 3_000_000


def prepare(c):
    folder = c.user.home
    for part in (".local", "share", "hutch", "history"):
        folder = c.user.own(folder / part)
    path = folder / f"{SESSION}.json"
    facts = big_session.write(path, SESSION, c.user.workspace, TOKENS)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, c.user.uid, c.user.gid)
    return path, facts


def command(c, *opts):
    return [c.stage.program("hutch"), "ask", "--model", "anthropic/scripted-1", "-w", c.user.workspace, *opts, "go on"]


class High:
    """What the agent has held at most when a request had come."""

    def __init__(self):
        self.kib = 0

    def look(self, _number):
        for pid in footprint.below():
            try:
                name, high, _ = status_of(pid)
            except (OSError, KeyError):
                continue
            self.kib = max(self.kib, high if name.startswith("hutch") else 0)


def opened(c):
    """(seconds from start to the first request, KiB held by then)"""
    high = High()
    with FastModel([says("Fine.")], watch=high.look) as server:
        process, began = start(c, server, command(c, "--resume", SESSION))
        finish_any(process, "hutch ask --resume")
        return server.arrived[0] - began, high.kib


def searched(c, question):
    """Seconds from the call of `memory` to the next request."""
    with FastModel([calls(1, "memory", query=question), says("Fine.")]) as server:
        process, _ = start(c, server, command(c, "--resume", SESSION))
        finish_any(process, "hutch ask --resume")
        gaps = server.gaps()
        if not gaps:
            raise host.Failed("memory was not called")
        return gaps[0]


def session(c):
    footprint.adopt_orphans()
    path, facts = prepare(c)
    size = path.stat().st_size
    runs = [opened(c) for _ in range(3 if c.quick else 7)]
    first = [seconds * 1e9 for seconds, _ in runs]
    searches = [searched(c, question) * 1e9 for question, _ in facts[:2 if c.quick else 5]]
    appends = c.user.json([c.stage.program("history_bench"), SESSION, 50 if c.quick else 500])
    c.report.table(f"a session of {TOKENS:,} tokens", ["MB"], [["its file", size / 1e6]])
    c.report.times("process start to the next request", {"hutch ask --resume": first})
    c.report.times("a call of memory, the first builds the index", {"memory": searches})
    c.report.times("one more message", appends)
    middle = sorted(first)[len(first) // 2] / 1e9
    c.report.target("opening and building the next request", middle, 1.0, " s")
    c.report.target("memory of the agent, VmHWM", max(kib for _, kib in runs) / 1024, 200.0, " MB")
    c.report.target("saving one more message, p50", sorted(appends["append"])[len(appends["append"]) // 2] / 1e6, 5.0, " ms")
