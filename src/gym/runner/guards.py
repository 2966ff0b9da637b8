# What must stay as it is.
#
# These functions become the hook's own (tell.py). While they run no code but theirs may run: whoever is called by them could
# climb to the hook's frame, and read there what nobody must know. So they look up no name of a module or of the builtins, call
# nothing but functions in C that they hold, and compare by identity alone: no __eq__, no __hash__, no __iter__ of anybody.


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


ANYTHING = object()  # in the place of a value that may change
FREE, CLOSED, NO_BUILTINS = range(3)  # which names may be added


def guard(owner, title, added, want=callable):
    """What there is in a module or a class, to be compared with later: (dict or class, keys, values, title, added)."""
    names = vars(owner)
    keys = tuple(k for k in list(names) if type(k) is str)
    values = tuple(names[k] if callable(names[k]) and want(names[k]) else ANYTHING for k in keys)
    return names if type(names) is dict else owner, keys, values, title, added


def guards_of(module):
    """A module that is loaded before: nothing may be added but modules, since a name could hide one of the builtins. Tests
    like to keep variables of their own in the module pytest, where nothing of pytest's looks for any."""
    name = module.__name__
    yield guard(module, name, {"builtins": FREE, "pytest": NO_BUILTINS}.get(name, CLOSED))
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name and name != "builtins":
            yield guard(value, name + "." + value.__qualname__, CLOSED)


def guards_of_test(module):
    """A module of the tests, which may well have variables."""
    name = module.__name__
    yield guard(module, name, NO_BUILTINS, lambda v: getattr(v, "__module__", None) == name)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name:
            yield guard(value, name + "." + value.__qualname__, FREE)


def make_look():
    """A function that says what of a guard is not as it was; None if everything is."""
    import builtins

    of_dict, of_view, view = dict.items, type(int.__dict__).items, type.__dict__["__dict__"].__get__
    is_type, plain, text, module_type, anything = type, dict, str, type(sys), ANYTHING
    builtin, closed, free = frozenset(vars(builtins)), CLOSED, FREE

    def is_bad(key, value, keys, added):
        for known in keys:
            if known is key:
                return False
        if is_type(key) is not text or added != closed:
            return is_type(key) is not text or key in builtin
        return is_type(value) is not module_type and key != "__warningregistry__"

    def look(owner, keys, values, title, added):
        names = of_dict(owner) if is_type(owner) is plain else of_view(view(owner))
        n, i, strays = keys.__len__(), 0, []
        for key, value in names:
            if i < n and key is keys[i]:
                if value is not values[i] and values[i] is not anything:
                    return title + "." + key
                i += 1
            elif added != free:
                strays.append((key, value))
        while i < n:  # out of order: taken away, and put back
            for key, value in names:
                if key is keys[i] and (value is values[i] or values[i] is anything):
                    break
            else:
                return title + "." + keys[i]
            i += 1
        for key, value in strays:
            if is_bad(key, value, keys, added):
                return title + (("." + key) if is_type(key) is text else "")
        return None

    return look


def make_check(guards, version):
    """A function that says what is not as it was, and one that has it look at more."""
    import gc

    look, others = make_look(), []
    if version:
        dicts = [g[0] if type(g[0]) is dict else next(d for d in gc.get_referents(g[0].__dict__) if type(d) is dict) for g in guards]
        versions = [version(d) for d in dicts]
        seen = [v.value for v in versions]
    else:
        versions, seen, others, guards = [], [], list(guards), []

    def check():
        now = [v.value for v in versions]
        if now != seen:
            i = 0
            for some in guards:
                if now[i] != seen[i]:
                    wrong = look(*some)
                    if wrong is not None:
                        return wrong
                    seen[i] = now[i]
                i += 1
        for some in others:
            wrong = look(*some)
            if wrong is not None:
                return wrong
        return None

    is_type, group, text, plain, int_type = type, tuple, str, dict, int

    def add(some):
        """Takes a guard only if it is one: nothing in it can answer by code of its own. Gives what must not be changed."""
        if is_type(some) is not group or some.__len__() != 5 or is_type(some[3]) is not text or is_type(some[4]) is not int_type:
            return ()
        owner, keys, values = some[0], some[1], some[2]
        if is_type(owner) is not plain and is_type(owner) is not is_type:
            return ()
        if is_type(keys) is group and is_type(values) is group and keys.__len__() == values.__len__():
            for key in keys:
                if is_type(key) is not text:
                    return ()
            others.append(some)
            return values
        return ()

    return check, add


def make_check_hooks(manager):
    """The same for plugins that have a say in how tests are run: those that were there, and conftest.py of the task."""
    from pluggy import _hooks

    calls = [c for n, c in vars(manager.hook).items() if n.startswith(("pytest_runtest_", "pytest_pyfunc_call",
                                                                      "pytest_fixture_", "pytest_pycollect_"))]
    parts = [n for n in ("_hookimpls", "_nonwrappers", "_wrappers") if hasattr(calls[0], n)]
    known = [(c, part, list(getattr(c, part))) for c in calls for part in parts]
    kept, get, is_type, several, kind = [], getattr, type, list, _hooks.HookImpl

    def check():
        for call, part, impls in known:
            now = get(call, part)
            if is_type(now) is not several or now.__len__() != impls.__len__():
                return "a plugin that has a say in the tests"
            i = 0
            for impl in now:
                if impl is not impls[i]:
                    return "a plugin that has a say in the tests"
                i += 1
        return None

    def renew(modules):
        """After collection: what was added must be a module that was loaded as a conftest.py."""
        for call, part, impls in known:
            now = get(call, part)
            if is_type(now) is not several:
                return "a plugin that has a say in the tests"
            for impl in now:
                good = False
                for old in impls:
                    good = good or old is impl
                if not good and is_type(impl) is kind:
                    for module in modules:
                        good = good or impl.plugin is module
                if not good:
                    return "a plugin that has a say in the tests"
            kept.append((call, part, now.copy()))
        known.clear()
        known.extend(kept)
        return None

    return check, renew
