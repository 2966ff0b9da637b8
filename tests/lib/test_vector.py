"""Environments and vectors through libhutch.so."""
import pytest


@pytest.fixture
def play(program, run, tasks):
    """vector.c with the tasks of this checkout."""

    def start(*args, timeout=300):
        done = run(program("vector"), *args, timeout=timeout, HUTCH_TASKS=str(tasks))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    return start


def test_a_thousand_episodes_on_64_environments(play):
    """Each gives what one environment alone gave; nothing is left, see nothing_left in check.h."""
    play("many", 64, 1000, timeout=900)


def test_one_environment(play):
    play("many", 1, 8)


@pytest.mark.parametrize("what", ["kill", "close", "rules", "mistakes"])
def test_vector(play, what):
    play(what)
