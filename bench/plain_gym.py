#!/usr/bin/env python3
"""The plain design of a training environment, to measure hutch's against: every episode copies the task's folder to a temporary
directory, changes the files there, runs pytest as a subprocess with resource limits, reads what it printed, and removes the
directory. As many worker processes as cores. No isolation beyond the limits.

    plain_gym.py TASK_FOLDER

reads orders `play EPISODES PLAN` from stdin, a line each, and answers each with a line of JSON, as gym_bench does.
"""
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = {"submit": 1, "tested": 2}  # of the tests
HUNK = re.compile(r"@@ -(\d+)")


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


def apply(folder, diff):
    """A unified diff in process: faster than a program that would be started for it."""
    path, shift = None, 0
    for line in diff.splitlines(keepends=True):
        if line.startswith("+++ b/"):
            path, shift = folder / line[6:].strip(), 0
            text = path.read_text().splitlines(keepends=True)
        elif line.startswith("@@"):
            at = int(HUNK.match(line)[1]) - 1 + shift
        elif path and line[0] in " -+":
            if line[0] in " -" and text[at] != line[1:]:
                raise ValueError(f"{path}:{at + 1}: does not apply")
            if line[0] == "-":
                del text[at]
                shift -= 1
            elif line[0] == "+":
                text.insert(at, line[1:])
                at, shift = at + 1, shift + 1
            else:
                at += 1
    path.write_text("".join(text))


def pass_rate(folder):
    """Of the tests, by what pytest printed."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests"], cwd=folder, capture_output=True, text=True, timeout=20,
                          preexec_fn=limits, check=False)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    return counts.get("passed", 0) / max(1, sum(counts.values()))


def episode(work):
    task, diff, runs = work
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("src", "tests"):
            shutil.copytree(task / part, folder / part)
        shutil.copytree(task / "workspace", folder, dirs_exist_ok=True)
        apply(folder, diff)
        for _ in range(runs):
            rate = pass_rate(folder)
    return rate


def main(folder):
    task = Path(folder)
    solution = json.loads((task / "task.json").read_text())["solution"][0]
    diff = next(patch["diff"] for patch in json.loads((task / "patches.json").read_text()) if patch["name"] == solution)
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        for line in sys.stdin:
            _, episodes, plan = line.split()
            began = time.monotonic()
            rates = pool.map(episode, [(task, diff, RUNS[plan])] * int(episodes), chunksize=1)
            seconds = time.monotonic() - began
            if set(rates) != {1.0}:
                sys.exit(f"plain_gym: wrong pass rates: {set(rates)}")
            print(json.dumps({"episodes": int(episodes), "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
