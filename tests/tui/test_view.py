"""The view in a real terminal: what it looks like, and what it sends.

The expected screens are in screens/; `UPDATE=1 pytest tests/tui/test_view.py` writes them, to be looked at in the diff.
"""
import re
import signal
import termios

import pytest

from scenes import BUSY, IDLE, STATUS, TURN, WAIT, WIDE, call
from viewing import Bare, Tmux, expect_screen


@pytest.fixture
def play(tmp_path):
    """play(steps, width, height, …): the script in tmux; play.bare(…): on a bare pseudo-terminal."""
    made = []

    def start(kind, steps, *args, **more):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(kind(folder, steps, *args, **more))
        return made[-1]

    class Play:
        def __call__(self, *args, **more):
            return start(Tmux, *args, **more)

        def bare(self, *args, **more):
            return start(Bare, *args, **more)

    yield Play()
    for one in made:
        one.close()


@pytest.mark.parametrize("width, height", [(80, 24), (200, 50), (40, 10), (80, 70)])
@pytest.mark.parametrize("name, steps", [("turn", TURN), ("busy", TURN + BUSY), ("wide", WIDE)])
def test_screens(play, name, steps, width, height):
    t = play([*steps, WAIT], width, height).wait()
    expect_screen(f"{name}-{width}x{height}.txt", t.screen())


@pytest.mark.parametrize("name, env", [("dark", {"COLORFGBG": "15;0"}), ("light", {"COLORFGBG": "0;15"}), ("unknown", {}),
                                       ("colourless", {"NO_COLOR": "1"}), ("eight", {"TERM": "screen"})])
def test_colours(play, name, env):
    t = play([*TURN, WAIT], 80, 70, **env).wait()
    expect_screen(f"turn-{name}.ansi", t.screen(colours=True))


def test_output_opens_and_folds(play):
    up = {"key": "select"}
    t = play([*TURN, up, up, up, up, WAIT, {"key": "toggle"}, WAIT, {"key": "toggle"}, WAIT, {"key": "all"}, {"key": "top"}, WAIT], 80, 24)
    folded = t.wait().screen()
    assert "▸ bash  make test   exit 2  1.2s ✗" in folded and "│ … 129 more lines (ctrl-o)" in folded
    expect_screen("selected.ansi", t.screen(colours=True))
    t.on()
    opened = t.wait().screen()
    assert "│ ok 1\n" in opened and "more lines (" not in opened and " ↓ " in opened
    t.on()
    assert t.wait().screen() == folded
    t.on()
    everything = t.wait().screen()
    assert "∴ The user wants me to fix a failing test.\n  Let me look at the test first.\n" in everything
    assert "│ ok 1\n" in everything


def test_scrolling(play):
    steps = [*IDLE, *({"person": f"words {i}"} for i in range(50))]
    t = play([*steps, WAIT, {"key": "pageup"}, WAIT, {"person": "new"}, WAIT, {"key": "pageup"}, {"note": "more"}, WAIT,
              {"key": "end"}, WAIT], 80, 24)
    assert "› words 49" in t.wait().screen()
    t.on()
    above = t.wait().screen()
    assert "words 49" not in above and "↓" in above
    t.on()
    assert "› new" in t.wait().screen()  # who says something sees it
    t.on()
    assert "more" not in t.wait().screen().replace("more lines", "")
    t.on()
    assert "· more" in t.wait().screen()


def test_the_cursor_is_in_the_input(play):
    t = play([STATUS, {"input": {"text": "漢字ab\nzwei", "cursor": 3}}, WAIT, {"input": {"text": "x" * 100}}, WAIT,
              {"input": {"text": "\n".join(map(str, range(100)))}}, WAIT], 80, 24)
    assert t.wait().cursor() == (4, 21)
    t.on()
    assert t.wait().cursor() == (2 + 22, 22)
    t.on()
    screen = t.wait().screen().splitlines()
    assert screen[-2] == "  99" and screen[-9] == "  92" and screen[-10].startswith("───")  # a third of the screen


def test_a_long_list_shows_what_is_chosen(play):
    choices = [f"choice {i}" for i in range(40)]
    t = play([*IDLE, {"input": {"text": "", "choices": choices, "chosen": 30, "title": "Pick one"}}, WAIT], 80, 24).wait()
    assert "▸ choice 30" in t.screen() and "  Pick one" in t.screen()


def test_resize_while_it_streams(play):
    first, rest = {"text": "One *word* after another, " * 10}, {"text": "and then\n\n- a list\n- of things\n"}
    t = play([*TURN, first, WAIT, rest, WAIT], 80, 24)
    t.wait()
    t.resize(50, 20)
    t.wait_until(lambda s: "3 files changed" not in s)
    t.on()
    fresh = play([*TURN, first, rest, WAIT], 50, 20)
    assert t.wait().screen() == fresh.wait().screen()


def test_suspend_and_resume(play):
    t = play([*TURN, WAIT, {"suspend": True}, {"resume": True}, WAIT], 80, 24)
    before = t.wait().screen()
    t.on()
    assert t.wait().screen() == before


EVIL = "\x1b]0;PWNED\x07\x1b[?1337h\x1b[99;99H\x1b[6n\x1bPq\x1b\\\x9b6n\x1b_x\x1b\\\x1bc\x08\x0e\u202e\u2028\r\n"


def test_hostile_bytes_never_reach_the_terminal(play):
    steps = [
        {"status": {"model": EVIL, "busy": EVIL, "keys": EVIL}},
        {"input": {"text": EVIL, "prompt": EVIL, "hint": EVIL, "title": EVIL, "choices": [EVIL], "details": [EVIL], "chosen": 0}},
        {"person": EVIL}, {"thinking": EVIL}, {"text": f"# {EVIL}\n\n`{EVIL}`\n\n```{EVIL}\n{EVIL}\n```\n&#27;]0;x&#7;&#x9b;6n [a]({EVIL})"},
        {"said": True}, {"writing": EVIL},
        *call(1, EVIL, {"path": EVIL}, EVIL, {"output": EVIL}), *call(2, "bash", {"command": EVIL}, EVIL, {"exit_code": 1, "output": EVIL}),
        {"call": {"id": "3", "name": "bash", "input": {"command": EVIL}}}, {"progress": {"id": "3", "text": EVIL}},
        *call(4, "edit_file", {"path": EVIL}, data={"diff": EVIL}), *call(5, "write_file", {"path": EVIL, "content": EVIL}, EVIL, failed=True),
        {"note": EVIL}, {"say": EVIL}, {"diff": f"diff --git a/{EVIL} b/{EVIL}\n@@ -1 +1 @@\n-{EVIL}+{EVIL}"},
        {"changes": [[EVIL, "added", 1, 1]]}, {"delay": {"text": EVIL, "ms": 10, "attempt": 1}}, {"key": "all"}, WAIT, {"done": EVIL}, WAIT,
    ]
    t = play.bare(steps, 100, 200)
    t.wait()
    t.on()
    t.wait()
    sent = t.bytes
    assert "␛]0;PWNED".encode() in sent  # it was shown
    for bad in (b"\x1b]", b"\x07", b"\x1b[?1337h", b"\x1b[99;99H", b"\x1b[6n", b"\x1bP", b"\x1b_", b"\x1bc", b"\x0e", b"\xe2\x80\xae",
                b"\xe2\x80\xa8", b"\xc2\x9b"):
        assert bad not in sent, bad
    sent.decode()  # nothing but UTF-8, so no byte of C1 either


def test_little_is_sent_for_a_little_change(play):
    t = play.bare([*TURN, {"text": "End"}, WAIT, {"text": "ing"}, WAIT, WAIT], 200, 50)
    t.wait()
    t.on()
    change = t.wait()
    assert b"ing" in change and len(change) < 120
    assert b"\x1b[2J" not in change and b"\x1b[J" not in change
    t.on()
    assert t.wait() == b""


@pytest.mark.parametrize("steps, ends_by", [([], None), ([{"abort": True}], signal.SIGABRT)])
def test_the_terminal_is_given_back(play, steps, ends_by):
    t = play.bare([*TURN, *steps])
    assert t.end() == (-ends_by if ends_by else 0)
    assert termios.tcgetattr(t.slave) == t.before
    assert b"\x1b[?1049l" in t.bytes[-40:], "the other screen is left at the end"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back_after_a_signal(play, number):
    t = play.bare([*TURN, WAIT])
    t.wait()
    t.process.send_signal(number)
    assert t.end() == -number
    assert termios.tcgetattr(t.slave) == t.before
    assert b"\x1b[?1049l" in t.bytes[-40:] and b"\x1b[?2004l" in t.bytes[-80:]


@pytest.mark.parametrize("term", ["dumb", "", "no-such-terminal"])
def test_terminals_that_cannot_be_drawn_on(play, term):
    t = play.bare(TURN, term=term)
    assert t.end() == 3
    assert b"\x1b" not in t.bytes
    assert b"--plain" in t.process.stderr.read()


@pytest.mark.parametrize("term", ["xterm-256color", "screen-256color", "tmux-256color", "linux", "vt100", "xterm"])
def test_all_kinds_of_terminals(play, term):
    t = play.bare([*TURN, *BUSY, WAIT], term=term)
    t.wait()
    assert b"make test" in t.bytes or b"http.server" in t.bytes
    t.on()
    assert t.end() == 0
    assert termios.tcgetattr(t.slave) == t.before


def test_a_locale_without_utf8(play):
    t = play.bare([*TURN, *BUSY, *WIDE, WAIT], term="vt100", LC_ALL="C")
    t.wait()
    assert all(byte < 0x80 for byte in t.bytes)
    assert b"+-----" in t.bytes and b"> /undo" in t.bytes


def test_no_colours_where_none_are_wanted(play):
    t = play.bare([*TURN, WAIT], NO_COLOR="1")
    t.wait()
    assert not re.search(rb"\x1b\[(?:\d+;)*[34][0-8](?:;\d+)*m", t.bytes)
    assert re.search(rb"\x1b\[1m|\x1b\[0;1m", t.bytes)
