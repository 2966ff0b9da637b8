"""The gym on its simplest task, without the cache: episodes per second against the plain design (plain_gym.py), in turns in the
same run; resets, steps, memory; and a training with the cache."""
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import host
from report import percentile

BENCH = Path(__file__).resolve().parent.parent
TASK = "bugfix_1"
ENVIRONMENTS = (1, 8, 64)
TARGET, TRAIN_S, TRAIN_EPISODES = 15.0, 10.0, 2000


def family(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            pass
    return found


def cpu_s(pid):
    """CPU time of a process, of all below it, and of those below that have ended."""
    ticks = 0
    for one in family(pid):
        try:
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


class Player:
    """A program that takes orders by lines and answers by lines."""

    def __init__(self, c, *command):
        self.name = Path(command[0]).name
        self.process = subprocess.Popen([*c.user.prefix, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=c.user.env, text=True, cwd=c.user.home)

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise host.Failed(f"{self.name}: {self.process.stderr.read().strip()[-300:] or 'ended'}")
        return json.loads(line)

    def rate(self, *words, of="episodes"):
        got = self.ask(*words)
        return got[of] / got["seconds"]

    def measure(self, *words):
        """(episodes per second, CPU milliseconds of one)"""
        before = cpu_s(self.process.pid)
        got = self.ask(*words)
        return got["episodes"] / got["seconds"], (cpu_s(self.process.pid) - before) * 1e3 / got["episodes"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()


def stage(c):
    """The task and the peer, where every user can reach them."""
    tasks = c.stage.folder / "tasks"
    if not tasks.exists():
        shutil.copytree(BENCH.parent / "tasks" / TASK, tasks / TASK)
        shutil.copy2(BENCH / "plain_gym.py", c.stage.folder)
        subprocess.run(["chmod", "-R", "a+rX", tasks], check=True)
    return tasks / TASK


def play_in_turns(c, hutch, plain, plan):
    """{who: [(episodes per second, CPU milliseconds of one), …]}"""
    rounds, few, many = (2, 6, 40) if c.quick else (7, 20, 300)
    got = {}
    for _ in range(rounds):
        for n in ENVIRONMENTS:
            got.setdefault(n, []).append(hutch.measure("play", n, max(many // 4, 4) if n == 1 else many, plan))
        got.setdefault("plain", []).append(plain.measure("play", few, plan))
    return got


def episodes(c, hutch, plain):
    for plan, title in (("submit", "apply the patch, submit"), ("tested", "apply the patch, run the tests, submit")):
        if not hutch.ask("play", 2, 10, plan)["warm"]:
            c.report.failed("no warm runner to be had here: every run of the tests starts its interpreter")
        plain.ask("play", os.cpu_count(), plan)
        got = play_in_turns(c, hutch, plain, plan)
        rate = {who: percentile([one for one, _ in values], 50) for who, values in got.items()}
        cpu = {who: percentile([one for _, one in values], 50) for who, values in got.items()}
        names = {**{n: f"hutch, {n} environment" + "s" * (n > 1) for n in ENVIRONMENTS}, "plain": "plain design"}
        c.report.table(f"episodes: {title}", ["per second", "÷ plain", "CPU ms of one", "plain ÷ this"],
                       [[name, rate[who], f"{rate[who] / rate['plain']:.1f}×", cpu[who], f"{cpu['plain'] / cpu[who]:.1f}×"]
                        for who, name in names.items()])
        c.report.target(f"hutch against the plain design: {title}", max(rate[n] for n in ENVIRONMENTS) / rate["plain"], TARGET, "×",
                        at_least=True)


def rates(c, hutch):
    few = 10 if c.quick else 100
    rows = []
    for plan, title, of, times in (("reset", "resets", "episodes", 100), ("first", "resets, each with a first read", "episodes", 2),
                                   ("read", "steps: read_file", "steps", 1), ("bash", "steps: bash true", "steps", 1)):
        rows.append([title, *(hutch.rate("play", n, few * times, plan, of=of) for n in ENVIRONMENTS)])
    c.report.table("per second", [f"{n} environment" + "s" * (n > 1) for n in ENVIRONMENTS], rows)


def memory(c, hutch):
    most = ENVIRONMENTS[-1]
    one, many = hutch.ask("memory", 1), hutch.ask("memory", most)
    rows = [[name, (many[key] - one[key]) / (most - 1)] for key, name in
            (("share_kib", "its box, proportional share"), ("files_kib", "files in memory, whole host"), ("own_kib", "the program itself"))
            if key != "share_kib" or c.user.uid == 0]  # an ordinary user may not look into a guest
    c.report.table(f"one environment more, of {most}", ["KiB"], rows)


def training(c, tasks):
    out = c.user.own(c.user.home / "trained")
    command = [c.stage.program("hutch"), "gym", "train", "--tasks", tasks, "--task", TASK, "--agent", "qlearn", "--episodes",
               TRAIN_EPISODES, "--clock", "virtual", "--out", out, "--json"]
    began = time.monotonic()
    c.user.output(command)
    c.report.target(f"{TRAIN_EPISODES:,} training episodes with the cache", time.monotonic() - began, TRAIN_S, " s")


def gym(c):
    task = stage(c)
    with Player(c, c.stage.program("gym_bench"), task) as hutch:
        with Player(c, "/usr/bin/python3", c.stage.folder / "plain_gym.py", task) as plain:
            episodes(c, hutch, plain)
        rates(c, hutch)
        memory(c, hutch)
    training(c, task.parent)
