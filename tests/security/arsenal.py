"""The hostile programs, and what counts as a breach.

A test fails with a line that begins with BREACH when an attack worked, and with another one when something else went
wrong: test_weaken.py relies on the difference.
"""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("hostile")


def breach(what):
    pytest.fail("BREACH " + what)


def breach_if(condition, what):
    if condition:
        breach(what)


class Arsenal:
    """Hostile programs, compiled once per session and put into workspaces."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def program(self, name):
        built = self.folder / name
        if not built.exists():
            part = built.with_suffix(".part")
            subprocess.run(["gcc", "-D_GNU_SOURCE", "-static", "-O1", "-w", "-o", part, SOURCES / (name + ".c"), "-lrt"],
                           check=True)
            os.rename(part, built)
        return built

    def arm(self, box, name, workspace=None):
        """Puts a program into the workspace, owned by its user; returns the name it has inside."""
        target = Path(workspace or box.workspace) / name
        if not target.exists():
            shutil.copyfile(self.program(name), target)
            target.chmod(0o755)
            box.caller.own(target)
        return "/workspace/" + name

    def attack(self, box, name, *args, opts=("--timeout", "40s"), **more):
        """Runs a program to its end in a fresh box; what it reports as a breach is one."""
        done = box.run(self.arm(box, name), *args, opts=opts, **more)
        judge(done)
        assert done.returncode == 0, f"{name} did not run to its end: {done!r}"
        return done


def judge(done):
    """What a program printed: a breach may stand anywhere in a line, since a terminal echoes."""
    worked = [line.split("BREACH ", 1)[1] for line in done.stdout.splitlines() if "BREACH " in line]
    breach_if(worked, "; ".join(worked[:12]))


def reached(text):
    """How far a bomb got, by its own count."""
    counts = [int(line.split()[1]) for line in text.splitlines() if line.startswith("REACHED")]
    assert counts, f"the bomb said nothing: {text[-500:]!r}"
    return counts[-1]


def compiled_folder(scratch):
    """Where the compiled programs are: handed on to the sessions that test_weaken.py starts."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc on this host: the hostile programs cannot be compiled")
    return os.environ.get("HUTCH_HOSTILE") or tempfile.mkdtemp(prefix="hostile-", dir=scratch)
