# A run: collecting, one test after the other.


def judge(item, phase, error, outcomes, xfailed_key):
    """The outcome of a phase: a letter and a message, None if it went well."""
    if error is None:
        raised = getattr(item, "_excinfo", None)  # of a unittest.TestCase
        if raised:
            error = raised.pop(0).value
    xfailed = None if item.config.getoption("runxfail", False) else item.stash.get(xfailed_key, None)
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


def protocol(name, item, following, tell, phases, judging, quiet):
    """One test: set up, called, torn down; then its outcome."""
    tell("B", name)
    with quiet(item):
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
        tell("P", name)
    else:
        tell(verdict[0], name, verdict[1])
    if hasattr(item, "_request"):
        item._request = False
        item.funcargs = None


def plain_protocol(name, function, tell, attempt, outcomes, explain):
    """A test that is nothing but a function."""
    tell("B", name)
    error = attempt(function)
    if error is None:
        tell("P", name)
    elif isinstance(error, (outcomes.skip.Exception, outcomes.xfail.Exception)):
        tell("S", name, str(error))
    else:
        tell("F", name, explain(error))


def warnings_of(item):
    """What the task says about warnings; if it says nothing, filters that the code under test sets end with the test."""
    if not state.warns and not state.ini_warns:
        return state.keep_filters()
    return state.catch_warnings(config=item.config, ihook=item.ihook, when="runtest", item=item)


def named(items):
    """(name, item, its parameters if it has any) of all items, as they are now."""
    found = []
    for item in items:
        spec = getattr(item, "callspec", None)
        found.append((str(item.nodeid), item, spec if type(getattr(spec, "params", None)) is dict else None))
    return tuple(found)


def definitions(session):
    """(definition, function) of all fixtures."""
    found = []
    with contextlib.suppress(Exception):
        for several in list(session._fixturemanager._arg2fixturedefs.values()):
            found += [(one, one.func) for one in several]
    return tuple(found)


def make_loop(judging, judge):
    """The functions of a run hold on to each other by their arguments' defaults: names of modules can be replaced."""

    def loop(session, paths, secrets, tell=judge.tell, hold=judge.hold, install=judge.install, protocol=protocol, attempt=attempt,
             judging=judging, collect=collect, quiet=warnings_of, plain=plain_protocol, more=(state.judging[0], explain), named=named,
             definitions=definitions, fixture=judge.fixture, keep_filters=state.keep_filters):
        install(*secrets.pop(), protocol.__code__, plain.__code__, *secrets.pop())
        with keep_filters():
            told, functions, items = collect(session, paths)
        for kind, texts in told:
            tell(kind, *texts)
        functions, items = tuple(functions), named(items)
        for name, item, spec in items:
            if spec is not None:
                hold(name, item, spec, spec.params)
        for pair in definitions(session) if items else ():
            fixture(*pair)
        tell("C")
        for name, function in functions:
            with keep_filters():
                plain(name, function, tell, attempt, *more)
        for i, (name, item, _) in enumerate(items):
            protocol(name, item, items[i + 1][1] if i + 1 < len(items) else None, tell, attempt, judging, quiet)
        tell("Z")

    return loop


def collect(session, paths):
    """What cannot be collected, as it is told; tests that are plain functions; or items of pytest's."""
    failures = state.failures = []
    functions, items, told = [], [], []
    try:
        files = None if state.optioned else find_tests(paths)  # addopts may leave files out, or name other kinds of them
        simple = files and state.simple and find_functions(files)
        if simple:
            functions, failures = simple
        else:
            collect_files(session, files) if files else session.perform_collect(paths)
            items = list(session.items)
    except BaseException as error:
        told.append(("U", ("the tests cannot be collected: " + explain(error),)))
    for name, message in failures:
        told += [("B", (name,)), ("E", (name, message))]
    return told, functions, items


def find_functions(files):
    """(name, function) of all tests, and what could not be loaded, if they all are functions that need nothing: pytest would
    do no more than call them. None if there is anything that it has rules for. Most of the time of a run goes into copying
    memory that it touches; so what can be done without pytest is."""
    functions, failures = [], []
    for file in files:
        shown = file[len(ROOT) + 1:]
        try:
            found = plain_functions(vars(load_path(file)))
        except state.collect_error as error:
            failures.append((shown, str(error)[:MESSAGE_MAX]))
            continue
        except state.skipped:
            return None
        if found is None:
            return None
        functions += [(f"{shown}::{name}", function) for _, name, function in found]
    return functions, failures


# Beginnings of names that pytest has rules for: classes of tests, hooks and marks, xunit's functions, __test__.
RULED = frozenset(("Test", "setu", "setU", "tear", "__te"))


def plain_functions(names, kind=type(sanitize)):
    """[(line, name, function)] in the order of their lines."""
    found = []
    for name, value in names.items():
        if name[:4] == "test":
            if type(value) is not kind or value.__module__ != names["__name__"] or vars(value):
                return None
            code = value.__code__
            if code.co_argcount or code.co_kwonlyargcount or code.co_flags & 0x2AC:  # arguments, or no plain function
                return None
            found.append((code.co_firstlineno, name, value))
        elif name[:4] in RULED or name[:6] == "pytest" and name != "pytest" or isinstance(value, type) and issubclass(value, state.testcase):
            return None
        elif hasattr(value, "_pytestfixturefunction") or type(value).__name__ == "FixtureFunctionDefinition":
            return None
    return sorted(found)


def find_tests(paths):
    """The files that are collected, where no package and no conftest.py has a say in that: those of the task in a run that
    counts, else what lies there now."""
    if not sources.pristine:
        return find_lying(paths)
    if any(p.endswith(("/__init__.py", "/conftest.py")) for p in sources.bytes):
        return None
    files = []
    for path in paths:
        if "::" in path:
            return None
        found = sorted((p for p in sources.bytes if p == path or p.startswith(path + "/") and sources.is_test(p)), key=order)
        if not found:
            return None
        files += [p for p in found if p not in files]
    return files


def find_lying(paths):
    """The same for folders that hold nothing but files: pytest walks any other."""
    import os

    files = []
    for path in paths:
        above = [path[:i] for i, c in enumerate(path + "/") if c == "/" and i >= len(ROOT)]
        if "::" in path or any(os.path.lexists(f"{f}/{name}") for f in above for name in ("conftest.py", "__init__.py")):
            return None
        try:
            entries = sorted(os.scandir(path), key=lambda e: e.name)
        except OSError:
            return None
        if not all(e.is_file(follow_symlinks=False) or e.name == "__pycache__" for e in entries):
            return None
        files += [e.path for e in entries if sources.is_test(e.path) and e.path not in files]
    return files or None


def order(path):
    """As pytest walks: the files of a folder, then what is in its folders."""
    *folders, name = path.split("/")
    return [(1, f) for f in folders] + [(0, name)]


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
