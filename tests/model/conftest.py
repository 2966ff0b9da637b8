"""Fixtures of the tests that compare hutch with the providers' own clients."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import harness

HERE = Path(__file__).resolve().parent


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
    """Asks hutch's model layer: a list of lines for tests/unit/model_probe.c, and its answers."""
    program = Path(os.environ.get("HUTCH_PROBE") or harness.REPO / "build" / "tests" / "unit" / "model_probe")
    if not program.exists():
        pytest.skip(f"{program} was not built (no cmocka?)")

    def ask(lines):
        given = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([program], input=given, capture_output=True, text=True, timeout=300, check=True)
        return [json.loads(line) for line in done.stdout.split("\n") if line]

    return ask
