"""`hutch ask` as a person and a script see it: words on stdout, short lines on stderr, exit status, events."""
import json
import os
import signal
import subprocess

import pytest

from agent_env import Asked
from harness import wait_until
from model_reply import Reply, call

TYPES = {"session", "text", "thinking", "tool_call", "tool_result", "usage", "changes", "done", "error"}


def plain(env, *words, **more):
    return env.hutch("ask", "--model", env.speak("anthropic"), "-w", env.workspace, *words, **more)


def test_words_go_to_stdout_and_everything_else_to_stderr(agent_env, model_server):
    model_server.script([Reply("I look.", call("bash", command="echo hi > new.txt")), Reply("All is done.")])
    done = plain(agent_env, "go")
    assert done.returncode == 0 and done.stdout == "I look.\nAll is done.\n", done
    assert "▸ bash  echo hi > new.txt" in done.stderr and "✓" in done.stderr
    assert "added    new.txt +1 -0" in done.stderr and "1 file changed, +1 -0" in done.stderr
    (box,) = agent_env.boxes()
    assert f"hutch box apply {box}" in done.stderr and "hutch --resume 20" in done.stderr
    applied = agent_env.hutch("box", "apply", box)
    assert applied.returncode == 0 and agent_env.get("new.txt") == "hi\n"


def test_prompt_is_words_or_stdin_or_both(user_env, model_server):
    def first(*words, **more):
        model_server.script([Reply("Yes.")])
        assert plain(user_env, *words, **more).returncode == 0
        return model_server.requests[-1].body["messages"][0]["content"][0]["text"]

    assert first("several", "words") == "several words"
    assert first("-", input="from stdin\n").startswith("from stdin")
    assert first(input="piped\n").startswith("piped")
    assert first("explain this:", "-", input="a log\n").startswith("explain this:\n\na log")


@pytest.mark.parametrize("args, word", [
    (["-"], "empty"), (["--apply", "--no-apply", "x"], "contradict"), (["--apply", "--mode", "direct", "x"], "cow"),
    (["--attempts", "99", "--test", "true", "x"], "at most"), (["--attempts", "2", "x"], "--test"),
    (["--max-turns", "x", "y"], "--max-turns")])
def test_wrong_usage_says_what(user_env, model_server, args, word):
    done = plain(user_env, *args, input="  \n")
    assert done.returncode == 2 and word in done.stderr and not model_server.requests, done


def test_conflicts_are_told_and_left_alone(user_env, model_server):
    user_env.put("a.txt", "one\n")
    user_env.put("b.txt", "one\n")

    def meddle(request):
        if request.answers:
            user_env.put("a.txt", "the person's\n")
            return Reply("Done.")
        return Reply(call("bash", command="echo agent > a.txt; echo agent > b.txt"))

    model_server.script(meddle)
    done = user_env.ask("go", "--apply", status=1)
    assert user_env.get("a.txt") == "the person's\n" and user_env.get("b.txt") == "agent\n"
    assert "conflict: a.txt" in done.stderr
    assert done.one("done")["conflicts"] == 1 and done.one("done")["applied"] is False
    assert len(user_env.boxes()) == 1, "what is not applied stays"


def test_events_are_of_known_types_and_complete(user_env, model_server):
    model_server.script([Reply("I write.", call("write_file", path="a/b.txt", content="x\ny\n")), Reply("Done.")])
    done = user_env.ask("go", "--apply")
    assert {e["type"] for e in done.all} <= TYPES
    assert [e["type"] for e in done.all][0] == "session" and done.all[-1]["type"] == "done"
    asked, answered = done.one("tool_call"), done.one("tool_result")
    assert asked["id"] == answered["id"] and asked["input"] == {"path": "a/b.txt", "content": "x\ny\n"}
    assert answered["failed"] is False and answered["seconds"] >= 0 and answered["data"]["lines"] == 2
    assert done.one("changes")["changes"] == [{"path": "a/b.txt", "kind": "added", "added": 2, "deleted": 0, "binary": False}]
    usage = done.events("usage")
    assert usage[-1]["session"]["output"] == sum(u["output"] for u in usage)
    end = done.one("done")
    assert end["applied"] is True and end["status"] == 0 and end["stop"] == "end_turn" and "box" not in end


def test_interrupt_says_so_and_the_session_goes_on(user_env, model_server):
    model_server.script([Reply(call("bash", command="touch began; sleep 1000")), Reply("Never asked for.")])
    process = user_env.start_ask("go")
    wait_until(lambda: user_env.boxes(), what="a box")
    box = user_env.boxes()[0]
    wait_until(lambda: user_env.hutch("box", "exec", box, "--", "test", "-e", "/workspace/began").returncode == 0,
               what="the command in the box")
    os.kill(process.pid, signal.SIGINT)
    done = user_env.finish(process)
    assert done.status == 130 and done.one("done")["why"] == "interrupted", done
    seen = user_env.hutch("box", "exec", box, "--", "pgrep", "sleep")
    assert seen.returncode == 1, "nothing of it runs on"
    model_server.script([Reply("I go on.")])
    assert user_env.ask("go on", "--resume", done.session).text == "I go on."
    (result,) = [b for m in model_server.requests[-1].body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "interrupted" in json.dumps(result) and result["is_error"]


def test_a_box_that_nobody_asks_anything_of_does_not_stay_for_ever(user_env, model_server):
    model_server.script([Reply(call("bash", command="touch x")), Reply("Done.")])
    user_env.ask("go")
    (box,) = json.loads(user_env.hutch("box", "ls", "--json").stdout)
    left = next(v for k, v in box.items() if "left" in k or "ttl" in k)
    assert left is not None and left > 23 * 3600, box


def test_resume_works_on_the_folder_of_the_session(user_env, model_server):
    model_server.script([Reply(call("bash", command="echo 1 > x")), Reply("Done.")])
    first = user_env.ask("go")
    other = user_env.caller.folder(user_env.box.scratch, "other")
    model_server.script([Reply("Here.")])
    done = Asked(user_env.hutch("ask", "--json", "--model", user_env.speak("anthropic"), "-w", other, "--resume", first.session, "go"))
    assert done.status == 0 and str(user_env.workspace) in done.stderr, done


def test_resume_says_that_options_do_not_change_a_box_that_is_there(user_env, model_server):
    model_server.script([Reply(call("bash", command="echo 1 > x")), Reply("Done."), Reply("Here."), Reply("Here.")])
    first = user_env.ask("go")
    assert "do not change it" not in user_env.ask("go on", "--resume", first.session).stderr
    assert "do not change it" in user_env.ask("go on", "--resume", first.session, "--memory", "1G").stderr


def test_second_interrupt_ends_at_once(user_env, model_server):
    model_server.script([Reply("Wait for me.", stall=0.5)])
    process = user_env.start_ask("go")
    wait_until(lambda: model_server.requests, what="a request")
    for _ in range(2): # the first may have been enough by then
        os.kill(process.pid, signal.SIGINT)
    assert process.wait(10) in (130, -signal.SIGINT)
    process.stdout.close()
    process.stderr.close()


def test_what_runs_in_parallel_is_answered_in_order(user_env, model_server):
    names = [f"f{i}" for i in range(24)]
    for name in names:
        user_env.put(name, name * 3)
    model_server.script([Reply(*(call("read_file", path=name) for name in names)), Reply("Read.")])
    done = user_env.ask("go")
    results = [b for b in model_server.requests[-1].body["messages"][-1]["content"] if b["type"] == "tool_result"]
    assert [name * 3 in json.dumps(r) for name, r in zip(names, results)] == [True] * 24
    assert len(done.events("tool_call")) == len(done.events("tool_result")) == 24


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["words", "json"])
def test_output_that_cannot_be_written_is_a_failure(agent_env, model_server, options):
    model_server.script([Reply("All is done.")])
    with open("/dev/full", "wb") as out:
        asked = agent_env.start("ask", *options, "--model", agent_env.speak("anthropic"), "-w", agent_env.workspace, "go", stdout=out)
        said = asked.communicate(timeout=300)[1].decode()
    assert asked.returncode == 125
    assert said.endswith("hutch: cannot write to standard output: No space left on device\n") and said.count("cannot write") == 1


def test_chat_without_a_terminal_ends_when_it_cannot_be_read(agent_env, model_server):
    model_server.script([Reply("One.")])
    with open("/dev/full", "wb") as out:
        chat = agent_env.start("chat", "--model", agent_env.speak("anthropic"), "-w", agent_env.workspace, stdout=out,
                               stdin=subprocess.PIPE)
        said = chat.communicate(b"first\nsecond\n", timeout=300)[1].decode()
    assert (chat.returncode, said) == (125, "hutch: cannot write to standard output: No space left on device\n")


def test_a_build_of_more_than_2_gb_fits_and_leaves_nothing(agent_env, model_server):
    build = "dd if=/dev/zero of=/tmp/out bs=1M count=2200 status=none; stat -c size=%s /tmp/out"
    model_server.script([Reply(call("bash", command=build)), Reply("Built.")])
    done = plain(agent_env, "build", timeout=120)
    assert done.returncode == 0, done
    assert f"size={2200 << 20}" in json.dumps(model_server.requests[-1].body)
    store = os.path.join(agent_env.env["XDG_STATE_HOME"], "hutch/store")
    wait_until(lambda: not os.listdir(store), 30, "an empty store")
