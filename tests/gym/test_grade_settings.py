"""Settings of pytest's in a project: whatever its addopts say, the tests are run and graded; what pytest does not accept is reported in
its words."""
import os
import site
from pathlib import Path

import pytest

import honest_task
from playing import Gym, seen
from test_cheats import grade, passed

# What a project may have in addopts. With each of them all tests of the solution pass in pytest itself.
ADDOPTS = [
    "--strict-markers -ra", "--doctest-modules", "--durations=10 --durations-min=0.5", "-vv --color=yes", "-q -x --maxfail=1", "--tb=short -l",
    "--strict-config -p no:cacheprovider", "--junitxml=report.xml -o junit_family=xunit2", "--lf --ff --nf", "--sw --cache-clear",
    "--log-file=build/test.log --log-cli-level=INFO", "--capture=sys --import-mode=importlib --assert=rewrite", "--setup-show --pdb",
    "-W error::UserWarning --disable-warnings", "--basetemp=/workspace/base --rootdir=/", "-k 'not nothing' -m 'not slow' --runxfail",
    "--ignore=tests/nothing.py --deselect=tests/x.py::y", "-p no:terminal -ra", "--no-header --no-summary --show-capture=no", "-p pytester",
]
SECTIONS = {"pytest.ini": "[pytest]", ".pytest.ini": "[pytest]", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]",
            "pyproject.toml": "[tool.pytest.ini_options]"}
TEMPORARY = "def test_temporary(tmpdir, tmpdir_factory):\n    tmpdir.join('a').write('b')\n    assert tmpdir.join('a').read() == 'b'\n"
DOCUMENTED = 'def same(got, want):\n    """Compares types, too.\n\n    >>> same(1, 1.0)\n    False\n    """\n    return type(got) is type(want) and got == want\n'


@pytest.fixture
def arena(open_gym, scratch):
    def start(who, addopts, *options, file="pytest.ini", more=None, expected=honest_task.EXPECTED):
        quote = '"' if file.endswith(".toml") else ""
        text = f"{SECTIONS[file]}\naddopts = {quote}{addopts}{quote}\n"
        tests = {**honest_task.TASK["tests"], "own": ["tests", *SECTIONS], "expected": expected}
        folder = Path(scratch) / f"settings_{len(list(Path(scratch).glob('settings_*')))}"
        honest_task.write(folder, {"workspace/pytest.ini": None, "workspace/" + file: text, **(more or {})}, tests, test_cpu="20s")
        return open_gym(who, "--virtual", "--no-cache", *options, task=folder)

    return start


def assert_graded(gym, count=len(honest_task.EXPECTED)):
    gym.reset()
    looked = seen(gym.step("run_tests"))
    assert looked["data"]["trouble"] is None and looked["data"]["failed"] == 4 - 1, looked
    info = grade(gym, {"src/calc.py": honest_task.FIXED})
    assert info["pass_rate"] == 1 and info["trouble"] is None and len(info["tests"]) == count - 1, info


@pytest.mark.parametrize("addopts", ADDOPTS)
def test_tests_are_graded_with_any_addopts(arena, addopts):
    gym = arena("user", addopts)
    assert_graded(gym)
    assert gym.counts()["warm"]


@pytest.mark.parametrize("file", SECTIONS)
def test_settings_are_found_where_pytest_finds_them(arena, who, file):
    """A file without a section of pytest's does not hide the one that has it."""
    more = {"workspace/pyproject.toml": "[project]\nname = 'x'\n"} if file in ("tox.ini", "setup.cfg") else {}
    gym = arena(who, "-k discount", file=file, more=more)
    info = grade(gym, {"src/calc.py": honest_task.FIXED})
    assert passed(info) == {honest_task.EXPECTED[1]}, info


@pytest.mark.parametrize("addopts", ["--strict-markers -ra", "--doctest-modules", "--durations=10", "-vv --color=yes"])
def test_the_same_without_a_warm_runner(arena, who, addopts):
    gym = arena(who, addopts, "--cold")
    assert_graded(gym)
    assert not gym.counts()["warm"]


def test_doctests_are_tests(arena, who):
    names = ["tests/helpers.py::helpers.same", *honest_task.EXPECTED]
    gym = arena(who, "--doctest-modules", more={"tests/helpers.py": DOCUMENTED}, expected=names)
    assert_graded(gym, len(names))


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_tmpdir_is_a_fixture(arena, who, options):
    names = [*honest_task.EXPECTED, "tests/test_temporary.py::test_temporary"]
    assert_graded(arena(who, "", *options, more={"tests/test_temporary.py": TEMPORARY}, expected=names), len(names))


REFUSED = {"--no-such-option=5": "unrecognized arguments: --no-such-option=5", "-p no_such_plugin": 'Error importing plugin "no_such_plugin"'}


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
@pytest.mark.parametrize("addopts", REFUSED)
def test_what_pytest_does_not_accept_is_reported_in_its_words(arena, who, addopts, options):
    gym = arena(who, addopts, *options)
    gym.reset()
    looked = seen(gym.step("run_tests"))
    wanted = "pytest does not accept the settings in pytest.ini: " + REFUSED[addopts]
    assert looked["failed"] and looked["data"]["trouble"].startswith(wanted), looked
    info = grade(gym, {"src/calc.py": honest_task.FIXED})
    assert info["pass_rate"] == 0 and info["trouble"].startswith(wanted), info


@pytest.fixture
def installed_plugin(scratch):
    """A folder to mount over one of Python's: it has a plugin whose hook fails every test."""
    places = [p for p in site.getsitepackages() if os.path.isdir(p) and not Path(pytest.__file__).is_relative_to(p)]
    if os.geteuid() != 0 or not places:
        pytest.skip("only root can mount over a folder of Python's packages, and pytest must not be in it")
    folder = Path(scratch) / "packages"
    (folder / "probe-1.dist-info").mkdir(parents=True, exist_ok=True)
    (folder / "probe.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--probe', type=int)\n\n\n"
                                     "def pytest_runtest_call(item):\n    raise RuntimeError('the plugin is loaded')\n")
    (folder / "probe-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1\n")
    (folder / "probe-1.dist-info" / "entry_points.txt").write_text("[pytest11]\nprobe = probe\n")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder, places[0]


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_options_of_installed_plugins_are_accepted_and_ignored(callers, gym_run, who, scratch, installed_plugin, options):
    caller, _ = callers(who)
    task = Path(scratch) / "with_probe"
    if not task.exists():
        honest_task.write(task, {"workspace/pytest.ini": "[pytest]\naddopts = --probe=5 -ra\n"}, test_cpu="20s")
    bind = 'mount --bind "$0" "$1" && shift && exec "$@"'
    gym = Gym(["unshare", "--mount", "--propagation", "private", "sh", "-c", bind, *map(str, installed_plugin), *caller.prefix,
               str(gym_run), "--virtual", "--no-cache", *options, str(task)])
    assert_graded(gym)
    gym.close()
