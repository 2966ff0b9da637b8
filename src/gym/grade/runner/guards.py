# What must stay as it is: the judge is told, and looks whenever a test has passed.

# Which names may be added: any; modules; any but those of builtins; any but special ones (enum added of the judge).
FREE, CLOSED, NO_BUILTINS, NO_SPECIAL = 0, 1, 2, 5


def dict_of(owner):
    """The dict itself that a class has behind its view."""
    import gc

    names = vars(owner)
    return names if type(names) is dict else next(d for d in gc.get_referents(names) if type(d) is dict)


def guard(names, title, added, strict):
    """All that can be called in there, and all modules. `strict`: nobody changes it, not even for a while."""
    keys = tuple(k for k in list(names) if type(k) is str)
    values = tuple(names[k] if callable(names[k]) or type(names[k]) is type(sys) else None for k in keys)
    state.judge.guard(names, keys, values, title, added, strict)


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


def guard_module(module):
    """A module that is loaded before, and its classes. Nothing may be added but modules, since a name could hide one of the
    builtins. Tests like to keep variables of their own in the module pytest, where nothing of pytest's looks for any; and code
    may extend unittest, and set what it is meant to set there (TestCase.maxDiff)."""
    name = module.__name__
    extended = name.partition(".")[0] == "unittest"
    late = extended or name == "pytest" or "__getattr__" in vars(module)  # names come when they are asked for
    strict = is_still(module) and not late
    vars(module).setdefault("__warningregistry__", {})
    guard(vars(module), name, NO_BUILTINS if late else CLOSED, strict)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name and value.__flags__ & 1 << 9:  # made by Python code
            added = NO_SPECIAL if extended and value.__bases__ == (object,) else CLOSED
            guard(dict_of(value), name + "." + value.__qualname__, added, strict)


def guard_builtins():
    """Types and exceptions only: solutions replace functions such as open, print and __import__."""
    import builtins

    types = [(k, v) for k, v in vars(builtins).items() if isinstance(v, type)]
    state.judge.guard(vars(builtins), *map(tuple, zip(*types)), "builtins", FREE, False)
    state.judge.builtins(frozenset(vars(builtins)))


def load_imports():
    """The modules of the standard library that tests import, loaded now: each run then finds them loaded."""
    import ast
    import importlib

    names = set()
    for source in sources.bytes.values():
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


# Modules that do something when they are loaded.
AVOIDED = frozenset(("antigravity", "this", "ctypes", "idlelib", "turtle", "tkinter", "readline", "rlcompleter", "multiprocessing"))
# What is behind fixtures of pytest's that tests ask for by name.
ON_FIXTURES = {"_pytest.capture": b"cap", "_pytest.logging": b"caplog", "_pytest.monkeypatch": b"monkeypatch", "_pytest.tmpdir": b"tmp"}


def set_guards(text):
    """Tells the judge of everything."""
    names = [n for n in GUARDED if n in sys.modules] + [n for n, word in ON_FIXTURES.items() if n in sys.modules and word in text]
    for name in names:
        guard_module(sys.modules[name])
    pinned = [(k, m) for k, m in list(sys.modules.items()) if k in names]
    state.judge.guard(sys.modules, tuple(k for k, _ in pinned), tuple(m for _, m in pinned), "sys.modules", FREE, False)
    guard_builtins()
    guard_runner()


def guard_runner():
    """What is here. Of these objects some parts change with each run."""
    for title, owner in (("the runner", sys.modules[__name__]), ("the runner's state", state), ("the runner's sources", sources)):
        guard(vars(owner), title, FREE, False)
    for owner in (Sources, Loader, Finder):
        guard(dict_of(owner), "the runner's " + owner.__name__, CLOSED, True)
