import shutil

import pytest

from repository import Repository


@pytest.fixture
def repo(box):
    """A repository with one commit, which is the workspace."""
    if not shutil.which("git"):
        pytest.skip("no git on this host")
    repository = Repository(box)
    repository.commit()
    return repository
