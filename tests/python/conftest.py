"""Fixtures of the tests of the Python package: programs that use it, as root and as an ordinary user."""
import pytest

from python_programs import Programs, make_place, with_path


@pytest.fixture(scope="session")
def places(hutch, callers, scratch):
    made = {}

    def get(name):
        caller, _ = callers(name)
        if name not in made:
            made[name] = make_place(hutch, caller, scratch)
        return made[name], caller

    return get


@pytest.fixture
def python(places, who, scratch):
    """Programs without gymnasium."""
    place, caller = places(who)
    return Programs(place, caller, scratch, gymnasium=None)


@pytest.fixture(params=["without", "with"])
def gym(request, places, who, scratch):
    """Programs without gymnasium, and with it."""
    place, caller = places(who)
    return Programs(place, caller, scratch, gymnasium=with_path(place) if request.param == "with" else None)


@pytest.fixture
def gymnasium(places, who, scratch):
    """Programs with gymnasium only."""
    place, caller = places(who)
    return Programs(place, caller, scratch, gymnasium=with_path(place))
