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
    assert lines[4] == "Third." and lines[5].startswith("Resume it with hutch --resume ")
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
    for text in ("1 file, +1 −0", "1 file changed, +1 −0\nA new.txt  +1 −0\n", "+new\n", "Undid turn 1: restored 1 file in the box and removed it from the conversation.\n", "No pending changes.\n", "output", "read_file",
                 "/compact", "own\n"):
        assert text in done.stdout, text
    assert not user_env.has("new.txt") and len(model_server.requests) == 2


def test_apply(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n", "--apply")
    assert user_env.get("new.txt") == "new\n" and "Applied 1 change" in done.stdout


def test_undo_after_apply(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n/apply\n/undo\n/diff\n/apply\n/diff\n")
    assert ("Undid turn 1: restored 1 file in the box and removed it from the conversation. 1 file of it was applied to your folder: "
            "the pending diff reverts it; /apply to do so.\n") in done.stdout
    assert "deleted file mode 100644" in done.stdout and "-new\n" in done.stdout and "No pending changes.\n" in done.stdout
    assert done.stdout.count("Applied 1 change to your folder.") == 2 and not user_env.has("new.txt")


def conflicts(env, server):
    """A turn during which the person changes the same two files, and one line of a third."""
    for name in ("one.txt", "two.txt"):
        env.put(name, "old\n")
    lines = "".join(f"line {i}\n" for i in range(20))
    env.put("merge.txt", lines)

    def meanwhile(request):
        for name in ("one.txt", "two.txt"):
            env.put(name, "person\n")
        env.put("merge.txt", lines.replace("line 15\n", "person\n"))
        return Reply("Written.")

    server.script([Reply(call("bash", command="echo agent > one.txt; echo agent > two.txt; sed -i 's/^line 2$/agent/' merge.txt")), meanwhile])


@pytest.mark.parametrize("choice, text, pending", [("mine", "person\n", 0), ("theirs", "agent\n", 0),
                                                   ("markers", "<<<<<<< folder\nperson\n=======\nagent\n>>>>>>> box\n", None)])
def test_apply_resolves_conflicts_by_choice(agent_env, model_server, choice, text, pending):
    conflicts(agent_env, model_server)
    done = chat(agent_env, f"write\n/apply\n/apply {choice} one.txt\n")
    assert "merged: merge.txt (your changes and the box's)\n" in done.stdout
    assert "conflict: one.txt: " in done.stdout and "conflict: two.txt: " in done.stdout
    assert "Applied 1 change; 2 not applied, still in the box.\n" in done.stdout and "/apply mine, theirs or markers" in done.stdout
    assert agent_env.get("one.txt") == text and agent_env.get("two.txt") == "person\n", "only the path that was named"
    assert agent_env.get("merge.txt").count("person") == agent_env.get("merge.txt").count("agent") == 1
    if pending == 0:
        assert "1 file, +1 −1 not applied; kept in the session" in done.stdout, "the other one is still pending"


def test_sync_resolves_conflicts_by_choice(user_env, model_server):
    conflicts(user_env, model_server)
    done = chat(user_env, "write\n/sync\n/sync mine one.txt\n!cat one.txt two.txt merge.txt\n/apply\n")
    assert "merged: merge.txt" in done.stdout and "conflict: one.txt: " in done.stdout and "/sync mine, theirs or markers" in done.stdout
    assert "person\nagent\nline 0" in "".join(line.lstrip(" │") for line in done.stdout.splitlines(keepends=True)), done
    assert "conflict: two.txt: " in done.stdout.rsplit("/sync", 1)[-1] and user_env.get("two.txt") == "person\n"


def test_sync(user_env, model_server):
    user_env.put("a.txt", "old\n")
    model_server.script([Reply(call("write_file", path="b.txt", content="b\n")), Reply("Written.")])
    done = chat(user_env, "write\n/sync\n/sync theirs b.txt\n")
    assert done.stdout.count("The box already has the changes of your folder.\n") == 2


def test_pending_is_kept_and_told(user_env, model_server):
    model_server.script([Reply(WRITE), Reply("Written.")])
    done = chat(user_env, "write\n")
    assert not user_env.has("new.txt")
    (session,) = user_env.histories()
    assert f"not applied; kept in the session. Resume it with hutch --resume {session['session']}\n" in done.stdout
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
    assert "; retrying in 0.0s (attempt 2)]" in done.stdout and "529" in done.stdout and "At last." in done.stdout


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
    screen.wait("see /help")
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


def test_apply_mentions_changed_hooks_in_one_line(user_env, model_server):
    model_server.script([Reply(call("bash", command="mkdir -p .git/hooks; for i in 1 2 3; do echo x > .git/hooks/$i; done; echo y > new.txt")), Reply("Written.")])
    done = chat(user_env, "write\n/apply\n")
    assert done.stdout.count("hooks and configuration that the box changed in .git were not applied") == 1
    assert "Applied 1 change" in done.stdout and "not applied: " not in done.stdout
    assert "Applied 1 change to your folder.\n" in done.stdout and not user_env.has(".git/hooks/1")
