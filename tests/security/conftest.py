"""Fixtures of the security tests: the arsenal, secrets to steal, and processes of the host to go for."""
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import harness

sys.path.insert(0, str(Path(__file__).parent))
import arsenal as arsenal_module  # noqa: E402
import warm as warm_module  # noqa: E402


@pytest.fixture(scope="session")
def arsenal(scratch):
    return arsenal_module.Arsenal(arsenal_module.compiled_folder(scratch))


@pytest.fixture
def attack(arsenal):
    return arsenal.attack


@pytest.fixture
def secret():
    """A word that nobody can guess: if it comes out of a box, the box has read it."""
    return "hutch-secret-" + secrets.token_hex(12)


@pytest.fixture
def loot(box, secret):
    """Files of the host with the secret in them, in places that no box shows, readable by anybody who gets there."""
    places = ["/var/tmp", "/tmp", "/home", "/root", "/srv", "/opt", str(box.caller.home)]
    made = []
    for place in places:
        if not os.access(place, os.W_OK):
            continue
        folder = Path(tempfile.mkdtemp(prefix="hutch-loot-", dir=place))
        folder.chmod(0o755)
        file = folder / "secret"
        file.write_text(secret + "\n")
        file.chmod(0o644)
        box.caller.own(file)
        box.caller.own(folder)
        made.append(file)
    yield made
    for file in made:
        subprocess.run(["rm", "-rf", str(file.parent)], check=False)


class Victim:
    """A process of the host, of the same user as the box's caller; it may read the first file of the loot."""

    def __init__(self, box, secret, file):
        script = (Path(__file__).with_name("hostile") / "victim.py").read_text()
        self.process = subprocess.Popen([*box.caller.prefix, "/usr/bin/python3", "-c", script, secret, str(file)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=box.env)
        self.pid, self.address, self.fd = self.process.stdout.readline().split()
        self.pid = int(self.pid)

    def fate(self):
        """Ends it; returns what it said was done to it."""
        said, _ = self.process.communicate(b"", timeout=300)
        return self.process.returncode, said.decode()


@pytest.fixture
def victim(box, secret, loot):
    """Made for one attack and gone after it."""
    made = Victim(box, secret, loot[0])
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.fixture
def open_warm(box, scratch):
    """Boxes with a warm process, ended with the test: open_warm("pids=32")."""
    program = harness.beside_parts(harness.built("box/warm_probe"), box.caller, scratch)
    opened = []

    def open_one(*options, **more):
        opened.append(warm_module.Warm(program, box, *options, **more))
        return opened[-1]

    yield open_one
    for one in opened:
        if one.process.poll() is None:
            one.end()


@pytest.fixture
def warm(open_warm):
    made = open_warm()
    assert made.opened.get("ready"), made.opened
    return made
