"""Runs the tests of a task with pytest, and tells their outcomes where the code under test cannot.

prepare() is called once, in a process that has nothing of the agent's before it: it loads all that a first run loads
late, builds pytest's configuration and session, and compiles the tests. run() is called in a fork of that process for
each run; or both, one after the other, in an interpreter of their own (the last lines).

Tests and the code under test share an interpreter, so whatever is an object here can be reached by code that looks for it.
What must not be reached is in the judge (../judge/), an extension module: the token and the descriptor, how everything was
before, and which code is the tests'. What is done here, before anything of the agent's is loaded:

- Modules of the tests are compiled from bytes that were read once, with marks in them by which the judge knows that a test
  ran to its end; they are never loaded from a cache, nor through sys.modules or a search path. Folders of the code under
  test stand behind everything else.
- The runner gives the judge a list of what must not change: pytest and unittest, and the modules of the tests.

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
# Plugins that are never loaded. They have no options of the command line, so addopts cannot need them.
PLUGINS_OFF = ("faulthandler", "nose", "python_path", "reports", "threadexception", "unraisableexception")
# Plugins that know the options in a project's addopts, and are of no use once these are parsed: they print, stop runs or leave tests out.
PLUGINS_FOR_OPTIONS = ("terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin", "setuponly", "setupplan", "pdbinvoke", "pdbtrace")
# What decides about an outcome. The standard library is not guarded: solutions patch, reload and extend it.
GUARDED = (
    "_pytest.assertion.rewrite", "_pytest.assertion.util", "_pytest.config", "_pytest.fixtures", "_pytest.main", "_pytest.nodes",
    "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.recwarn", "_pytest.runner", "_pytest.skipping",
    "_pytest.unittest", "pluggy", "pluggy._callers", "pluggy._hooks", "pluggy._manager", "pluggy._result", "pytest", "unittest",
    "unittest.case", "unittest.mock",
)


class State:
    """What prepare() leaves for run(). Nothing in it is a secret."""


state = State()


def load_judge():
    """The extension module behind this text (embed.py), by way of a file that is gone when it is loaded."""
    import _imp
    import binascii
    import os
    import tempfile

    if "t" in sys.abiflags:
        raise ImportError("a Python without a global lock is not supported")
    fd, path = tempfile.mkstemp(prefix=".hutch-", dir="/tmp")
    try:
        with open(fd, "wb") as file:
            file.write(binascii.a2b_base64(JUDGE))
        spec = State()
        spec.name, spec.origin = "hutch_judge", path
        module = _imp.create_dynamic(spec)
    finally:
        os.unlink(path)
    sys.modules.pop("hutch_judge", None)
    return module
