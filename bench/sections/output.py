"""A lot of output through a box, against the same through a pipe alone."""
import hashlib
import json
import os
import random
import subprocess

import profiles
from host import Failed
from report import percentile

BLOCK = 1 << 20


def make_big(c, size):
    path = c.user.workspace / "big"
    noise = random.Random(2).randbytes(BLOCK)
    with open(path, "wb") as file:
        for i in range(size // BLOCK):
            file.write(i.to_bytes(8, "big") + noise[8:])
    os.chmod(path, 0o644)
    return path


def digest(stream):
    state = hashlib.sha256()
    while block := stream.read(BLOCK):
        state.update(block)
    return state.hexdigest()


def is_identical(c, command, path):
    process = c.user.popen(command, stdout=subprocess.PIPE)
    got = digest(process.stdout)
    if process.wait() != 0:
        raise Failed(f"{' '.join(command)}: status {process.returncode}")
    with open(path, "rb") as file:
        return got == digest(file)


def speeds(series, name, size):
    """GB/s of each round, had the whole output arrived."""
    counted = set(series[f"{name}/bytes"])
    if counted != {size}:
        raise Failed(f"{name}: {sorted(counted)} bytes arrived instead of {size}")
    return [size / ns for ns in series[f"{name}/ns"]]


def kept(c, run, path, size):
    result = json.loads(c.user.output([*run, "--json", "--", "cat", path.name]))
    known = len(result.get("stdout") or "") or len(result.get("stdout_base64") or "") * 3 // 4
    c.report.table("with --json", ["bytes counted", "bytes kept", "truncated", "GB/s"],
                   [["cat big", result["stdout_bytes"], known, str(result["truncated"]),
                     size / (result["duration_ms"] * 1e6)]])
    c.report.target("--json counts every byte, off by", abs(result["stdout_bytes"] - size), 0, " bytes")


def output(c):
    size = (256 if c.quick else 1024) * BLOCK
    path = make_big(c, size)
    run = [c.stage.program("hutch"), "run", "-w", str(c.user.workspace)]
    cat, zeros = ["cat", str(path)], ["head", "-c", str(size), "/dev/zero"]
    named = {"cat, hutch run": [*run, "--", "cat", path.name], "cat": cat, "zeros, hutch run": [*run, "--", *zeros],
             "zeros": zeros}
    series = c.user.json([c.stage.program("oneshot"), "drain", 2 if c.quick else 7, *profiles.lines(named)])
    speed = {name: speeds(series, name, size) for name in named}
    rows = [[name, percentile(values, 50), min(values)] for name, values in speed.items()]
    c.report.table(f"{size / 1e9:.2f} GB through a pipe", ["p50 GB/s", "worst GB/s"], rows)
    for what in ("cat", "zeros"):
        got = percentile(speed[f"{what}, hutch run"], 50) / percentile(speed[what], 50)
        c.report.target(f"{what} through a box, GB/s against without", got, 0.80, "×", at_least=True)
    c.report.target("bytes that differ after cat", int(not is_identical(c, [*run, "--", "cat", path.name], path)), 0, "")
    kept(c, run, path, size)
    path.unlink()
