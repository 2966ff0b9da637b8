"""The progress bar of `hutch gym train`, on a real terminal."""
import re

import pytest

from terminal import Terminal


@pytest.fixture
def train(user_env, calc):
    """Trainings on demand, each on a terminal of its own."""
    opened = []

    def start(*words, **more):
        opened.append(Terminal(user_env, "gym", "train", "--task", calc, "--clock", "virtual", *words, **more))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_a_bar_and_then_the_curve(train):
    screen = train("--episodes", "40", "--no-cache", width=120, height=30)
    shown = screen.wait("episodes/s", "return ", "pass ")
    assert re.search(r"▕.*▏ \d+/40 ", shown)
    assert screen.wait_end(60) == 0
    shown = screen.screen(colours=True)
    assert "episodes/s" not in shown, "the bar is gone"
    assert "learnt" in shown and "\033[36m" in shown and re.search("[⠀-⣿]", shown)


def test_narrow_and_without_colours(train):
    screen = train("--episodes", "40", "--no-cache", width=70, height=40, more_env={"NO_COLOR": "1"})
    screen.wait("hutch: 4 of 40 episodes")
    assert screen.wait_end(60) == 0
    shown = screen.screen(colours=True)
    assert "\033[36m" not in shown and "100.0 % of the best return" in shown
    assert max(len(line) for line in screen.screen().splitlines()) <= 70


def test_ctrl_c_ends_after_the_episode(train):
    screen = train("--episodes", "100000", "--no-cache", width=120, height=30)
    screen.wait("episodes/s")
    screen.keys("C-c")
    assert screen.wait_end(60) == 130
    screen.wait("written", "--resume")
