"""`hutch chat` line by line: through pipes, and on a terminal with --plain."""
import pytest
from model_reply import Reply, call
from terminal import Terminal

WRITE = call("write_file", path="new.txt", content="new\n")


def chat(env, text, *opts, status=0):
    done = env.hutch("chat", "--model", env.speak("anthropic"), "-w", env.workspace, *opts, input=text)
    assert done.returncode == status, done
    return done


def test_each_line_is_a_prompt(agent_env, model_server):
    model_server.script([Reply("First."), Reply("I look.", call("bash", command="echo hi; exit 3")), Reply("Third.")])
    done = chat(agent_env, "one\n\ntwo\n")
    assert [r.said[-1] for r in model_server.requests] == ["one", "two", "two"]
    lines = done.stdout.splitlines()
    assert lines[:3] == ["First.", "I look.", "▸ bash  echo hi; exit 3"]
    assert lines[3].startswith("  ✗ ") and lines[3].endswith("exit 3")
    assert lines[4] == "Third." and lines[5].startswith("hutch --resume ")
    assert "\033" not in done.stdout and done.stderr == ""


def test_words_of_the_command_line_come_first(user_env, model_server):
    model_server.script([Reply("A."), Reply("B.")])
    done = user_env.hutch("chat", "--model", "anthropic/scripted-1", "-w", user_env.workspace, "say", "a", input="b")
    assert [r.said[-1] for r in model_server.requests] == ["say a", "b"]
    assert done.returncode == 0


def test_several_lines(user_env, model_server):
    model_server.script([Reply("A."), Reply("B."), Reply("C.")])
    chat(user_env, "one\\\ntwo\n'''\n/three\n\nfour\n'''\n'''\nopen")
    assert [r.said[-1] for r in model_server.requests] == ["one\ntwo", "/three\n\nfour", "open"]


def test_commands(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n/diff\n/undo\n/diff\n/cost\n/tools\n/help\n!echo own\n/quit\nnever said\n")
    for text in ("1 file, +1 −0", "added    new.txt  +1 -0", "+new\n", "Turn 1 is taken back", "Nothing is changed", "output", "read_file",
                 "/compact", "own\n"):
        assert text in done.stdout, text
    assert not user_env.has("new.txt") and len(model_server.requests) == 2


def test_apply(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n", "--apply")
    assert user_env.get("new.txt") == "new\n" and "Applied 1 change" in done.stdout


def test_pending_is_kept_and_told(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n")
    assert not user_env.has("new.txt")
    (session,) = user_env.histories()
    assert f"not applied: kept in the session. hutch --resume {session['session']} goes on" in done.stdout
    done = chat(user_env, "/apply\n", "--resume", session["session"])
    assert user_env.get("new.txt") == "new\n" and "› write" in done.stdout


@pytest.mark.parametrize("text, why", [("/unod\none\n", "did you mean /undo?"), ("/load nothing\none\n", "nothing"),
                                       (b"\xff\xfe\n", "not UTF-8")])
def test_the_first_failure_ends_it(user_env, model_server, text, why):
    model_server.script([])
    done = chat(user_env, text, status=125)
    assert why in done.stderr and done.stderr.count("\n") == 1
    assert not model_server.requests


def test_a_model_that_cannot_be_asked(user_env, model_server):
    model_server.script([Reply(status=400, body={"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing"}})])
    done = chat(user_env, "one\ntwo\n", status=125)
    assert "no such thing" in done.stderr and len(model_server.requests) == 1


def test_retries_are_told(user_env, model_server):
    model_server.script([Reply(status=529, retry_after="0"), Reply("At last.")])
    done = chat(user_env, "one\n")
    assert "[asked again in" in done.stdout and "529" in done.stdout and "At last." in done.stdout


@pytest.fixture
def terminal():
    opened = []

    def make(env, *opts, **more):
        opened.append(Terminal(env, "chat", "--model", env.speak("anthropic"), "-w", env.workspace, *opts, **more))
        opened[-1].wait("›")
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_on_a_terminal(user_env, model_server, terminal):
    user_env.put("evil", b"\x1b]0;owned\x07\n")
    model_server.script([Reply("Hello\x1b]0;owned\x07 there.", WRITE), Reply("Written.")])
    screen = terminal(user_env, "--plain")
    screen.say("write")
    screen.wait("Hello\\x1b]0;owned\\x07 there.", "Written.", "apply? [a]pply [d]iff [k]eep working [u]ndo ›")
    screen.say("d")
    screen.wait("+new")
    screen.say("a")
    screen.wait("Applied 1 change")
    screen.say("!cat evil")
    screen.wait("\\x1b]0;owned")
    assert "owned" not in screen.tmux("display-message", "-p", "#{pane_title}")
    screen.say("/nothing")
    screen.wait("/help lists them")
    screen.keys("C-d")
    assert screen.wait_end() == 0
    assert user_env.has("new.txt")


def test_a_dumb_terminal_and_ctrl_c(user_env, model_server, terminal):
    stalled = Reply("It begins and does not end.", stall=0.5)
    model_server.script([stalled, Reply("Going on.")])
    screen = terminal(user_env, more_env={"TERM": "dumb"})
    screen.say("one")
    assert stalled.reached.wait(20)
    screen.keys("C-c")
    screen.wait("[interrupted]")
    stalled.release()
    screen.say("two")
    screen.wait("Going on.\n›")
    screen.keys("C-c")
    assert screen.wait_end() == 0
