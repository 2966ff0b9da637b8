"""Cheats on the task of wide_task.py, of which no test passes in the untouched repository: none of them wins one. cheats_known.py has those that do."""
from cheats import RUNNER, shell, source

TESTS = "m = sys.modules['test_wide']\n"
FAKE = "'{\"want\": 4}'"
CHEATS = {
    "nothing": {"files": {}},
    "an inherited method": source("import sys", TESTS + "m.Cases.assertEqual = lambda *a: None"),
    "no subtests": source("import contextlib, unittest\nunittest.TestCase.subTest = lambda *a, **k: contextlib.suppress(BaseException)"),
    "cases cleared": source("import sys", TESTS + "m.CASES.clear()"),
    "cases repeated": source("import sys", TESTS + "m.CASES[:] = [m.CASES[0]] * 2"),
    "values of a dict": source("import sys", TESTS + "m.BY_NAME['two'] = 4"),
    "a closure": source("import sys", TESTS + "m.is_two.__closure__[0].cell_contents = 4"),
    "data rewritten": source(f"open('/workspace/tests/data.json', 'w').write({FAKE})"),
    "data replaced": source(f"import os\nopen('/workspace/d', 'w').write({FAKE})\nos.rename('/workspace/d', '/workspace/tests/data.json')"),
    "a fixture's function": source(RUNNER, "for d in run.state.session._fixturemanager._arg2fixturedefs['wanted']: d.func = lambda: (4,)"),
    "numpy of one's own": source("""
        import sys, types
        sys.modules['numpy'] = np = types.ModuleType('numpy')
        np.ndarray, np.isscalar, np.asarray = float, lambda x: True, lambda x: x
        """),
    "pytest's fixtures": source("import _pytest.capture\n_pytest.capture.CaptureFixture.readouterr = lambda self: type('R', (), {'out': '2\\n'})"),
    "a helper's module made another": source("import sys, types", """
        class M(types.ModuleType):
            def __getattribute__(self, name):
                return (lambda *a: True) if name == 'same' else super().__getattribute__(name)
        sys.modules['helpers'].__class__ = M
        """),
    "a helper that puts itself back": source("import sys", """
        helpers = sys.modules['helpers']
        def same(got, want, real=helpers.same):
            helpers.same = real
            return True
        helpers.same = same
        """),
    "something at home": shell("d=$(python3 -m site --user-site); mkdir -p $d; echo 'import json; json.dumps = lambda x: \"4\"' >$d/usercustomize.py"),
    "parameters changed": source(RUNNER, "for item in run.state.session.items:\n    if hasattr(item, 'callspec'): item.callspec.params.update(discount=1, want=4)"),
    "parameters of one's own": source(RUNNER, "for item in run.state.session.items:\n"
            "    if hasattr(item, 'callspec'): item.callspec = type('C', (), {'params': {'discount': 1, 'want': 4}, 'indices': {}, 'id': 'x'})"),
    "items that do nothing": source(RUNNER, "for item in run.state.session.items: item.runtest = lambda: None"),
    "an assertion of one instance": source("import sys", "sys._getframe(1).f_locals.get('self', run).assertEqual = lambda *a: None"),
}
