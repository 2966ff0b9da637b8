"""The package as it is installed."""
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

import harness
from python_programs import LIBRARY, PYTHON, Programs, sanitizer


@pytest.fixture(scope="session")
def installed(scratch, hutch):
    """The package below a prefix, with the library and the tasks that belong to it."""
    if not (hutch.parent / "build.ninja").exists() or not shutil.which("meson"):
        pytest.skip(f"not a build folder of meson: {hutch.parent}")
    root = Path(scratch) / "installed-python"
    root.mkdir(mode=0o755)
    done = subprocess.run(["meson", "install", "-C", str(hutch.parent), "--no-rebuild", "--quiet", "--destdir", str(root)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    package, = (path.parent for path in root.rglob("*-packages/hutch/__init__.py"))
    return package


@pytest.fixture
def programs(installed, hutch, callers, who, scratch):
    made = Programs(None, callers(who)[0], scratch, gymnasium=None)
    made.path = [str(installed.parent)]
    made.more = sanitizer(hutch.parent / LIBRARY)
    return made


def test_it_finds_its_library_and_its_tasks(programs, installed):
    said = programs.run("""
        import hutch, hutch.gym, importlib.metadata
        print(hutch.__file__)
        assert hutch.version() == hutch.__version__ == importlib.metadata.version("hutch")
        with hutch.Box(workspace=None) as box:
            assert box.exec("echo hello").stdout == "hello\\n"
        assert "bugfix_1" in [task["name"] for task in hutch.gym.tasks()]
        with hutch.gym.CodingEnv("bugfix_1", clock="virtual") as env:
            env.reset(seed=1)
            env.step(0)
    """)
    assert said.strip() == str(installed / "__init__.py")


def test_everything_is_installed_and_nothing_else(installed):
    source = harness.REPO / "python" / "hutch"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    have = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert have == wanted and {"py.typed", "gym/spaces.py"} <= have


def test_it_says_the_same_version_everywhere():
    found = {name: re.search(pattern, (harness.REPO / name).read_text(), re.M)[1] for name, pattern in (
        ("meson.build", r"^project\('hutch', 'c',\n +version: '(.*)'"),
        ("python/hutch/__init__.py", r'^__version__ = "(.*)"'))}
    assert len(set(found.values())) == 1, found


@pytest.fixture
def venv(installed, programs, who):
    """A virtual environment of the caller's, with a copy of python/ beside it and the installed hutch in its $PATH."""
    folder, caller = programs.folder, programs.caller
    programs.path = []
    made = subprocess.run([*caller.prefix, PYTHON, "-m", "venv", folder / "venv"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no virtual environments here: {made.stdout.strip()}")
    shutil.copytree(harness.REPO / "python", folder / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder / "python", *(folder / "python").rglob("*")]:
        caller.own(path)
    env = {**programs.env, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
           "PATH": f"{installed.parents[3] / 'bin'}:{programs.env['PATH']}"}

    def run(*words):
        done = subprocess.run([*caller.prefix, *words], env=env, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_pip_installs_it_without_a_network(venv):
    """As a copy, and in place; and it finds the library of the hutch that is in $PATH."""
    for words, where in ((["./python"], r"venv/lib/python3\.\d+/site-packages/hutch/__init__\.py"),
                         (["-e", "./python"], r"python/hutch/__init__\.py")):
        venv("venv/bin/pip", "install", *words)
        said = venv("venv/bin/python", "-I", "-c", textwrap.dedent("""
            import hutch, hutch.gym, importlib.metadata, os
            assert hutch.version() == importlib.metadata.version("hutch")
            with hutch.gym.CodingEnv("bugfix_1", clock="virtual") as env:
                env.reset(seed=1)
            print(os.path.relpath(hutch.__file__))
        """))
        assert re.fullmatch(where, said.strip())
        assert "Successfully uninstalled" in venv("venv/bin/pip", "uninstall", "-y", "hutch")
