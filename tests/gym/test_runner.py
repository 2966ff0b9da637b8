"""The gym's runner against pytest itself: the same tests, the same outcomes."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

import honest_task
from playing import Gym, outcomes

FILES = {
    "workspace/src/spoken.py": "import logging\nimport warnings\n\n\ndef say(x):\n    print(x)\n    logging.getLogger('spoken').warning('said %s', x)\n"
                   "    return x\n\n\ndef warn():\n    warnings.warn('old', DeprecationWarning)\n    return 1\n",
    "tests/conftest.py": "import pytest\n\ncalls = []\n\n\n@pytest.fixture(scope='session')\ndef shared():\n    calls.append('up')\n    yield calls\n\n\n"
                         "@pytest.fixture(autouse=True)\ndef always(monkeypatch):\n    monkeypatch.setenv('ALWAYS', '1')\n\n\n"
                         "def pytest_collection_modifyitems(items):\n    items.sort(key=lambda i: 'late' in i.name)\n",
    "tests/helpers.py": "def check(x):\n    return x == 1\n",
    "tests/test_fixtures.py": '''
import os

import pytest
from spoken import say, warn
from helpers import check

ran = []


@pytest.fixture(params=[1, 2], ids=["one", "two"])
def number(request):
    return request.param


@pytest.fixture
def broken():
    raise RuntimeError("no fixture")


@pytest.fixture
def breaks_later():
    yield 1
    raise RuntimeError("at the end")


def test_late(shared):
    assert shared == ["up"] and len(ran) == 2


def test_number(number):
    ran.append(number)
    assert check(number)


def test_printed(capsys):
    say("x")
    assert capsys.readouterr().out == "x\\n"


def test_logged(caplog):
    say("y")
    assert "said y" in caplog.text


def test_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("b")
    assert os.listdir() == ["a"] and os.environ["ALWAYS"] == "1"


def test_broken(broken):
    pass


def test_breaks_later(breaks_later):
    pass


def test_no_such_fixture(nothing_of_that_name):
    pass


def test_warns():
    with pytest.warns(DeprecationWarning):
        warn()


@pytest.mark.filterwarnings("error")
def test_warnings_are_errors():
    warn()


@pytest.mark.skip(reason="no")
def test_skipped():
    pass


@pytest.mark.skipif("True", reason="no")
def test_skipped_by_text():
    pass


@pytest.mark.xfail
def test_fails_as_expected():
    assert False


@pytest.mark.xfail
def test_passes_unexpectedly():
    pass


@pytest.mark.xfail(strict=True)
def test_passes_strictly():
    pass


@pytest.mark.xfail(raises=KeyError)
def test_fails_otherwise():
    assert False


@pytest.mark.parametrize("text", ["a b", "c::d", "e/f", "\\u00e4", "[x]"])
def test_names(text):
    assert text


def test_leaves():
    raise SystemExit(3)


def test_almost():
    assert 0.1 + 0.2 == pytest.approx(0.3)
''',
    "tests/test_classes.py": '''
import unittest


class TestPlain:
    @classmethod
    def setup_class(cls):
        cls.x = 1

    def setup_method(self):
        self.y = self.x + 1

    def test_y(self):
        assert self.y == 2

    def test_wrong(self):
        assert self.y == 3


class Cases(unittest.TestCase):
    def setUp(self):
        self.z = 3

    def test_z(self):
        self.assertEqual(self.z, 3)

    def test_not_z(self):
        self.assertEqual(self.z, 4)

    @unittest.skip("no")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_raises(self):
        with self.assertRaises(ZeroDivisionError):
            1 / 0


def setup_module(module):
    module.ready = True


def test_ready():
    assert ready
''',
    "tests/package/__init__.py": "",
    "tests/package/tools.py": "VALUE = 5\n",
    "tests/package/test_inside.py": "from .tools import VALUE\nfrom spoken import say\n\n\ndef test_value():\n    assert say(VALUE) == 5\n",
    "tests/package/deeper/__init__.py": "",
    "tests/package/deeper/test_deeper.py": "from ..tools import VALUE\n\n\ndef test_value():\n    assert VALUE == 6\n",
    "tests/test_broken.py": "import nothing_of_that_name\n\n\ndef test_never():\n    pass\n",
    "tests/test_wrong_syntax.py": "def test_never(:\n    pass\n",
}
PLAIN = {
    "tests/test_plain.py": """
import pytest
from spoken import say


def test_one():
    assert say(1) == 1


def test_two():
    assert say(1) == 2


def test_skips():
    pytest.skip("no")


def test_fails_as_expected():
    pytest.xfail("no")


def test_leaves():
    raise SystemExit(0)


def test_raises():
    with pytest.raises(ZeroDivisionError):
        1 / 0


first, test_moved = test_raises, lambda: None
""",
    "tests/deeper/test_alone.py": "def test_alone():\n    assert True\n",
    "tests/test_broken.py": "import nothing_of_that_name\n\n\ndef test_never():\n    pass\n",
}


def by_pytest(folder):
    """What pytest says: {name: outcome}."""
    code = ("import json, sys, pytest\nseen = {}\nclass Plugin:\n    @staticmethod\n    def pytest_runtest_logreport(report):\n"
            "        if report.when == 'call' or report.outcome != 'passed':\n            old = seen.get(report.nodeid)\n"
            "            seen[report.nodeid] = report.outcome if report.when == 'call' or report.outcome == 'skipped' else 'error'\n"
            "pytest.main(['-q', '-p', 'no:cacheprovider', '--continue-on-collection-errors', 'tests'], plugins=[Plugin()])\n"
            "open('seen.json', 'w').write(json.dumps(seen))\n")
    subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return json.loads((folder / "seen.json").read_text())


def write(folder, files, expected):
    return honest_task.write(folder, {
        **{f"tests/{n}.py": None for n in ("test_first", "test_later", "helpers")}, "hidden/tests/test_hidden.py": None, **files},
        {**honest_task.TASK["tests"], "expected": expected}, test_cpu="20s")


SETS = {"many": FILES, "plain": {**PLAIN, "workspace/src/spoken.py": FILES["workspace/src/spoken.py"]}}
SETS["flat"] = {name: content for name, content in SETS["plain"].items() if "deeper" not in name}


@pytest.fixture(params=list(SETS))
def compared(request, tmp_path, scratch):
    """A task of these files, and what pytest says about them."""
    files = SETS[request.param]
    for name, content in files.items():
        path = tmp_path / name.removeprefix("workspace/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    told = by_pytest(tmp_path)
    folder = Path(scratch) / f"same_{request.param}"
    return folder if folder.exists() else write(folder, files, sorted(told)), told


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_outcomes_are_those_of_pytest(callers, gym_run, who, compared, options):
    folder, told = compared
    assert len(told) > 30 or "many" not in folder.name
    caller, _ = callers(who)
    gym = Gym([*caller.prefix, str(gym_run), "--virtual", "--no-cache", *options, str(folder)])
    try:
        gym.reset()
        looked = outcomes(gym.step("run_tests"))
        graded = {t["name"]: t["outcome"] for t in gym.step("submit")["info"]["tests"]}
        assert gym.counts()["warm"] == (not options)
    finally:
        gym.close()
    assert graded == told
    assert {name: looked[name] for name in told} == told
    broken = {"tests/test_broken.py", "tests/test_wrong_syntax.py"} if len(told) > 30 else {"tests/test_broken.py"}
    assert set(looked) - set(told) == broken


def test_run_tests_sees_the_tests_as_they_are_now(callers, gym_run, who, scratch):
    folder = Path(scratch) / "seen_now"
    if not folder.exists():
        write(folder, SETS["flat"], ["tests/test_plain.py::test_one"])
    caller, _ = callers(who)
    gym = Gym([*caller.prefix, str(gym_run), "--virtual", str(folder)])
    looked = lambda: outcomes(gym.step("run_tests"))
    try:
        gym.reset()
        before = looked()
        gym.step("write_file", path="tests/test_new.py", content="def test_new():\n    assert True\n")
        assert looked() == {**before, "tests/test_new.py::test_new": "passed"}
        gym.step("write_file", path="tests/test_new.py", content="def test_new(given):\n    assert given == 7\n")
        gym.step("write_file", path="tests/conftest.py", content="import pytest\n\n\n@pytest.fixture\ndef given():\n    return 7\n")
        assert looked() == {**before, "tests/test_new.py::test_new": "passed"}
    finally:
        gym.close()
