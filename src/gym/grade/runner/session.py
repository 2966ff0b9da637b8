# pytest's configuration and session, and a rehearsal with one of its own.


class Reporter:
    """The plugin that hears of what cannot be collected. It also knows the settings of plugins that are off, so that --strict-config
    does not reject them."""

    @staticmethod
    def pytest_addoption(parser):
        parser.addini("pythonpath", "the runner sets the search path itself", type="paths", default=[])
        parser.addini("faulthandler_timeout", "the host limits the time of a run", default=0)

    @staticmethod
    def pytest_collectreport(report):
        if report.failed:
            text = report.longrepr
            state.failures.append((report.nodeid or "tests", str(getattr(text, "longrepr", text))[:MESSAGE_MAX]))


def find_ini(paths):
    """The first file with settings of pytest's, in its order."""
    import pathlib

    from _pytest.config.findpaths import load_config_dict_from_file

    for path in paths:
        if load_config_dict_from_file(pathlib.Path(path)) is not None:
            return path
    return None


def options(ini, folder):
    """The runner's own options come after a project's addopts, and so win against them."""
    off = [x for name in PLUGINS_OFF for x in ("-p", "no:" + name)]
    return [*off, "-s", "--assert=plain", "--noconftest", "--import-mode=append", "--basetemp=/tmp/.pytest", "-c",
            ini or "/dev/null", "--rootdir=" + folder, "--confcutdir=" + folder]


def installed_options():
    """Plugins with nothing but the options of installed plugins: addopts may name those (-n of xdist, --cov), and the runner ignores
    them. Nothing of the workspace is on the search path yet."""
    from importlib import metadata

    found = []
    for entry in metadata.entry_points(group="pytest11"):
        with contextlib.suppress(Exception):
            plugin = State()
            plugin.pytest_addoption = entry.load().pytest_addoption
            found.append(plugin)
    return found


def parse(ini, folder):
    """pytest's configuration. An option that it does not know may be one of an installed plugin."""
    import pytest
    from _pytest.config import _prepareconfig

    arguments = options(ini, folder) + [folder]
    try:
        return _prepareconfig(arguments, [Reporter()])
    except pytest.UsageError as error:
        if "unrecognized arguments" not in str(error):
            raise
    return _prepareconfig(arguments, [Reporter(), *installed_options()])


def configure(ini, folder):
    """pytest's configuration and an empty session."""
    import os

    from _pytest.main import Session

    for name in [n for n in os.environ if n.startswith("PYTEST")]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    config = parse(ini, folder)
    config.option.log_file = "/dev/null"
    config._do_configure()
    config.option.verbose = 0  # of the terminal's plugin, which others ask for
    manager = config.pluginmanager
    wanted = config.getoption("doctestmodules", False) or config.getoption("doctestglob", None)
    for name in PLUGINS_FOR_OPTIONS + (() if wanted else ("doctest",)):
        if manager.has_plugin(name):
            manager.unregister(name=name)
    session = Session.from_config(config)
    config.hook.pytest_sessionstart(session=session)
    manager._noconftest = False
    manager._getconftestmodules = conftests
    return config, session


def explain_settings(error, ini):
    """Why pytest does not accept the project's settings: its own words, without the summary of its usage."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    said = [line.partition("error: ")[2] for line in lines if "error: " in line] or lines[:1] or [type(error).__name__]
    where = ini[len(ROOT) + 1:] if ini else "its command line"
    return f"pytest does not accept the settings in {where}: {said[0]}"[:MESSAGE_MAX]


REHEARSAL = '''
import pytest, unittest

@pytest.fixture
def thing(tmp_path_factory):
    yield [1, 2]

@pytest.mark.parametrize("x", [1, 2])
def test_passes(x, thing, monkeypatch, capsys):
    assert x in thing and {"a": x} == {"a": x}

def test_fails(thing):
    assert thing == [1, 3], "no"

def test_differs():
    assert {"a": 1, "b": [1]} == {"a": 2, "b": [2]}

def test_texts():
    assert "one two" == "one too"

def test_raises():
    with pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert 0.1 + 0.2 == pytest.approx(0.3)
    pytest.skip("done")

@pytest.mark.xfail
def test_wrong():
    raise KeyError("k")

class TestCase(unittest.TestCase):
    def test_equal(self):
        self.assertEqual([1], [2])

    def test_good(self):
        with self.assertRaises(ZeroDivisionError):
            1 / 0

class TestGroup:
    def setup_method(self):
        self.x = 1

    def test_one(self):
        assert self.x == 2
'''


def rehearse():
    """A session of no consequence, so that what pytest loads late is loaded."""
    import os
    import shutil
    import tempfile

    global ROOT
    kept, folder = ROOT, None
    try:
        folder = tempfile.mkdtemp(prefix=".hutch-")
        file = folder + "/test_rehearsal.py"
        with open(file, "w") as out:
            out.write(REHEARSAL)
        with open(folder + "/test_broken.py", "w") as out:
            out.write("import nothing_of_that_name\n")
        ROOT = folder
        config, session = configure(None, folder)
        prepare_state(config, session)
        state.failures = []
        session.perform_collect([folder])
        for item in session.items:
            for phase in ("setup", "call"):
                judge(item, phase, attempt(getattr(item.ihook, "pytest_runtest_" + phase), item=item), *state.judging)
            attempt(item.ihook.pytest_runtest_teardown, item=item, nextitem=None)
    except OSError:
        pass  # a template that cannot be written to: the first run takes longer
    finally:
        ROOT = kept
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
            for name in ("test_rehearsal", "test_broken"):
                sys.modules.pop(name, None)
            while folder in sys.path:
                sys.path.remove(folder)
    sources.__init__()
    os.environ.pop("PYTEST_CURRENT_TEST", None)


def compare(op, left, right):
    """Comparisons are explained as pytest does, within a few lines."""
    for lines in state.config.hook.pytest_assertrepr_compare(config=state.config, op=op, left=left, right=right):
        if lines:
            if len(lines) > MESSAGE_LINES:
                lines[MESSAGE_LINES:] = ["..."]
            return "\n~".join(line.replace("\n", "\\n") for line in lines).replace("%", "%%")
    return None


def prepare_state(config, session):
    import unittest
    import warnings

    import pytest
    from _pytest import outcomes
    from _pytest.assertion.rewrite import rewrite_asserts
    from _pytest.skipping import xfailed_key
    from _pytest.assertion import util
    from _pytest.warnings import catch_warnings_for_item
    from importlib.machinery import ModuleSpec

    util._reprcompare, util._config = compare, config

    state.config, state.session = config, session
    state.rewrite, state.spec = rewrite_asserts, ModuleSpec
    state.skipped, state.unittest_skip = outcomes.skip.Exception, unittest.SkipTest
    state.collect_error, state.testcase = pytest.Collector.CollectError, unittest.TestCase
    state.judging = (outcomes, xfailed_key)
    state.conftests = {}
    state.catch_warnings, state.keep_filters = catch_warnings_for_item, warnings.catch_warnings
    state.stdlib = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names)
    state.own = getattr(state, "own", [])
