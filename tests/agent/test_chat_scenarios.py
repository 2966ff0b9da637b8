"""`hutch chat` on a real terminal (tmux) through whole pieces of work."""
import os
import signal

import pytest

import harness
import plays
from model_reply import Reply, call
from terminal import Terminal

APIS = ["anthropic", "chat", "responses"]


class Chat(Terminal):
    """The chat, open and waiting for words."""

    def __init__(self, env, *opts, api="anthropic", **more):
        super().__init__(env, "chat", "--model", env.speak(api), "-w", env.workspace, *opts, **more)
        self.wait("scripted-1")

    def turn(self, words, until):
        """Says something and waits for the answer's last words."""
        self.say(words)
        return self.wait(until)

    def leave(self):
        self.say("/quit")
        return self.wait_end()


@pytest.fixture
def chat(make_env):
    """Chats on demand; ended with the test."""
    opened = []

    def make(env, *opts, **more):
        opened.append(Chat(env, *opts, **more))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.mark.parametrize("api", APIS)
def test_hello_world(user_env, model_server, chat, api):
    model_server.script(plays.hello())
    screen = chat(user_env, api=api)
    screen.turn("Write a hello-world script and run it.", "It greets the world.")
    screen.wait("A hello.py", "[a] apply", "[u] undo")
    assert not user_env.has("hello.py"), "nothing is written before it is applied"
    screen.say("d")
    screen.wait('+print("Hello, world!")')
    screen.say("a")
    harness.wait_until(lambda: user_env.has("hello.py"), what="it is applied")
    assert user_env.get("hello.py") == plays.HELLO
    assert screen.leave() == 0
    model_server.check_growth()
    assert user_env.boxes() == []


def test_hello_world_as_root(make_env, model_server, chat):
    env = make_env("root")
    model_server.script(plays.hello(split=1))
    screen = chat(env, "--apply")
    screen.turn("Write hello world.", "It greets the world.")
    harness.wait_until(lambda: env.has("hello.py"), what="it is applied")
    assert screen.leave() == 0


def test_web_service(user_env, model_server, chat):
    model_server.script(plays.service(pings=True))
    screen = chat(user_env, "--apply", api="chat")
    screen.turn("Build a web service with /health, try it and stop it.", "It was healthy, and is stopped.")
    harness.wait_until(lambda: user_env.has("service.py"), what="it is applied")
    assert screen.leave() == 0


def test_csv_filter(user_env, model_server, chat):
    model_server.script(plays.csv_filter(eol="\r\n"))
    screen = chat(user_env, "--apply", api="responses", width=200, height=50)
    screen.turn("Build a CSV filter with sample data and tests.", "The filter works.")
    harness.wait_until(lambda: user_env.files() == ["filter_csv.py", "sales.csv", "test_filter.py"], what="it is applied")
    assert screen.leave() == 0


def test_undo_takes_back_what_commands_did(user_env, model_server, chat):
    user_env.put("old.txt", "precious\n")
    model_server.script([Reply(call("bash", command="echo 1 > one.txt")), Reply("First done."),
                         Reply(call("bash", command="rm old.txt one.txt; echo 2 > two.txt")), Reply("Second done."),
                         Reply(call("bash", command="ls")), Reply("Third done.")])
    screen = chat(user_env, "--no-apply")
    screen.turn("first", "First done.")
    screen.turn("second", "Second done.")
    screen.say("/undo")
    screen.wait("Undid turn 2: restored 3 files in the box")
    screen.keys("C-u")  # the words of that turn are there to be said again
    screen.turn("third", "Third done.")
    request = model_server.requests[5]
    assert "one.txt" in request.result and "old.txt" in request.result and "two.txt" not in request.result, request.result
    assert not any("second" in said for said in request.said), "the conversation was taken back, too"
    assert screen.leave() == 0
    assert user_env.get("old.txt") == "precious\n"


def test_fork_goes_on_apart(user_env, model_server, chat):
    model_server.script([Reply(call("bash", command="echo base > file")), Reply("Base done."),
                         Reply(call("bash", command="echo fork > file")), Reply("Fork done.")])
    screen = chat(user_env, "--no-apply")
    screen.turn("base", "Base done.")
    (first,) = user_env.histories()
    screen.say("/fork")
    harness.wait_until(lambda: len(user_env.histories()) == 2 or len(user_env.boxes()) == 2, what="a second session")
    screen.turn("change it", "Fork done.")
    assert screen.leave() == 0
    sessions = {h["session"]: h for h in user_env.histories()}
    (second,) = set(sessions) - {first["session"]}
    assert sessions[second]["forked_from"]["session"] == first["session"]
    model_server.script([Reply(call("bash", command="cat file")), plays.after("base", "Untouched.")])
    assert user_env.ask("look", "--no-apply", "--resume", first["session"]).text == "Untouched."


def test_killed_in_a_stream_and_loaded_again(user_env, model_server, chat):
    stalled = Reply("An answer that is never finished, since the terminal is gone.", stall=0.6)
    model_server.script([Reply("Looked around. ", call("bash", command="echo kept > work.txt")), stalled])
    screen = chat(user_env, "--no-apply")
    screen.say("begin")
    assert stalled.reached.wait(20)
    os.kill(screen.pid, signal.SIGKILL)
    screen.wait_end()
    model_server.script([Reply(call("bash", command="cat work.txt")), plays.after("kept", "All there.")])
    again = chat(user_env, "--no-apply", "--resume", "last")
    again.wait("Looked around.")
    again.turn("go on", "All there.")
    assert again.leave() == 0


@pytest.mark.parametrize("key", ["C-c", "Escape"])
def test_interrupt_leaves_a_conversation_that_goes_on(user_env, model_server, chat, key):
    model_server.script([Reply("It takes long. ", call("bash", command="sleep 987653")), Reply("Going on.")])
    screen = chat(user_env)
    screen.turn("begin", "sleep 987653")
    harness.wait_until(lambda: any("sleep 987653" in harness.describe(p) for p in harness.descendants()), what="it runs")
    screen.keys(key)
    harness.wait_until(lambda: not any("sleep 987653" in harness.describe(p) for p in harness.descendants()), what="it ended")
    screen.turn("again", "Going on.")
    assert screen.leave() == 0


def test_wait_for_the_model_is_shown(user_env, model_server, chat):
    model_server.script([Reply(status=529, retry_after="2"), Reply("At last.")])
    screen = chat(user_env)
    screen.say("begin")
    screen.wait("529")
    screen.wait("At last.")
    assert screen.leave() == 0


def test_hostile_words_do_not_reach_the_terminal(user_env, model_server, chat):
    user_env.put("evil", b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \xe2\x80\xae reversed\n")
    model_server.script([Reply("Look:\x1b]0;owned\x07\x1b[2J ", call("bash", command="cat evil")), Reply("Seen\x1b[?1049l it.")])
    screen = chat(user_env)
    screen.say("show me evil")
    screen.wait("Seen", "it.")
    assert "owned" not in screen.tmux("display-message", "-p", "#{pane_title}")
    assert screen.tmux("display-message", "-p", "#{alternate_on}").strip() in ("0", "1")
    assert screen.leave() == 0


def test_resizing_in_a_stream(user_env, model_server, chat):
    stalled = Reply("Some words of an answer that is long enough to be wrapped on a narrow screen. " * 3 + "The end.", stall=0.5)
    model_server.script([stalled])
    screen = chat(user_env)
    screen.say("begin")
    assert stalled.reached.wait(20)
    for width, height in ((200, 50), (40, 10), (80, 24)):
        screen.resize(width, height)
        screen.wait("Some words")
    stalled.release()
    screen.wait("The end.")
    assert screen.leave() == 0
