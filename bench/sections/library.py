"""Boxes at the level of the library: from a pool, a command in a live one, forks, and how many per second."""
import contextlib
import os
import random
import shutil
import subprocess

import profiles
from host import Failed
from report import percentile

LARGE_FOLDERS, LARGE_FILES, LARGE_SIZE = 50, 100, 20_000  # 5,000 files, 100 MB
FORK_MS = 2.0
DISK = 1.5  # a store on disk against one in memory


def bwrap_of(c):
    return {name: command for name, command in profiles.all_bwraps(c.stage, c.user.workspace).items() if name == "bwrap"}


def pool(c):
    named = {**bwrap_of(c), "posix_spawn": ["true"]}
    series = c.user.json([c.stage.program("box_bench"), "start", 50 if c.quick else 300, c.user.workspace,
                          *profiles.lines(named)])
    series = {"box from a warm pool": series.pop("pool"), "box opened and closed": series.pop("box"), **series}
    c.report.times("box with one command", series, "box from a warm pool")
    if "bwrap" in series:
        c.report.ratio("box from a warm pool", series, "box from a warm pool", "bwrap", 0.25)


def execute(c):
    series = c.user.json([c.stage.program("box_bench"), "exec", 100 if c.quick else 1000, c.user.workspace,
                          *profiles.lines({"posix_spawn": ["true"]})])
    series = {"exec in a live box": series["live"], "posix_spawn": series["posix_spawn"],
              "posix_spawn, output piped": series["piped/ns"]}
    c.report.times("one command", series, "exec in a live box")
    c.report.ratio("exec in a live box", series, "exec in a live box", "posix_spawn", 1.50)


def make_large(c):
    folder = c.user.own(c.user.home / "large")
    noise = random.Random(1).randbytes(LARGE_SIZE)
    for i in range(LARGE_FOLDERS):
        inner = c.user.own(folder / str(i))
        for j in range(LARGE_FILES):
            path = inner / str(j)
            path.write_bytes(noise)
            if os.geteuid() == 0:
                os.chown(path, c.user.uid, c.user.gid)
    return folder


@contextlib.contextmanager
def ordinary_disk(c):
    """Root puts the stores on a fresh ext4 with its usual options, in a file. Images of virtual machines often have an
    ext4 without a journal: there the kernel looks at every inode deleted in the last minutes before it makes a file,
    so each round is slower than the one before. Yields what the report calls the disk."""
    image, at = c.stage.folder / "disk.img", c.stage.folder / "disk"
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        yield "the default folder"
        return
    at.mkdir(exist_ok=True)
    with open(image, "wb") as out:
        out.truncate(6 << 30)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, at], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        yield "the default folder"
        return
    at.chmod(0o755)
    c.user.env["HUTCH_STORE"] = str(c.user.own(at / "store"))
    try:
        yield "ext4 with a journal"
    finally:
        del c.user.env["HUTCH_STORE"]
        subprocess.run(["umount", "-l", at], check=False)
        image.unlink()


def fork(c):
    with ordinary_disk(c) as disk:
        series = c.user.json([c.stage.program("box_bench"), "fork", 10 if c.quick else 100, make_large(c)])
    for part, title in (("snapshot", "snapshot"), ("fork", "fork"), ("both", "snapshot and fork")):
        c.report.times(title, {f"{workspace} workspace, {changed} changed": series[f"{workspace} {changed}/{part}"]
                               for changed in ("1", "100") for workspace in ("empty", "large")})
    for changed in ("1", "100"):
        empty, large = (percentile(series[f"{workspace} {changed}/both"], 50) / 1e6 for workspace in ("empty", "large"))
        c.report.target(f"large over empty, {changed} changed, p50", large - empty, FORK_MS, " ms")
    for part in ("start", "snapshot", "fork"):
        for changed in ("1", "100"):
            c.report.ratio(f"store on {disk}, {part}, {changed} changed", series, f"disk {changed}/{part}", f"large {changed}/{part}", DISK)


def rate(c):
    named = {"hutch run": profiles.hutch(c.stage, c.user.workspace), **bwrap_of(c), "posix_spawn": ["true"]}
    rounds, slice_ms = (1, 500) if c.quick else (3, 1000)
    rates = {}
    for in_flight in (2, 8, 32):
        try:
            rates[in_flight] = c.user.json([c.stage.program("box_bench"), "rate", rounds, c.user.workspace, in_flight,
                                            slice_ms, *profiles.lines(named)])
        except Failed as failure:
            c.report.failed(f"{in_flight} in flight: {failure}")
    if not rates:
        return
    names = {"box": "box opened and closed", "pool": "box from a pool", **{name: name for name in named}}
    c.report.table("runs per second, p50 of slices", [f"{n} in flight" for n in rates],
                   [[shown, *(percentile(rates[n][name], 50) for n in rates)] for name, shown in names.items()])
