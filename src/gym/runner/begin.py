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

docs/grading.md says what this does not stop.
"""
import sys

if __name__ == "__main__":  # in an interpreter of its own, where nothing of the agent's may be loaded from here on
    sys.path[:] = [p for p in sys.path if p and not p.startswith("/workspace")]
import contextlib


def sanitize(folders):
    """The search path without anything that the workspace has a say in, then its folders, last."""
    own = (sys.base_prefix + "/", sys.prefix + "/")
    sys.path[:] = [p for p in sys.path if p.startswith(own) or p and not p.startswith(("/workspace", "/home", "/tmp"))]
    sys.path.extend(f for f in folders if f not in sys.path)
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    sys.pycache_prefix = None


ROOT = "/workspace"
MESSAGE_LINES = 12
MESSAGE_MAX = 1500
SOURCE_MAX = 4 << 20
PLUGINS_OFF = (
    "cacheprovider", "doctest", "faulthandler", "junitxml", "legacypath", "nose", "pastebin", "python_path",
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
EXTENSION_PLACES = ("/usr/", "/lib/", "/lib64/", "/opt/", "/nix/", sys.base_prefix + "/")


class State:
    """What prepare() leaves for run(). Nothing in it is a secret."""


state = State()
