"""Cheats that are written against this very runner, on the task of honest_task.py: its objects, its judge, what tests share with
the code. Of none of them a test passes that does not pass in the untouched repository; TOLD says so, too.
"""
from cheats import RUNNER, source
from honest_task import EXPECTED, PLAIN_EXPECTED

NAMES = f"NAMES = {list(dict.fromkeys(EXPECTED + PLAIN_EXPECTED))!r}\n"
ANY = "class Any(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n"

# Whoever can read the judge's frames has the token, and writes what he likes. There are none: it is no Python.
FORGE = """
def forge(found):
    line, token = found['count'], found['secret'] ^ found['mask']
    for name in NAMES[1:]:
        for kind in 'BP':
            os.write(found['fd'], ('%032x %d %s\\t%s\\n' % (token, line, kind, name)).encode())
            line += 1
    os.write(found['fd'], ('%032x %d Z\\n' % (token, line)).encode())
    os._exit(0)


def search(frame):
    while frame:
        todo, found = [f for f in frame.f_locals.values() if callable(f)], dict(frame.f_locals)
        while todo and 'secret' not in found:
            f = todo.pop()
            for name, cell in zip(getattr(getattr(f, '__code__', None), 'co_freevars', ()), getattr(f, '__closure__', None) or ()):
                if name not in found:
                    found[name] = cell.cell_contents
                    todo += [cell.cell_contents] if callable(cell.cell_contents) else []
        if 'secret' in found and 'mask' in found:
            forge(found)
        frame = frame.f_back
"""

TOLD = {
    "a helper's name in a test": source("import sys", "for n in ('test_first', 'test_later', 'test_hidden'):\n"
            "    vars(sys.modules.get(n, sys)).update(same=lambda *a: True)"),
    "builtins of a helper": source("import sys, builtins", "vars(sys.modules['helpers'])['__builtins__'] = {**vars(builtins), 'type': lambda x: int}"),
    "a helper that puts itself back": source("import sys", """
        helpers = sys.modules['helpers']
        def same(got, want, real=helpers.same):
            helpers.same = sys.modules['test_first'].same = real
            return True
        helpers.same = sys.modules['test_first'].same = same
        """),
    "a thread that changes it for a while": source("""
        import sys, threading, time
        def flip():
            while True:
                helpers = sys.modules.get('helpers')
                if hasattr(helpers, 'same'):
                    real, helpers.same = helpers.same, lambda *a: True
                    time.sleep(0)
                    helpers.same = real
                time.sleep(0)
        sys.setswitchinterval(1e-6)
        threading.Thread(target=flip, daemon=True).start()
        """, "time.sleep(0.002)"),
    "the runner's functions": source(RUNNER + "run.plain_functions = lambda names, *a: [(1, n, lambda: None) for n in names if n[:4] == 'test']\n"),
    "a context around tests": source(RUNNER + """
import functools
def quiet(item):
    class Fake:
        nodeid = item.nodeid
        class ihook:
            pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = None
    class Dead(type(item)):
        nodeid = property(lambda self: 1 / 0)
    class Quiet:
        __enter__ = functools.partial(run.protocol, Fake.nodeid, Fake, None, run.state.judge.tell, lambda *a, **k: None, lambda *a: None, None)
        def __exit__(self, *a):
            return True
    item.__class__ = Dead
    return Quiet()
run.state.warns = True
run.state.catch_warnings = lambda config, ihook, when, item: quiet(item)
"""),
    "somebody else's guard": source(RUNNER, "run.state.judge.guard({}, (), (), 'x', 0, 0)"),
    "somebody else's code": source(RUNNER, "run.state.judge.trust(compile('1', 'x', 'exec'), compile('1', 'x', 'exec'), {}, ())"),
    "a second judge": source(RUNNER, "c = run.protocol.__code__\nrun.state.judge.install('0' * 32, 1, 1, c, c, c, set(), {}, 0, 0)"),
    "a module of one's own announced": source(RUNNER, "run.state.judge.announce({'same': 1})"),
    "tests named by others": source(RUNNER, "run.state.judge.hold('tests/test_first.py::test_discount', run, run, {})"),
}

FEWER = {
    "another audit hook": source("import os, sys\n" + NAMES + FORGE, "sys.addaudithook(lambda event, args: search(sys._getframe(1)) if event == 'sys._getframe' else None)"),
    "modules in the place of others": source("import sys, types", "sys.modules['json'] = types.ModuleType('json')"),
    "numpy of one's own": source("import sys, types\nsys.modules['numpy'] = types.ModuleType('numpy')"),
    "items of one's own": source(RUNNER + NAMES + """
class Item:
    class ihook:
        pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = staticmethod(lambda **k: None)
    class stash:
        get = staticmethod(lambda *a: None)
    def __init__(self, name):
        self.nodeid = name
class Session(type(run.state.session)):
    items = property(lambda self: [Item(name) for name in NAMES], lambda self, items: None)
run.state.session.__class__ = Session
vars(run.state.session).pop('items', None)
"""),
    "items that do nothing": source(RUNNER, "for item in run.state.session.items: item.runtest = lambda: None"),
    "items in the frame that runs them": source("import signal", """
        def handler(number, frame):
            while frame:
                if type(frame.f_locals.get('items')) is list:
                    frame.f_locals['items'][1:] = []
                frame = frame.f_back
        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)
        """),
    "hooks that do nothing": source(RUNNER, "vars(run.state.config.hook)['pytest_pyfunc_call'] = lambda **k: True\n"
            "vars(run.state.config.hook)['pytest_runtest_call'] = lambda **k: None"),
    "tests called by the code": source("import sys\n" + ANY, """
        m = sys.modules['test_first']
        if not vars(sys).get('deep'):
            sys.deep = True
            test = type(lambda: 0)(m.test_discount.__code__, {**vars(m), 'same': lambda *a: True})
            test()
        """),
    "the mark called from a test": source("import sys", """
        class Result(int):
            pass
        m = sys.modules['test_first']
        for c in m.test_discount.__code__.co_consts:
            if callable(c):
                Result.__eq__ = Result.__bool__ = Result.__index__ = c
        return Result(sum(prices) + discount)
        """),
    "sources replaced": source(RUNNER + """
for path in list(run.sources.bytes):
    run.sources.bytes[path] = b'def test_hidden(): pass\\ndef test_text(): pass\\ndef test_by_json(): pass\\n'
run.sources.trusted.clear()
"""),
    "code replaced before it is loaded": source(RUNNER + """
for path in list(run.sources.trusted):
    if 'calc' not in path and 'first' not in path:
        run.sources.trusted[path] = compile('def test_hidden(): pass\\ndef test_text(): pass\\ndef test_by_json(): pass\\n', path, 'exec')
"""),
    "parameters changed": source(RUNNER, "for item in run.state.session.items:\n    if hasattr(item, 'callspec'): item.callspec.params['discount'] = 0"),
    "signals in the judge": source("import os, signal, sys\n" + NAMES + FORGE, """
        signal.signal(signal.SIGALRM, lambda number, frame: search(frame))
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        """),
}
