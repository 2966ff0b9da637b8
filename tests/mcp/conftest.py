"""Fixtures of the tests of `hutch mcp`."""
import shutil

import pytest

import peer
from desk import Desk
from peer import MODULES


@pytest.fixture
def connect(make_box):
    """Servers on demand: connect("--cache", who="root", box=…), not initialized yet."""
    made = []

    def make(*options, who="user", box=None, **more):
        made.append(peer.Peer(box or make_box(who), *options, **more))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def server(connect, box):
    """A server that was just initialized, as root and as an ordinary user; `server.box` is whose it is."""
    made = connect(box=box)
    made.box = box
    made.initialize()
    return made


@pytest.fixture
def any_server(connect, make_box):
    """The same as an ordinary user only, for what does not depend on who it is."""
    box = make_box("user")
    made = connect(box=box)
    made.box = box
    made.initialize()
    return made


@pytest.fixture(scope="session")
def node():
    """The node that npm fetched with the clients."""
    if not shutil.which("npm"):
        pytest.skip("no npm on this host: other people's MCP clients cannot be fetched")
    if not (MODULES / ".fetched").exists():
        pytest.skip("npm's registry was not reachable (scripts/setup-node): no other people's MCP clients")
    own = MODULES / ".bin" / "node"
    return str(own if own.exists() else shutil.which("node"))


@pytest.fixture
def desk(box):
    return Desk(box)


@pytest.fixture
def users(make_box):
    """For what does not depend on who asks."""
    return Desk(make_box("user"))
