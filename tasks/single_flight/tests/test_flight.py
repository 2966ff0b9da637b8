import itertools

import pytest

from flight import Flights


class Loader:
    """Loads slowly: it waits twice for each value. Keys in `broken` cannot be loaded."""

    def __init__(self):
        self.begun = []
        self.broken = set()

    def __call__(self, key):
        self.begun.append(key)
        number = len(self.begun)
        yield
        yield
        if key in self.broken:
            raise OSError(key)
        return f"{key}{number}"


def play(tasks, turns=()):
    """Resumes the tasks in the order of `turns`, then one after the other until all are done."""
    results = [None] * len(tasks)
    for at in itertools.chain(turns, itertools.cycle(range(len(tasks)))):
        if all(results):
            return results
        if results[at] is None:
            try:
                next(tasks[at])
            except StopIteration as done:
                results[at] = done.value
            except OSError as error:
                results[at] = error
        play.steps += 1
        assert play.steps < 1000, "somebody waits for ever"


@pytest.fixture
def loader():
    play.steps = 0
    return Loader()


def test_one_asks(loader):
    assert play([Flights(loader).get("a")]) == ["a1"]


def test_a_value_is_kept(loader):
    flights = Flights(loader)
    assert play([flights.get("a")]) + play([flights.get("a")]) == ["a1", "a1"]
    assert loader.begun == ["a"]


def test_two_at_the_same_time_load_once(loader):
    flights = Flights(loader)
    assert play([flights.get("a"), flights.get("a")]) == ["a1", "a1"]
    assert loader.begun == ["a"]


def test_one_that_comes_later_waits_for_the_first(loader):
    flights = Flights(loader)
    assert play([flights.get("a"), flights.get("a")], [0, 0, 1, 1, 1]) == ["a1", "a1"]
    assert loader.begun == ["a"]


def test_every_order_of_three_loads_once():
    for turns in itertools.product(range(3), repeat=5):
        play.steps, loader = 0, Loader()
        flights = Flights(loader)
        assert play([flights.get("a") for _ in range(3)], turns) == ["a1"] * 3
        assert loader.begun == ["a"]


def test_other_keys_do_not_wait(loader):
    flights = Flights(loader)
    first, second = flights.get("a"), flights.get("b")
    next(first), next(second)
    assert loader.begun == ["a", "b"]
    assert play([first, second], [1, 1]) == ["a1", "b2"]


def test_an_error_reaches_the_one_who_asked(loader):
    loader.broken.add("a")
    (error,) = play([Flights(loader).get("a")])
    assert type(error) is OSError


def test_an_error_is_not_kept(loader):
    flights = Flights(loader)
    loader.broken.add("a")
    play([flights.get("a")])
    loader.broken.clear()
    assert play([flights.get("a")]) == ["a2"]


def test_who_waited_for_a_flight_that_failed_tries_again(loader):
    flights = Flights(loader)
    loader.broken.add("a")
    first, second = flights.get("a"), flights.get("a")
    next(first), next(second), next(first)
    with pytest.raises(OSError):
        next(first)
    loader.broken.clear()
    assert play([second]) == ["a2"]


def test_what_is_forgotten_is_loaded_anew(loader):
    flights = Flights(loader)
    play([flights.get("a")])
    flights.forget("a")
    assert play([flights.get("a"), flights.get("a")]) == ["a2", "a2"]
