# What must stay as it is.


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
