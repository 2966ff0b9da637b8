"""A guest in a folder of its own, and a diff worker over an overlay, asked over the wire."""

import pytest

from wire import Guest
from world import World


@pytest.fixture
def box(tmp_path):
    tmp_path.chmod(0o755)
    guest = Guest(tmp_path)
    guest.folder = tmp_path
    yield guest
    assert guest.end() == 0


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.end()
