"""Fixtures of the tests that ask a model through tests/unit/model/model_http_probe.c, or compare hutch with the providers' own clients."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from asking import KEY, listen

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def program(hutch):
    path = Path(hutch).parent / "tests" / "unit" / "model" / "model_http_probe"
    if not path.exists():
        pytest.skip(f"not built: {path}")
    return path


@pytest.fixture
def start(program, who, callers):
    """Starts the probe as root or as an ordinary user, without a proxy but the one that a test names."""
    caller, _ = callers(who)
    probe = program if caller.can_run(program) else caller.home / program.name
    if not probe.exists():
        caller.own(shutil.copy2(program, probe))

    def go(server, env=None, **spec):
        spec = {"api": "anthropic", "provider": "anthropic", "name": "fake-1", "key": KEY,
                "base_url": getattr(server, "url", server), **spec}
        return subprocess.Popen([*caller.prefix, str(probe), json.dumps(spec)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={"PATH": os.environ["PATH"], **(env or {})})
    return go


@pytest.fixture
def ask(start):
    """Asks and listens to the end. The key is in nothing that is said."""
    def go(server, **spec):
        heard = listen(start(server, **spec))
        assert KEY not in json.dumps(heard.lines)
        return heard
    return go


@pytest.fixture(scope="session")
def node():
    """A node that can run the clients in tests/model/node_modules."""
    found = shutil.which("node")
    if not found:
        pytest.skip("there is no node on this host")
    if not (HERE / "node_modules" / ".fetched").exists():
        pytest.skip("npm's registry was not reachable (scripts/setup-node): no clients to compare with")
    return found


@pytest.fixture(scope="session")
def probe(hutch):
    """Asks hutch's model layer: a list of lines for tests/unit/model/model_probe.c, and its answers."""
    program = hutch.parent / "tests" / "unit" / "model" / "model_probe"
    if not program.exists():
        pytest.skip(f"{program} was not built (no cmocka?)")

    def ask(lines):
        given = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([program], input=given, capture_output=True, text=True, timeout=300, check=True)
        return [json.loads(line) for line in done.stdout.split("\n") if line]

    return ask
