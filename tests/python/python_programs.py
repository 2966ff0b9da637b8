"""Runs Python programs that use the package, as root and as an ordinary user, with Debian's python3.

The package and the library are copied to where every user can reach them, unless they can be reached where they are. A program
is a piece of text; it fails the test by ending with another status than 0, and most do so by an assertion of their own.
"""
import functools
import os
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path

import pytest

import harness

PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
HERE = Path(__file__).parent
FETCHED = HERE / "gymnasium"  # by scripts/setup-gymnasium
LIBRARY = "libhutch.so.1"

# A program without gymnasium must not find one that the system has.
WITHOUT = "import sys\nsys.modules['gymnasium'] = None\n"

GYM_HEAD = """
    import hutch, json, os, sys
    from hutch.gym import Arena, AutoresetMode, CodingEnv, CodingVectorEnv, HAVE_GYMNASIUM, check
    def fails(kind, part, work):
        try:
            work()
        except kind as why:
            assert part in str(why), why
        else:
            raise AssertionError(f"no {kind.__name__} with {part!r}")
    def truths(values):
        return [bool(value) for value in values]
"""


def gym_program(text):
    """A program about environments, with what most of them need."""
    return textwrap.dedent(GYM_HEAD) + textwrap.dedent(text)


class Place:
    """A tree that looks like a source tree with a build in it: build/, python/, tasks/."""

    def __init__(self, top, build):
        self.top, self.build = top, build
        self.package = top / "python"
        self.tasks = top / "tasks"
        self.examples = self.package / "examples"


def readable(caller, path):
    return subprocess.run([*caller.prefix, "test", "-r", str(path)], check=False).returncode == 0


def make_place(hutch, caller, scratch):
    library = hutch.parent / LIBRARY
    if not library.exists():
        pytest.skip(f"not built: {library}")
    if readable(caller, library) and hutch.parent.name == "build":
        return Place(harness.REPO, hutch.parent)
    top = Path(tempfile.mkdtemp(prefix="python-", dir=scratch))
    top.chmod(0o755)
    (top / "build").mkdir()
    harness.copy_parts(hutch, top / "build")
    for name in ("libhutch.so", LIBRARY):
        shutil.copy2(library, top / "build" / name)
    for name in ("python", "tasks"):
        shutil.copytree(harness.REPO / name, top / name, symlinks=True)
    if FETCHED.exists():
        shutil.copytree(FETCHED, top / "gymnasium")
    return Place(top, top / "build")


def gymnasium_path(place):
    """What to add to PYTHONPATH to have gymnasium: nothing if the system has it, None if there is none."""
    for path in ("", str(place.top / "gymnasium"), str(FETCHED)):
        env = {"PYTHONPATH": path} if path else {}
        if subprocess.run([PYTHON, "-c", "import gymnasium"], env=env, capture_output=True, check=False).returncode == 0:
            return path
    return None


def with_path(place):
    path = gymnasium_path(place)
    if path is None:
        pytest.skip("gymnasium is not installed for " + PYTHON + ", and scripts/setup-gymnasium has not fetched it")
    return path


@functools.lru_cache(None)
def sanitizer(library):
    """A library that was made with AddressSanitizer wants it to be there first. What Python itself never frees is not ours."""
    if b"__asan_init" not in library.read_bytes():
        return {}
    parts = (subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
             for name in ("libasan.so", "libubsan.so"))
    return {"LD_PRELOAD": " ".join(os.path.realpath(part) for part in parts), "ASAN_OPTIONS": "detect_leaks=0"}


class Programs:
    """Python programs as one caller."""

    def __init__(self, place, caller, scratch, gymnasium=""):
        self.place, self.caller = place, caller
        self.folder = caller.folder(scratch, "py")
        self.gymnasium = gymnasium
        self.path = [str(place.package)] if place else []
        self.more = sanitizer(place.build / LIBRARY) if place else {}

    @property
    def env(self):
        path = [*self.path, *([self.gymnasium] if self.gymnasium else [])]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(self.caller.home),
               "XDG_RUNTIME_DIR": str(self.caller.home), "PYTHONPATH": ":".join(path), "PYTHONDONTWRITEBYTECODE": "1"}
        if self.place is not None:
            env["HUTCH_LIBRARY"] = str(self.place.build / LIBRARY)
        return {**env, **self.more}

    def command(self, program, *arguments):
        head = WITHOUT if self.gymnasium is None else ""
        return [*self.caller.prefix, PYTHON, "-c", head + textwrap.dedent(program), *map(str, arguments)]

    def run(self, program, *arguments, timeout=120, env=None, status=0):
        """Runs it to its end, and returns what it printed."""
        done = subprocess.run(self.command(program, *arguments), capture_output=True, text=True, timeout=timeout,
                              env={**self.env, **(env or {})}, cwd=self.folder, check=False)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.stderr = done.stderr
        return done.stdout

    def start(self, program, **popen):
        return subprocess.Popen(self.command(program), env=self.env, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **popen)
