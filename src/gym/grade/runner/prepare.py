# What is done once, and what is done for each run.


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


def make_run(text):
    """Builds what a run consists of, and has the judge note how everything is now."""
    judging = lambda item, phase, error, judge=judge, more=state.judging: judge(item, phase, error, *more)
    set_guards(text)
    state.loop = make_loop(judging, state.judge)


def make_judge():
    import opcode

    state.judge = load_judge()
    op = opcode.opmap
    call = op.get("CALL") or op["CALL_FUNCTION"]
    state.judge.opcodes(op["LOAD_CONST"], op["EXTENDED_ARG"], call, op["STORE_GLOBAL"], op["DELETE_GLOBAL"], op["STORE_ATTR"],
                        op["DELETE_ATTR"], op["STORE_DEREF"])


# Plugins that only serve those who ask for their fixtures, and otherwise take a third of the time of a test.
ON_DEMAND = {"capturemanager": b"cap", "logging-plugin": b"caplog"}


def put_aside():
    manager = state.config.pluginmanager
    state.aside = {name: manager.unregister(name=name) for name in ON_DEMAND if manager.has_plugin(name)}


def take_back(source):
    state.warns = state.warns or b"filterwarnings" in source
    for name, word in ON_DEMAND.items():
        if name in state.aside and word in source:
            state.config.pluginmanager.register(state.aside.pop(name), name)


def fill_caches():
    """What lies in the folders of the search path is looked up once. Those of the workspace are looked at in each run."""
    import importlib.util

    importlib.util.find_spec("nothing_of_that_name")
    for folder in [f for f in sys.path_importer_cache if f.startswith(ROOT)]:
        del sys.path_importer_cache[folder]


def spare_unittest():
    """A module of tests that has imported TestCase makes pytest collect that class as well, and some versions then put
    attributes on it. Nothing is in it to be run, and classes that tests are judged by stay as they are."""
    import unittest

    from _pytest.unittest import UnitTestCase

    own = (unittest.TestCase, unittest.FunctionTestCase, unittest.IsolatedAsyncioTestCase)
    inject = getattr(UnitTestCase, "_inject_setup_teardown_fixtures", None)
    if inject is None:
        return

    def spare(self, cls):
        if not any(cls is c for c in own):
            inject(self, cls)

    UnitTestCase._inject_setup_teardown_fixtures = spare


def prepare(text):
    import gc
    import importlib.machinery
    import json

    setup = json.loads(text)
    state.aside, state.warns, state.refusal = {}, False, None
    folders = [ROOT + "/" + f if f not in ("", ".") else ROOT for f in setup["import"]]
    sanitize([])
    import difflib, logging, pprint, traceback, unittest.mock  # noqa: what is loaded anyway, sooner or later
    import pytest  # noqa
    import _pytest.python, _pytest.config, _pytest.doctest, _pytest.assertion.rewrite  # noqa

    spare_unittest()
    _pytest.python.import_path = load_path
    _pytest.config.import_path = load_path
    _pytest.doctest.import_path = load_path
    state.own = setup["own"]
    make_judge()
    rehearse()
    state.aside = {}
    ini = None
    try:
        ini = find_ini([ROOT + "/" + name for name in setup["inis"]])
        config, session = configure(ini, ROOT)
    except Exception as error:
        state.refusal = explain_settings(error, ini)
        return
    prepare_state(config, session)
    state.own = setup["own"]
    sources.patterns = tuple(config.getini("python_files"))
    state.optioned = bool(config.getini("addopts"))
    state.simple = set(config.inicfg) <= {"pythonpath", "testpaths", "minversion", "norecursedirs"}
    state.ini_warns = bool(config.getini("filterwarnings"))
    state.paths = [ROOT + "/" + p if p not in ("", ".") else ROOT for p in setup["paths"]]
    state.packages, state.code, state.find = frozenset(setup["packages"]), folders, importlib.machinery.PathFinder.find_spec
    read_sources(setup["sources"])
    sources.pristine = True
    test_folders = find_folders(sources.bytes)
    sources.names = {sources.name_of(path)[0]: path for path in sources.bytes}
    state.known = set(sources.bytes)
    load_imports()
    text = b"".join(sources.bytes.values())
    put_aside()
    sources.compile_all()
    sources.codes = {(path, sources.bytes[path]): code for path, code in sources.trusted.items()}
    sources.pristine = False
    sources.bytes, sources.trusted = {}, {}
    sources.folders = test_folders
    sanitize(test_folders + folders + [ROOT])
    sys.meta_path.insert(0, Finder)
    make_run(text)
    fill_caches()
    gc.collect()
    gc.freeze()


def put_away(hidden):
    """Nobody needs the text of the tests any more, so nobody can read in it what is wanted; and nothing that the agent left at
    home is found by what the tests start."""
    import os

    sources.bytes = dict.fromkeys(sources.bytes, b"")
    for path in hidden:
        if sources.is_test(path):  # pytest may look for the file
            os.unlink(path)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    home = "/tmp/.home-" + os.urandom(8).hex()
    with contextlib.suppress(OSError):
        os.mkdir(home, 0o700)
        os.environ["HOME"] = home


def refuse(why, token, fd, pristine):
    """The outcome of a run that cannot be: pytest does not accept the project's settings."""
    code = refuse.__code__
    state.judge.install(token, fd, pristine, code, code, code)
    state.judge.tell("U", why)
    state.judge.tell("Z")


def run(text, fd):
    import fcntl
    import gc
    import json
    import os

    request = json.loads(text)
    os.chdir(ROOT)
    out = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64 + int.from_bytes(os.urandom(1), "big"))
    os.close(fd)
    if state.refusal:
        refuse(state.refusal, request["token"], out, request["pristine"])
        return
    sources.pristine = request["pristine"]
    read_sources(request["sources"])
    if sources.bytes.keys() != state.known:  # hidden tests
        sources.names = {sources.name_of(path)[0]: path for path in sources.bytes}
        for folder in find_folders(sources.bytes):
            if folder not in sources.folders:
                sources.folders.append(folder)
                sys.path.insert(sys.path.index(ROOT), folder)
    if sources.pristine:
        sources.compile_all()
        put_away(sources.bytes.keys() - state.known)
        state.judge.files(tuple(ROOT + "/" + p for p in request["data"]))
    gc.set_threshold(10000, 20, 50)
    leave, streams = os._exit, (sys.stdout, sys.stderr)
    secrets = [(Sources.execute.__code__,), (request["token"], out, sources.pristine)]
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
    for name in ("PYTHONSAFEPATH", "PYTHONPATH", "PYTHONSTARTUP"):  # were for this interpreter, not for what tests start
        os.environ.pop(name, None)
    import json

    setup = json.loads(text)["setup"]
    prepare(setup)
    run(text, fd)


if __name__ == "__main__" and sys.argv[1:] == ["cold"]:
    cold()
