"""Turns in `hutch chat` on a real terminal: stopping, saying more meanwhile, review, undo, fork, load, resume."""
import harness
import pytest
from model_reply import Reply, call

WRITE = call("write_file", path="new.txt", content="new\n")


def test_stopping_a_stream(user_env, model_server, open_chat):
    stalled = Reply("The beginning of an answer, and then nothing more comes for a long time.", stall=0.7)
    model_server.script([stalled, Reply("Fine.")])
    chat = open_chat(user_env)
    chat.say("tell me")
    assert stalled.reached.wait(20)
    chat.wait("The beginning", "Esc to stop")
    chat.keys("C-c")
    chat.wait_gone("Esc to stop")
    stalled.release()
    chat.say("go on")
    chat.wait("Fine.")
    assert "The beginning" in "".join(model_server.requests[1].spoken)
    assert chat.leave() == 0


def test_what_is_said_meanwhile_waits(user_env, model_server, open_chat):
    stalled = Reply("First answer.", stall=0.5)
    model_server.script([stalled, Reply("Second answer."), Reply("Third answer.")])
    chat = open_chat(user_env)
    chat.say("one")
    assert stalled.reached.wait(20)
    chat.say("two")
    chat.say("three")
    chat.wait("2 queued")
    chat.say("/help")  # needs no agent, and does not wait
    chat.wait("/compact")
    assert len(model_server.requests) == 1
    stalled.release()
    chat.wait("Third answer.")
    assert [r.said[-1] for r in model_server.requests] == ["one", "two", "three"]
    assert chat.leave() == 0


def test_what_waits_comes_back(user_env, model_server, open_chat):
    """Up takes back the last; stopping takes back all, before what is being written."""
    stalled = Reply("Never finished.", stall=0.5)
    model_server.script([stalled])
    chat = open_chat(user_env)
    chat.say("one")
    assert stalled.reached.wait(20)
    chat.say("two")
    chat.say("three")
    chat.wait("2 queued")
    chat.keys("Up")
    chat.wait("1 queued")
    chat.wait_input("three")
    chat.keys("Escape")
    chat.wait("› two", "  three")
    chat.wait_gone("Esc to stop")
    chat.keys("C-c")
    chat.wait("Describe a task")
    stalled.release()
    assert len(model_server.requests) == 1
    assert chat.leave() == 0


def changed(model_server, *more):
    model_server.script([Reply(WRITE), Reply("Written."), *more])


def test_review_applies(agent_env, model_server, open_chat):
    changed(model_server)
    chat = open_chat(agent_env)
    chat.say("write")
    chat.wait("1 file, +1 −0 to review", "[a] apply")
    chat.type("a")
    chat.wait("▸ [a] apply")
    assert not agent_env.has("new.txt"), "a letter alone may begin a sentence"
    chat.type("h")
    chat.wait_gone("[a] apply")
    chat.keys("BSpace")
    chat.wait("▸ [a] apply")
    chat.keys("Enter")
    chat.wait("Applied 1 change")
    assert agent_env.get("new.txt") == "new\n"
    assert "[a] apply" not in chat.screen()
    assert chat.leave() == 0


def test_review_shows_and_undoes(user_env, model_server, open_chat):
    changed(model_server)
    chat = open_chat(user_env, height=40)
    chat.say("write")
    chat.wait("to review")
    chat.keys("Tab", "Tab")
    chat.wait("▸ [d] diff")
    chat.keys("Enter")
    chat.wait("+new", "[u] undo")
    chat.say("u")
    chat.wait("Undid turn 1: restored 1 file in the box")
    assert "Written." not in chat.screen()
    assert not user_env.has("new.txt")
    assert chat.leave() == 0
    assert user_env.boxes() == []


def test_undo_after_apply_is_pending(agent_env, model_server, open_chat):
    changed(model_server)
    chat = open_chat(agent_env, width=120)
    chat.say("write")
    chat.wait("to review")
    chat.say("a")
    chat.wait("Applied 1 change")
    chat.say("/undo")
    chat.wait("Undid turn 1: restored 1 file in the box", "the pending diff reverts it; /apply to do so.")
    assert agent_env.get("new.txt") == "new\n", "an undo does not write to the folder"
    chat.keys("C-u")
    chat.say("/diff")
    chat.wait("-new", "1 file, +0 −1")
    chat.say("/apply")
    chat.wait("Applied 1 change")
    assert not agent_env.has("new.txt")
    assert chat.leave() == 0


def test_review_is_in_nobodys_way(user_env, model_server, open_chat):
    changed(model_server, Reply("Going on."))
    chat = open_chat(user_env, hold=True)
    chat.say("write")
    chat.wait("to review")
    chat.say("undo nothing, add more")
    chat.wait("Going on.")
    chat.wait("to review")
    chat.say("k")
    chat.wait_gone("to review")
    chat.say("/quit")
    chat.wait_end()
    assert "1 file, +1 −0 not applied; kept in the session. Resume it with hutch --resume" in " ".join(chat.everything().split())


def test_no_apply_offers_nothing(user_env, model_server, open_chat):
    changed(model_server)
    chat = open_chat(user_env, "--no-apply")
    chat.say("write")
    chat.wait("Written.", "1 file changed")
    assert "to review" not in chat.screen()
    assert chat.leave() == 0


def test_conflicts_are_told_and_left(user_env, model_server, open_chat):
    user_env.put("new.txt", "old\n")
    stalled = Reply("Written.", stall=0.5)
    model_server.script([Reply(WRITE, call("write_file", path="other.txt", content="other\n")), stalled])
    chat = open_chat(user_env)
    chat.say("write")
    assert stalled.reached.wait(20)
    user_env.put("new.txt", "mine\n")
    stalled.release()
    chat.wait("2 files", "to review")
    chat.say("a")
    chat.wait("conflict: new.txt", "Applied 1 change; 1 not applied", "/apply mine, theirs or markers")
    assert (user_env.get("new.txt"), user_env.get("other.txt")) == ("mine\n", "other\n")
    chat.say("/diff")
    chat.wait("+new")
    chat.keys("C-u")
    chat.say("/apply nothing.txt")
    chat.wait("no pending change in 'nothing.txt'")
    chat.keys("C-u")
    chat.say("/apply theirs new.txt")
    chat.wait("Applied 1 change to your folder")
    assert user_env.get("new.txt") == "new\n"
    assert chat.leave() == 0


def test_fork_and_load(user_env, model_server, open_chat):
    changed(model_server, Reply("In the fork."), Reply("In the first."))
    chat = open_chat(user_env, "--no-apply", width=120)
    chat.say("write")
    chat.wait("Written.")
    (first,) = user_env.histories()
    chat.say("/fork 7")
    chat.wait("turn 7 does not exist")
    chat.keys("C-u")
    chat.say("/fork")
    chat.wait("Forked to session", f"/load {first['session']}")
    chat.say("here")
    chat.wait("In the fork.")
    chat.type("/load ")
    chat.wait(first["session"])  # completed
    chat.say(first["session"])
    chat.wait("Return to the previous session with /load")
    assert "In the fork." not in chat.screen() and "Written." in chat.screen()
    chat.say("there")
    chat.wait("In the first.")
    assert model_server.requests[-1].said == ["write", "there"]
    chat.say("/sessions")
    chat.wait("2 turns", first["session"])
    assert chat.leave() == 0
    assert len(user_env.histories()) == 2


def test_resume_shows_the_conversation_and_what_is_pending(user_env, model_server, open_chat):
    changed(model_server, Reply("Again."))
    chat = open_chat(user_env)
    chat.say("write")
    chat.wait("to review")
    assert chat.leave() == 0
    again = open_chat(user_env, "--resume", "last")
    again.wait("› write", "write_file", "Written.", "1 file, +1 −0 to review")
    again.say("a")
    again.wait("Applied 1 change")
    assert user_env.has("new.txt")
    again.say("more")
    again.wait("Again.")
    assert again.leave() == 0


def test_a_second_program_is_told(user_env, model_server, open_chat):
    model_server.script([Reply("Here.")])
    chat = open_chat(user_env)
    chat.say("one")
    chat.wait("Here.")
    (session,) = user_env.histories()
    done = user_env.hutch("chat", "--resume", session["session"], "--model", "anthropic/scripted-1", input="")
    assert done.returncode == 125 and session["session"] in done.stderr
    assert chat.leave() == 0


@pytest.mark.parametrize("how", ["clear", "export"])
def test_other_commands(user_env, model_server, open_chat, how):
    model_server.script([Reply("The `answer`.")] + [Reply("Anew.")] * (how == "clear"))
    chat = open_chat(user_env)
    chat.say("question")
    chat.wait("The answer.")
    if how == "clear":
        chat.say("/clear")
        chat.wait("Started a new conversation")
        assert "The answer." not in chat.screen()
        chat.say("next")
        chat.wait("Anew.")
        assert model_server.requests[1].said == ["next"]
    else:
        chat.say("/export talk.md")
        chat.wait("Wrote talk.md")
        text = user_env.get("talk.md")
        assert "question" in text and "The `answer`." in text
        chat.say("/export talk.md")
        chat.wait("already exists")
    assert chat.leave() == 0


def test_attempts(user_env, model_server, open_chat):
    def reply(request):
        if request.results:
            return Reply("Tried.")
        return Reply(call("bash", command="echo $RANDOM > tried.txt"))

    model_server.script(reply)
    chat = open_chat(user_env, width=120)
    chat.say("/attempts 2 test -s tried.txt")
    chat.wait("2 agents will try")
    chat.say("try it")
    chat.wait("Continuing with attempt", "to review")
    chat.say("a")
    chat.wait("Applied 1 change")
    assert user_env.has("tried.txt")
    chat.say("/attempts")
    chat.wait("One agent works on each task")
    assert chat.leave() == 0


def test_terminal_goes_away(user_env, model_server, open_chat):
    """The program ends with its terminal, in the middle of a turn, and the conversation is kept."""
    stalled = Reply("Never finished.", stall=0.5)
    model_server.script([stalled])
    chat = open_chat(user_env)
    pid = chat.pid
    chat.say("one")
    assert stalled.reached.wait(20)
    chat.close()
    harness.wait_until(lambda: pid not in harness.descendants(), what="it ends")
    stalled.release()
    assert user_env.histories()[0]["messages"]
