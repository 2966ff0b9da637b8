"""Fixtures of the tests of git_clone, git_push and create_pr."""
import pytest

from forge_person import Person


@pytest.fixture
def person(box):
    someone = Person(box)
    yield someone
    someone.close()


@pytest.fixture
def user_person(make_box):
    """As an ordinary user only, for what does not depend on who it is."""
    someone = Person(make_box("user"))
    yield someone
    someone.close()
