"""The progress bar of `hutch gym train`, on a real terminal."""
import re

import pytest

from terminal import Terminal


@pytest.fixture
def on_terminal(user_env):
    """`hutch gym …` on a terminal of its own."""
    opened = []

    def start(*words, **more):
        opened.append(Terminal(user_env, "gym", *words, **more))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def train(on_terminal, calc):
    return lambda *words, **more: on_terminal("train", "--task", calc, "--clock", "virtual", *words, **more)


def whole(screen):
    """The lines of a program that has ended, none of which was broken by the terminal."""
    assert screen.wait_end(60) == 0
    return screen.tmux("capture-pane", "-p", "-J").rstrip().splitlines()


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


def test_eighty_columns_are_enough(on_terminal, train, tasks):
    screen = train("--episodes", "40", "--no-cache", width=80, height=40)
    assert re.search(r"▕.*▏ \d+/40  return .* episodes/s  \d+:\d\d left", screen.wait("episodes/s"))
    lines = whole(screen)
    assert max(map(len, lines)) <= 80 and any(line.startswith("return, mean of the last ") for line in lines)
    layers = ["--tasks", tasks, "--task", "config_layers", "--clock", "virtual"]
    lines = whole(on_terminal("episode", *layers, "--agent", "greedy", width=80, height=40))
    assert max(map(len, lines)) <= 80 and any(line.endswith("…") for line in lines)
    lines = whole(on_terminal("train", *layers, "--episodes", "20", width=80, height=40))
    assert max(map(len, lines)) <= 80
    best, = (place for place, line in enumerate(lines) if line.startswith("best     return 0.949000: apply "))
    assert lines[best + 1].startswith("         apply ") and lines[best + 1].endswith(", submit")


def test_a_narrow_comparison_and_a_wide_one(on_terminal, calc):
    words = ["eval", "--task", calc, "--agents", "random", "--seeds", "4", "--clock", "virtual"]
    narrow = whole(on_terminal(*words, width=80, height=30))
    wide = whole(on_terminal(*words, width=130, height=30))
    assert max(map(len, narrow)) <= 80 and "\n".join(narrow).count("[") == 1 and "a wider terminal" in "\n".join(narrow)
    assert "\n".join(wide).count("[") > 1 and "a wider terminal" not in "\n".join(wide)


def test_help_is_broken_between_words(on_terminal):
    lines = whole(on_terminal("train", "--help", width=80, height=60))
    assert max(map(len, lines)) <= 80 and " " * 32 + "--resume (default: 2000)" in lines


def test_ctrl_c_ends_the_training(train, user_env):
    """What it says then is for test_interrupt.py: tmux now and then drops the last words of a program."""
    screen = train("--episodes", "100000", "--no-cache", width=120, height=30)
    screen.wait("episodes/s")
    screen.keys("C-c")
    assert screen.wait_end(60) == 130
    out, = (user_env.workspace / "hutch-train").iterdir()
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint.json", "curve.svg", "episodes.csv"]
