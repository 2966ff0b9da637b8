"""Runs the tests of a task with pytest, and tells their outcomes where the code under test cannot.

prepare() is called once, in a process that has nothing of the agent's before it: it loads all that a first run loads
late, builds pytest's configuration and session, and compiles the tests. run() is called in a fork of that process for
each run; or both, one after the other, in an interpreter of their own (the last lines).

Tests and the code under test share an interpreter, so whatever is here can be reached by code that looks for it. What is
done against that:

- Modules of the tests are loaded from bytes that were read before anything of the agent's ran, never from a cache, and
  never through sys.modules or a search path; folders of the code under test stand behind everything else.
- Outcomes are written by an audit hook. Nothing in Python leads to a hook: it is in no module, no frame, no list. It
  alone knows the descriptor and the token. It writes when protocol() asks for it, called by the very frame of loop()
  that it was told about; so nobody can make it say something by calling what is here.
- The same hook sees, before they happen, the few things that could get around that (the garbage collector's lists,
  tracing, code that is replaced, ctypes, extension modules of the workspace, /proc/self/mem), and says so at once. What
  was said cannot be taken back; from there on no test counts as passed.
- After each test the functions and classes by which outcomes come about are compared with those of before.

docs/gym.md says what this does not stop.
"""
import sys


def sanitize(folders):
    """The search path without anything that the workspace has a say in, then its folders, last."""
    sys.path[:] = [p for p in sys.path if p and not p.startswith(("/workspace", "/home", "/tmp"))]
    sys.path.extend(f for f in folders if f not in sys.path)
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    sys.pycache_prefix = None


ROOT = "/workspace"
MESSAGE_LINES = 12
MESSAGE_MAX = 1500
SOURCE_MAX = 4 << 20
PLUGINS_OFF = (
    "cacheprovider", "debugging", "doctest", "faulthandler", "junitxml", "legacypath", "nose", "pastebin", "python_path",
    "reports", "setuponly", "setupplan", "stepwise", "terminal", "threadexception", "unraisableexception",
)
# Whatever decides about an outcome, or compares what a test compares.
GUARDED = (
    "builtins", "_pytest.assertion.rewrite", "_pytest.assertion.util", "_pytest.config", "_pytest.fixtures", "_pytest.main",
    "_pytest.nodes", "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.recwarn", "_pytest.runner",
    "_pytest.skipping", "_pytest.unittest", "pluggy", "pluggy._callers", "pluggy._hooks", "pluggy._manager", "pluggy._result",
    "pytest", "unittest", "unittest.case", "unittest.mock", "operator", "math", "re", "json",
)
NATIVE = ("ctypes", "_ctypes", "_cffi_backend", "_testcapi", "_testinternalcapi", "_xxsubinterpreters")
HOSTILE = (
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions",
    "sys.settrace", "sys.setprofile",
)
EXTENSION_PLACES = ("/usr/", "/lib/", "/lib64/", "/opt/", "/nix/")


class State:
    """What prepare() leaves for run(). Nothing in it is a secret."""


state = State()


# --- Modules of the tests -------------------------------------------------------------------------------------------


class Sources:
    """The Python files of the tests: bytes that were read once, compiled code, loaded modules."""

    def __init__(self):
        self.codes = {}  # (path, bytes) -> code
        self.bytes = {}  # path -> bytes, of this run
        self.modules = {}  # path -> module
        self.names = {}  # of modules in this run that can be none but the task's -> path
        self.folders = []  # where modules of the tests are imported from
        self.pristine = False
        self.patterns = ("test_*.py", "*_test.py")

    def is_test(self, path):
        import fnmatch

        name = path.rpartition("/")[2]
        return name == "conftest.py" or any(fnmatch.fnmatchcase(name, p) for p in self.patterns)

    def compile(self, path, source):
        take_back(source)
        code = self.codes.get((path, source))
        if code is None:
            import ast

            tree = ast.parse(source, filename=path)
            if self.is_test(path):
                state.rewrite(tree, source, path, state.config)
            code = compile(tree, path, "exec", dont_inherit=True)
            self.codes[path, source] = code
        return code

    def read(self, path):
        """The bytes of a file: those that were read at the start of a run that counts, else what is there now."""
        source = self.bytes.get(path)
        if source is None:
            if self.pristine:
                raise FileNotFoundError(2, "is no file of the task", path)
            with open(path, "rb", buffering=0) as file:
                source = file.read(SOURCE_MAX)
        return source

    def has(self, path):
        import os

        return path in self.bytes or (not self.pristine and os.path.isfile(path))

    def name_of(self, path):
        """The name of the module, and the folder it is imported from, as pytest finds them."""
        folder, _, name = path.rpartition("/")
        parts = [] if name == "__init__.py" else [name[:-3]]
        while folder != ROOT and len(folder) > len(ROOT) and self.has(folder + "/__init__.py"):
            folder, _, name = folder.rpartition("/")
            parts.insert(0, name)
        return ".".join(parts) or "__init__", folder

    def execute(self, module, path):
        self.modules[path] = module
        try:
            exec(self.compile(path, self.read(path)), module.__dict__)
        except BaseException:
            del self.modules[path]
            raise
        for name, file in self.names.items():
            other = sys.modules.get(name)
            if other is not None and other is not self.modules.get(file):
                raise ImportError(f"tampered: {name} is not the task's module")
        for guard in guard_module(module, lambda v: getattr(v, "__module__", None) == module.__name__):
            sys.audit("hutch.guard", guard)

    def load(self, path):
        module = self.modules.get(path)
        if module is not None:
            return module
        name, folder = self.name_of(path)
        if folder not in sys.path:
            sys.path.append(folder)
        package, _, last = name.rpartition(".")
        if package:
            parent = self.load(folder + "/" + package.replace(".", "/") + "/__init__.py")
        module = type(sys)(name)
        module.__file__ = path
        is_package = path.endswith("/__init__.py")
        module.__spec__ = state.spec(name, Loader(path), origin=path, is_package=is_package)
        module.__loader__ = module.__spec__.loader
        module.__package__ = name if is_package else package
        if is_package:
            module.__path__ = [path.rpartition("/")[0]]
        sys.modules[name] = module
        try:
            self.execute(module, path)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        if package:
            setattr(parent, last, module)
        return module


class Loader:
    def __init__(self, path):
        self.path = path

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        sources.execute(module, self.path)

    def get_source(self, name):
        return sources.read(self.path).decode()


class Finder:
    """Helpers that tests import: from the bytes that were read, whatever lies on the disk by now."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and name in state.stdlib:
            return None
        last = name.rpartition(".")[2]
        for folder in sources.folders if path is None else path:
            for file, is_package in ((f"{folder}/{last}.py", False), (f"{folder}/{last}/__init__.py", True)):
                if file in sources.bytes:
                    spec = state.spec(name, Loader(file), origin=file, is_package=is_package)
                    spec.has_location = True
                    if is_package:
                        spec.submodule_search_locations = [f"{folder}/{last}"]
                    return spec
        return None


sources = Sources()


def load_path(path, *args, **kwargs):
    """Takes the place of pytest's import_path. What goes wrong is told shortly: pytest's way takes longer than all tests."""
    try:
        return sources.load(str(path))
    except state.skipped:
        raise
    except BaseException as error:
        raise state.collect_error(explain(error)) from None


def conftests(path, *args, **kwargs):
    """Takes the place of the plugin manager's search: conftest.py of the task's own files, and no other."""
    folder = str(path)
    folder = folder.rpartition("/")[0] if folder.endswith(".py") else folder
    known = state.conftests.get(folder)
    if known is None:
        known = []
        if folder.startswith(ROOT):
            if folder != ROOT:
                known = list(conftests(folder.rpartition("/")[0] or "/"))
            file = folder + "/conftest.py"
            if is_own(file) and sources.has(file):
                module = load_path(file)
                state.conftests[folder] = known
                state.config.pluginmanager.consider_conftest(module)
                state.plugins.add(id(module))
                known.append(module)
        state.conftests[folder] = known
    return known


def is_own(path):
    path = path[len(ROOT) + 1:]
    return any(path == own or path.startswith(own + "/") for own in state.own)


# --- What must stay as it is ----------------------------------------------------------------------------------------


def namespace(names):
    """The dict behind a class's view of it."""
    import gc

    return names if type(names) is dict else next(d for d in gc.get_referents(names) if type(d) is dict)


def find_versions():
    """How to tell that a dict was changed without looking at what is in it: CPython numbers each change of any dict, next
    to its size. None where that is not so. (Looking at all those objects would count references to them, and so copy
    most of the memory that a fork shares.)"""
    import ctypes

    def version(names):
        return ctypes.c_uint64.from_address(id(names) + 24)

    try:
        one, two = {"a": 1, "b": 2}, {"a": 1}
        first, second = version(one), version(two)
        seen = [first.value, first.value, second.value]
        one["a"] = 3
        seen.append(first.value)
        one["c"] = 1
        del one["b"]
        seen += [first.value, second.value]
        good = seen[0] == seen[1] and seen[2] == seen[5] and len({seen[0], seen[2], seen[3], seen[4]}) == 4
    except Exception:
        good = False
    return version if good and sys.version_info < (3, 12) else None


class Guard:
    """The callables of a namespace, to be compared with later."""

    __slots__ = ("names", "values", "keys", "title", "version", "seen")

    def __init__(self, names, title, want=callable):
        self.names = namespace(names) if state.versions else names
        self.keys = tuple(k for k, v in list(names.items()) if callable(v) and want(v))
        self.values = tuple(names[k] for k in self.keys)
        self.title = title
        self.version = state.versions and state.versions(self.names)
        self.seen = self.version and self.version.value


def guard_module(module, want=callable):
    name = module.__name__
    yield Guard(vars(module), name, want)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name and name != "builtins":
            yield Guard(value.__dict__, name + "." + value.__qualname__)


def make_check(guards):
    """A function that says what is not as it was; None if everything is. It is the hook's alone, and so are the guards."""
    versioned = [g for g in guards if g.version]
    versions = [g.version for g in versioned]
    others = [g for g in guards if not g.version]
    seen = [g.seen for g in versioned]

    def look(guard):
        get = guard.names.get
        for key, value in zip(guard.keys, guard.values):
            if get(key) is not value:
                return guard.title + "." + key
        return None

    def check():
        now = [v.value for v in versions]
        if now != seen:
            for i, guard in enumerate(versioned):
                if now[i] != seen[i]:
                    wrong = look(guard)
                    if wrong:
                        return wrong
                    seen[i] = now[i]
        for guard in others:
            wrong = look(guard)
            if wrong:
                return wrong
        return None

    def add(guard):
        if guard.version:
            versioned.append(guard)
            versions.append(guard.version)
            seen.append(guard.seen)
        else:
            others.append(guard)

    return check, add


def make_check_hooks(manager, plugins):
    """The same for plugins that have a say in how tests are run: only those that are known."""
    calls = [c for n, c in vars(manager.hook).items() if n.startswith(("pytest_runtest_", "pytest_pyfunc_call",
                                                                      "pytest_fixture_", "pytest_pycollect_"))]

    def check():
        for call in calls:
            for impl in call.get_hookimpls():
                if id(impl.plugin) not in plugins:
                    return "a plugin for " + call.name
        return None

    return check


# --- Telling ---------------------------------------------------------------------------------------------------------


def explain(error):
    """Why a test failed: where, and the first lines of what was raised."""
    places = []
    try:
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.startswith(ROOT + "/"):
                places.append(f"{file[len(ROOT) + 1:]}:{trace.tb_lineno}")
            trace = trace.tb_next
        text = str(error)
        if isinstance(error, SyntaxError) and error.filename and str(error.filename).startswith(ROOT + "/"):
            places.append(f"{str(error.filename)[len(ROOT) + 1:]}:{error.lineno}")
            text = str(error.msg)
    except BaseException:
        text = "(what it says cannot be told)"
    name = type(error).__name__
    where = places[:1] + places[-1:] if len(places) > 1 else places
    lines = (f"{name}: {text}" if text else name).split("\n")
    if len(lines) > MESSAGE_LINES:
        lines[MESSAGE_LINES:] = ["..."]
    return ": ".join([" > ".join(where), "\n".join(lines)] if where else ["\n".join(lines)])[:MESSAGE_MAX]


def install(token, fd, frame, codes, protected, native, guards, check_hooks):
    """Puts the hook in place. Its secrets are in its cells, and nothing leads there. The token is not kept as it is."""
    import os

    mask = int.from_bytes(os.urandom(16), "big")
    secret = int(token, 16) ^ mask
    pid = os.getpid()
    check, add = make_check(guards)
    count = 0
    tampered = False
    write, getpid, getframe, wanted = os.write, os.getpid, sys._getframe, frozenset(
        HOSTILE + ("object.__setattr__", "open", "import", "ctypes.dlsym", "ctypes.cdata", "hutch", "hutch.guard"))
    text_type, plain = str, str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", **{
        c: "?" for c in range(32) if c not in (9, 10, 13)}})

    def say(kind, *texts):
        nonlocal count
        if getpid() != pid:
            return
        parts = [text_type.translate(t, plain) for t in texts]
        line = "\t".join(["%032x %d %s" % (secret ^ mask, count, kind), *parts])
        count += 1
        rest = line.encode("utf-8", "replace") + b"\n"
        try:
            while rest:
                rest = rest[write(fd, rest):]
        except OSError:
            pass

    def tamper(what):
        nonlocal tampered
        if not tampered:
            tampered = True
            say("T", "tampered: " + what)

    def hook(event, args):
        if event not in wanted:
            return
        if event == "hutch":
            caller = getframe(1)
            if not (caller.f_code is codes[0] and caller.f_back is frame or caller is frame):
                tamper("outcomes were told by somebody else")
            elif args[0] != "P" and args[0] != "Z":
                say(*args)
            elif wrong := check() or check_hooks():
                tamper(wrong)
                say("E", args[1], "tampered: " + wrong) if args[0] == "P" else say("Z")
            else:
                say(*args)
        elif event == "hutch.guard":
            if type(args[0]) is Guard:
                add(args[0])
        elif event == "import":
            name, file = args[0], args[1]
            if name in native:
                tamper("import of " + name)
            elif type(file) is text_type and file.endswith(".so") and not file.startswith(EXTENSION_PLACES):
                tamper("an extension module of the workspace")
        elif event == "open":
            file = args[0]
            if type(file) is text_type and file.startswith("/proc/") and file.endswith("/mem"):
                tamper("the interpreter's memory was opened")
        elif event == "object.__setattr__":
            if id(args[0]) in protected:
                tamper("code of " + args[0].__module__ + " was replaced")
        elif event[:6] == "ctypes":
            if native:
                tamper("use of " + event)
        else:
            tamper(event)

    sys.addaudithook(hook)


# --- Running ---------------------------------------------------------------------------------------------------------


def judge(item, phase, error, outcomes, xfailed_key):
    """The outcome of a phase: a letter and a message, None if it went well."""
    if error is None:
        raised = getattr(item, "_excinfo", None)  # of a unittest.TestCase
        if raised:
            error = raised.pop(0).value
    xfailed = item.stash.get(xfailed_key, None)
    if error is None:
        if phase == "call" and xfailed is not None and xfailed.strict:
            return "F", "[XPASS(strict)] " + xfailed.reason
        return None
    if isinstance(error, outcomes.xfail.Exception):
        return "S", "xfail: " + str(error)
    if isinstance(error, outcomes.skip.Exception) or isinstance(error, state.unittest_skip):
        return "S", str(error)
    if phase != "teardown" and xfailed is not None:
        if xfailed.raises is None or isinstance(error, xfailed.raises):
            return "S", "xfail: " + xfailed.reason
    return ("F" if phase == "call" else "E"), explain(error)


def attempt(hook, **arguments):
    try:
        hook(**arguments)
    except BaseException as error:
        return error
    return None


def protocol(item, following, audit, phases, judging):
    """One test: set up, called, torn down; then its outcome."""
    name = item.nodeid
    audit("hutch", "B", name)
    if getattr(item, "_request", True) is False:
        item._initrequest()
    verdict = phases(item.ihook.pytest_runtest_setup, item=item)
    verdict = judging(item, "setup", verdict)
    if verdict is None:
        verdict = judging(item, "call", phases(item.ihook.pytest_runtest_call, item=item))
    ending = judging(item, "teardown", phases(item.ihook.pytest_runtest_teardown, item=item, nextitem=following))
    if verdict is None:
        verdict = ending
    if verdict is None:
        audit("hutch", "P", name)
    else:
        audit("hutch", verdict[0], name, verdict[1])
    if hasattr(item, "_request"):
        item._request = False
        item.funcargs = None


def make_loop(audit, protocol, phases, judging, install, getframe, collect):
    """The functions of a run hold on to each other by their arguments' defaults: names of modules can be replaced."""

    def loop(session, paths, secrets, audit=audit, protocol=protocol, install=install, getframe=getframe, phases=phases,
             judging=judging, collect=collect):
        install(secrets.pop(), secrets.pop(), getframe(0))
        for kind, texts in collect(session, paths):
            audit("hutch", kind, *texts)
        items = list(session.items)
        for item, following in zip(items, items[1:] + [None]):
            protocol(item, following, audit, phases, judging)
        audit("hutch", "Z")

    return loop


def collect(session, paths):
    """Fills session.items. Yields what cannot be collected."""
    failures = state.failures = []
    try:
        files = find_tests(paths)
        if files is None:
            session.perform_collect(paths)
        else:
            collect_files(session, files)
    except BaseException as error:
        yield "U", ("the tests cannot be collected: " + explain(error),)
    for name, message in failures:
        yield "B", (name,)
        yield "E", (name, message)


def find_tests(paths):
    """The files that are collected in a run that counts, where no package and no conftest.py has a say in that."""
    if not sources.pristine or any(p.endswith(("/__init__.py", "/conftest.py")) for p in sources.bytes):
        return None
    files = []
    for path in paths:
        if "::" in path:
            return None
        found = sorted(p for p in sources.bytes if p == path or p.startswith(path + "/") and sources.is_test(p))
        if not found:
            return None
        files += [p for p in found if p not in files]
    return files


def collect_files(session, files):
    """What perform_collect does, with files that are known: its search takes longer than all the rest."""
    import pathlib

    import pytest

    session._notfound, session._initial_parts, session.items = [], [], []
    session._initialpaths = frozenset()
    for file in files:
        session.items.extend(session.genitems(pytest.Module.from_parent(session, path=pathlib.Path(file))))
    session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=session.items)
    session.config.hook.pytest_collection_finish(session=session)
    session.testscollected = len(session.items)


class Reporter:
    """The plugin that hears of what cannot be collected."""

    @staticmethod
    def pytest_collectreport(report):
        if report.failed:
            text = report.longrepr
            state.failures.append((report.nodeid or "tests", str(getattr(text, "longrepr", text))[:MESSAGE_MAX]))


def options(ini, folder):
    off = [x for name in PLUGINS_OFF for x in ("-p", "no:" + name)]
    return [*off, "-s", "--assert=plain", "--noconftest", "--import-mode=append", "--basetemp=/tmp/.pytest", "-c",
            ini or "/dev/null", "--rootdir=" + folder, "--confcutdir=" + folder]


def configure(ini, folder):
    """pytest's configuration and an empty session."""
    import os

    from _pytest.config import _prepareconfig
    from _pytest.main import Session

    for name in [n for n in os.environ if n.startswith("PYTEST")]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    config = _prepareconfig(options(ini, folder) + [folder], [Reporter()])
    config.option.verbose = 0  # of the terminal's plugin, which others ask for
    config._do_configure()
    session = Session.from_config(config)
    config.hook.pytest_sessionstart(session=session)
    manager = config.pluginmanager
    manager._noconftest = False
    manager._getconftestmodules = conftests
    return config, session


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
    import pytest
    from _pytest import outcomes
    from _pytest.assertion.rewrite import rewrite_asserts
    from _pytest.skipping import xfailed_key
    from _pytest.assertion import util
    from importlib.machinery import ModuleSpec

    util._reprcompare, util._config = compare, config

    state.config, state.session = config, session
    state.rewrite, state.spec = rewrite_asserts, ModuleSpec
    state.skipped, state.unittest_skip = outcomes.skip.Exception, unittest.SkipTest
    state.collect_error = pytest.Collector.CollectError
    state.judging = (outcomes, xfailed_key)
    state.conftests = {}
    state.plugins = {id(p) for p in config.pluginmanager.get_plugins()}
    state.stdlib = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names)
    state.own = getattr(state, "own", [])


def find_folders(paths):
    """The folders that modules of these files are imported from."""
    folders = []
    for path in paths:
        folder = sources.name_of(path)[1]
        if folder not in folders and folder != ROOT:
            folders.append(folder)
    return folders


def read_sources(paths):
    for path in paths:
        try:
            with open(ROOT + "/" + path, "rb", buffering=0) as file:
                sources.bytes[ROOT + "/" + path] = file.read(SOURCE_MAX)
        except OSError:
            pass


def compile_ahead():
    for path, source in sources.bytes.items():
        try:
            sources.compile(path, source)
        except (SyntaxError, ValueError, RecursionError):
            pass  # it will be told when it is collected


def make_run():
    """Builds what a run consists of, and notes how everything is now."""
    judging = lambda item, phase, error, judge=judge, more=state.judging: judge(item, phase, error, *more)
    guards = [g for name in GUARDED if name in sys.modules for g in guard_module(sys.modules[name])]
    protected = {id(f) for g in guards if g.title != "builtins" for f in g.values}
    protected |= {id(f) for f in (protocol, attempt, judge, explain, compare, conftests, load_path, collect, judging)}
    codes = (protocol.__code__,)
    install_here = partial(install, codes=codes, protected=frozenset(protected), native=() if state.native else NATIVE,
                           guards=guards, check_hooks=make_check_hooks(state.config.pluginmanager, state.plugins))
    state.loop = make_loop(sys.audit, protocol, attempt, judging, install_here, sys._getframe, collect)


# Plugins that only serve those who ask for their fixtures, and otherwise take a third of the time of a test.
ON_DEMAND = {"capturemanager": b"cap", "logging-plugin": b"caplog"}


def put_aside():
    manager = state.config.pluginmanager
    state.aside = {name: manager.unregister(name=name) for name in ON_DEMAND if manager.has_plugin(name)}


def take_back(source):
    for name, word in ON_DEMAND.items():
        if name in state.aside and word in source:
            state.config.pluginmanager.register(state.aside.pop(name), name)


def fill_caches():
    """What lies in the folders of the search path is looked up once. Those of the workspace are looked at in each run."""
    import importlib.util

    importlib.util.find_spec("nothing_of_that_name")
    for folder in [f for f in sys.path_importer_cache if f.startswith(ROOT)]:
        del sys.path_importer_cache[folder]


def prepare(text):
    import gc
    import json

    global partial
    from functools import partial

    setup = json.loads(text)
    state.versions = find_versions()
    state.aside = {}
    folders = [ROOT + "/" + f if f not in ("", ".") else ROOT for f in setup["import"]]
    sanitize([])
    import ctypes, difflib, pprint, traceback, unittest.mock  # noqa: what is loaded anyway, sooner or later
    import pytest  # noqa
    import _pytest.python, _pytest.config, _pytest.assertion.rewrite  # noqa

    _pytest.python.import_path = load_path
    _pytest.config.import_path = load_path
    state.own = setup["own"]
    rehearse()
    state.aside = {}
    ini = setup.get("ini")
    config, session = configure(ROOT + "/" + ini if ini else None, ROOT)
    prepare_state(config, session)
    state.own = setup["own"]
    sources.patterns = tuple(config.getini("python_files"))
    state.paths = [ROOT + "/" + p if p not in ("", ".") else ROOT for p in setup["paths"]]
    state.native = setup["native"]
    read_sources(setup["sources"])
    sources.pristine = True
    test_folders = find_folders(sources.bytes)
    put_aside()
    compile_ahead()
    sources.pristine = False
    sources.bytes.clear()
    sources.folders = test_folders
    sanitize(test_folders + folders + [ROOT])
    sys.meta_path.insert(0, Finder)
    make_run()
    state.versions = None  # what is loaded in a run is compared as it is
    fill_caches()
    state.prctl = ctypes.CDLL(None).prctl
    state.natives = [n for n in sys.modules if n.partition(".")[0] in NATIVE]
    gc.collect()
    gc.freeze()


def close_off():
    """Nobody else in the box can look into this process from here on, or trace it. Then what could do so is put away."""
    try:
        state.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    except (TypeError, OSError):
        pass
    state.prctl = None
    for name in state.natives:
        sys.modules.pop(name, None)
    vars(sys.modules["__main__"]).pop("ctypes", None)


def run(text, fd):
    import fcntl
    import gc
    import json
    import os

    request = json.loads(text)
    os.chdir(ROOT)
    out = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64 + int.from_bytes(os.urandom(1), "big"))
    os.close(fd)
    sources.pristine = request["pristine"]
    read_sources(request["sources"])
    sources.names = {sources.name_of(path)[0]: path for path in sources.bytes}
    for folder in find_folders(sources.bytes):
        if folder not in sources.folders:
            sources.folders.append(folder)
            sys.path.insert(sys.path.index(ROOT), folder)
    if not state.native:
        close_off()
    gc.set_threshold(10000, 20, 50)
    leave, streams = os._exit, (sys.stdout, sys.stderr)
    secrets = [out, request["token"]]
    del text, request, fd, out
    state.loop(state.session, state.paths, secrets)
    for stream in streams:
        try:
            stream.flush()
        except BaseException:
            pass
    leave(0)


def cold():
    """In an interpreter of its own: stdout is where outcomes go. It is moved away before anything else is loaded."""
    import fcntl
    import os

    fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 32)
    os.dup2(2, 1)
    with open(0, "rb", closefd=False) as file:
        text = file.read().decode()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sanitize([])
    import json

    setup = json.loads(text)["setup"]
    prepare(setup)
    run(text, fd)


if __name__ == "__main__" and sys.argv[1:] == ["cold"]:
    cold()
