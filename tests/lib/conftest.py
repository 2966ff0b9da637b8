"""The library as another program meets it: installed under a prefix, found by pkg-config, compiled against with cc."""
import os
import subprocess
from pathlib import Path

import pytest

import harness

HERE = Path(__file__).resolve().parent


class Installed:
    """An installation below `root`, and programs made with it."""

    def __init__(self, root, build):
        self.root = root
        subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet", "--destdir", str(root)], check=True,
                       capture_output=True)
        self.library = next(root.rglob("libhutch.so")).resolve()
        self.header = next(root.rglob("hutch.h"))
        self.sanitized = b"__asan_init" in self.library.read_bytes()

    def pkg_config(self, *args):
        env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(self.root), "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
               "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_PATH": str(self.library.parent / "pkgconfig")}
        return subprocess.run(["pkg-config", *args, "hutch"], env=env, check=True, capture_output=True, text=True).stdout.split()

    def compile(self, source, out, compiler=("cc", "-std=c11")):
        extra = ["-fsanitize=address,undefined"] if self.sanitized else []
        subprocess.run([*compiler, "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-D_GNU_SOURCE", *extra, str(source),
                        "-o", str(out), "-pthread", *self.pkg_config("--cflags", "--libs")], check=True)
        out.chmod(0o755)
        return out


@pytest.fixture(scope="session")
def installed(scratch, hutch):
    if not (hutch.parent / "libhutch.so").exists():
        pytest.skip("not built: libhutch.so")
    root = Path(scratch) / "installed"
    root.mkdir(mode=0o755)
    return Installed(root, hutch.parent)


@pytest.fixture(scope="session")
def program(installed, scratch):
    """A program of this folder, compiled once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = installed.compile(HERE / f"{name}.c", Path(scratch) / f"lib-{name}")
        return made[name]

    return get


@pytest.fixture(scope="session")
def tasks(scratch):
    """The tasks of this checkout, where everybody can read them."""
    copy = Path(scratch) / "lib-tasks"
    subprocess.run(["cp", "-r", str(harness.REPO / "tasks"), str(copy)], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    return copy


@pytest.fixture
def run(installed, callers, scratch, who):
    """Runs a program as root or as an ordinary user, in a folder of theirs."""
    caller = callers(who)[0]

    def start(*command, timeout=120, **env):
        box = harness.Box(None, caller, scratch)
        box.env["LD_LIBRARY_PATH"] = str(installed.library.parent)
        box.env["HOME"] = str(caller.home)
        return box._finish([*caller.prefix, *map(str, command)], None, timeout, env, str(box.workspace), ())

    start.caller = caller
    return start
