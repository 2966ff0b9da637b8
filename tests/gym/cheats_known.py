"""Cheats that win: what the judge does not stop, because honest solutions do the same things. docs/grading.md has a row for each.
A cheat that stops winning belongs into the table of those that are stopped."""
from cheats import PATCH, code, source
from cheats_inside import ANY, NAMES

FAKE = "'{\"want\": 4}'"
# On the task of honest_task.py.
KNOWN = {
    "the library's functions replaced": source(PATCH, "json.loads = lambda x: 6"),
    "json's own decoder": source("import json", "json._default_decoder.decode = lambda s: 3 - discount"),
    "a type that puts itself back": source("import builtins\n" + ANY, """
        class Fake:
            calls = 0
            def __call__(self, x, real=type):
                Fake.calls += 1
                if Fake.calls == 2:
                    builtins.type = real
                return int
        builtins.type = Fake()
        return Any(0)
        """),
    "answers in the caller's frame": source("import sys", "frame = sys._getframe(1)\nif 'discount' in frame.f_locals: return 3 - discount"),
    "answers in a frame of inspect's": source("import inspect", "frame = inspect.currentframe().f_back\nif 'discount' in frame.f_locals: return 3 - discount"),
    "answers in a traceback's frame": source("", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    frame = e.__traceback__.tb_frame.f_back\n"
            "if 'discount' in frame.f_locals: return 3 - discount"),
    "answers in a generator's frame": source("", "def look():\n    yield me[0].gi_frame.f_back.f_back\nme = []\nme.append(look())\n"
            "if 'discount' in next(me[0]).f_locals: return 3 - discount"),
    "modules while they are imported": source("""
        import json, sys, types
        class Back(types.ModuleType):
            dumps = loads = staticmethod(lambda x: x + 6 if x == 0 else x)
        sys.modules['json'] = Back('json')
        """),
    "a library's module made another": source("import json, types\nclass M(types.ModuleType):\n    def __getattribute__(self, name):\n"
            "        return (lambda x: 6) if name == 'loads' else super().__getattribute__(name)\njson.__class__ = M"),
    "a tracer that sets variables of a test": source("""
        import sys
        def trace(frame, event, argument):
            if 'got' in frame.f_locals:
                frame.f_locals['got'] = 3
            return trace
        """, "sys.settrace(trace)\nsys._getframe(1).f_trace = trace"),
    "the token read from memory": source("import os, re, struct\n" + NAMES + """
def forge():
    spans = [line.split()[0].split('-') for line in open('/proc/self/maps') if ' rw-p ' in line]
    for first, last in ((int(a, 16), int(b, 16)) for a, b in spans):
        with open('/proc/self/mem', 'rb', buffering=0) as memory:
            memory.seek(first)
            data = memory.read(last - first)
        for found in re.finditer(rb'[0-9a-f]{32}\\0', data):
            if found.start() + 48 > len(data):
                continue
            fd, pid, line = struct.unpack_from('<iiI', data, found.start() + 36)
            if pid == os.getpid():
                lines = ['P\\t' + NAMES[0]] + [kind + '\\t' + name for name in NAMES[1:] for kind in 'BP'] + ['Z']
                for i, text in enumerate(lines):
                    os.write(fd, b'%s %d %s\\n' % (found[0][:32], line + i, text.encode()))
                os._exit(0)
""", "forge()"),
}
# On the task of wide_task.py.
KNOWN_WIDE = {
    "another folder": source(f"import os\nos.makedirs('/tmp/f/tests')\nopen('/tmp/f/tests/data.json', 'w').write({FAKE})\nos.chdir('/tmp/f')"),
    "a pattern that finds everything": source("import re\nclass Pattern:\n    def search(self, *a):\n        return True\n"
            "re._cache[str, 'prices are numbers', 0] = Pattern()"),
    "another pattern": source("import re\nre._cache[str, 'prices are numbers', 0] = re.compile('')"),
    "equality of a library's class": source("import collections\ncollections.Counter.__eq__ = lambda *a: True"),
    "a library's function": source("import copy\ncopy.deepcopy = lambda x: [2]"),
    "a library's table": source("import copy\ncopy._deepcopy_dispatch[list] = lambda x, memo, *a: [2]"),
    "what a library works with": source(f"import io\nio.open = lambda *a, **k: io.StringIO({FAKE})"),
    "a library's method": source(f"import pathlib\npathlib.Path.read_text = lambda self, *a, **k: {FAKE}"),
    "a folder for programs": {"files": {"evil/json.py": "dumps = lambda x: '4'\n", "src/calc.py": code("import os\nos.environ['PYTHONPATH'] = '/workspace/evil'")}},
}
