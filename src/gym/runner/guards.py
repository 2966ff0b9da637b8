# What must stay as it is: the judge is told, and looks whenever a test has passed.

FREE, CLOSED, NO_BUILTINS = range(3)  # which names may be added: any; modules; any but those of builtins


def dict_of(owner):
    """The dict itself that a class has behind its view."""
    import gc

    names = vars(owner)
    return names if type(names) is dict else next(d for d in gc.get_referents(names) if type(d) is dict)


def guard(names, title, added, strict, core=True):
    """All that can be called in there, and all modules. `strict`: nobody changes it, not even for a while. What is not `core`
    may be changed by the tests themselves."""
    keys = tuple(k for k in list(names) if type(k) is str)
    values = tuple(names[k] if callable(names[k]) or type(names[k]) is type(sys) else None for k in keys)
    state.judge.guard(names, keys, values, title, added, strict, core)


def is_still(module):
    """Whether no function of a module sets its global names."""
    import opcode

    owners = [module, *(v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__)]
    todo = [v.__code__ for owner in owners for v in list(vars(owner).values()) if type(v) is type(is_still)]
    setting = {opcode.opmap["STORE_GLOBAL"], opcode.opmap["DELETE_GLOBAL"]}
    for code in todo:
        if setting.intersection(code.co_code[::2]):
            return False
        todo += [c for c in code.co_consts if type(c) is type(code)]
    return True


def is_tool_of(module, value):
    """An object of a class of the same library, such as the decoder that json.loads uses."""
    root = module.__name__.partition(".")[0]
    return type(value).__module__.partition(".")[0] == root and type(getattr(value, "__dict__", None)) is dict and not callable(value)


def guard_module(module, core):
    """A module that is loaded before, its classes, and the objects that its functions work with. Nothing may be added but
    modules, since a name could hide one of the builtins. Tests like to keep variables of their own in the module pytest,
    where nothing of pytest's looks for any."""
    name = module.__name__
    late = name == "pytest" or "__getattr__" in vars(module)  # names come when they are asked for
    strict = (core or name in STILL) and is_still(module) and not late and (name != "builtins" or not state.builtins)
    vars(module).setdefault("__warningregistry__", {})
    guard(vars(module), name, FREE if name == "builtins" else NO_BUILTINS if late else CLOSED, strict, core)
    for title, value in list(vars(module).items()):
        if isinstance(value, type):
            if value.__module__ == name and name != "builtins" and value.__flags__ & 1 << 9:  # made by Python code
                guard(dict_of(value), name + "." + value.__qualname__, CLOSED, strict and core, core)
        elif type(value) is dict and name != "builtins" and not title.startswith("__"):  # tables of functions
            table = [(k, v) for k, v in list(value.items()) if callable(v)]
            if table and len(table) == len(value):
                state.judge.guard(value, *map(tuple, zip(*table)), name + "." + title, FREE, False, core)
        elif is_tool_of(module, value):
            guard(vars(value), name + "." + title, CLOSED, False, core)


def find_imports():
    """The modules of the standard library that tests import, loaded now."""
    import ast
    import importlib

    names = set()
    for path, source in sources.bytes.items():
        try:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names.add(node.module)
        except (SyntaxError, ValueError, RecursionError):
            pass
    for name in sorted(names):
        if name.partition(".")[0] in state.stdlib - AVOIDED:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    found = {n for n in names if n in sys.modules and n.partition(".")[0] in state.stdlib}
    for name in list(found):  # and what these work with
        found |= {v.__name__ for v in list(vars(sys.modules[name]).values()) if type(v) is type(sys)}
    return sorted(n for n in found - UNGUARDED if type(sys.modules.get(n)) is type(sys))


# Modules that do something when they are loaded; and those that are others' business, or change by themselves.
AVOIDED = frozenset(("antigravity", "this", "ctypes", "idlelib", "turtle", "tkinter", "readline", "rlcompleter", "multiprocessing"))
UNGUARDED = frozenset(("__main__", "__future__", "sys"))
# Modules that have no names of theirs changed by anything, ever.
STILL = frozenset(("bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "json",
                   "json.decoder", "json.encoder", "math", "operator", "re", "statistics", "string", "textwrap"))


# What is behind fixtures of pytest's that tests ask for by name.
ON_FIXTURES = {"_pytest.capture": b"cap", "_pytest.logging": b"caplog", "_pytest.monkeypatch": b"monkeypatch", "_pytest.tmpdir": b"tmp"}


def set_guards(imported, text):
    """Tells the judge of everything."""
    import builtins
    import re

    judge = state.judge
    names = [n for n in GUARDED if n in sys.modules] + [n for n, word in ON_FIXTURES.items() if n in sys.modules and word in text]
    for name in names:
        guard_module(sys.modules[name], name not in ("operator", "math", "re") and not name.startswith("json"))
    for name in imported:
        if name not in names:
            guard_module(sys.modules[name], False)
    pinned = [(k, m) for k, m in list(sys.modules.items()) if k in names or k in imported]
    judge.guard(sys.modules, tuple(k for k, _ in pinned), tuple(m for _, m in pinned), "sys.modules", FREE, False, True)
    judge.builtins(frozenset(vars(builtins)))
    judge.patterns(re._cache, re.Pattern)
    guard_runner()


def guard_runner():
    """What is here. Of these objects some parts change with each run."""
    for title, owner in (("the runner", sys.modules[__name__]), ("the runner's state", state), ("the runner's sources", sources)):
        guard(vars(owner), title, FREE, False)
    for owner in (Sources, Loader, Finder):
        guard(dict_of(owner), "the runner's " + owner.__name__, CLOSED, True)


def watch_frames():
    """The functions that hand out frames to whoever calls them."""
    import inspect
    import logging
    import traceback

    for function in (inspect.currentframe, inspect.stack, inspect.trace, logging.currentframe, traceback.walk_stack, traceback.walk_tb):
        code = getattr(function, "__code__", None)
        if code is not None:
            state.judge.relay(code)
