"""What is left after `kill -9` and after an interrupt: everything but the unfinished answer."""
import json
import signal

import pytest

import harness
import plays
from model_reply import Reply, call

APIS = ["anthropic", "chat", "responses"]


def lines_until(process, kind):
    """Events of `ask --json` up to the first of a kind."""
    found = []
    for line in process.stdout:
        found.append(json.loads(line))
        if found[-1]["type"] == kind:
            return found
    pytest.fail(f"it ended before any {kind}: {found} {process.stderr.read()!r}")


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("api", APIS)
def test_killed_in_the_middle_of_a_stream(agent_env, model_server, api):
    stalled = Reply("This answer is never finished, since somebody pulls the plug.", stall=0.6)
    model_server.script([Reply("First. ", call("bash", command="echo precious > work.txt")), stalled])
    process = agent_env.start_ask("begin", api=api)
    assert stalled.reached.wait(20)
    kill(process)
    (history,) = agent_env.histories()
    said = [m for m in history["messages"] if m["role"] != "hutch"]
    assert [m["role"] for m in said] == ["user", "assistant", "user"], "all but the unfinished answer is in the file"

    model_server.script([Reply(call("bash", command="cat work.txt")), plays.after("precious", "All there.")])
    done = agent_env.ask("go on", "--resume", history["session"], "--apply", api=api)
    assert done.text == "All there." and agent_env.get("work.txt") == "precious\n"
    resumed = model_server.requests[2]
    assert resumed.said[0].startswith("begin") and any(t.startswith("go on") for t in resumed.said)
    assert resumed.results[0].id == model_server.requests[1].results[0].id


@pytest.mark.parametrize("api", APIS)
def test_killed_in_the_middle_of_a_call(agent_env, model_server, api):
    model_server.script([Reply("Working. ", call("bash", command="echo half > work.txt; sleep 600; echo whole > work.txt"))])
    process = agent_env.start_ask("begin", api=api)
    lines_until(process, "tool_call")
    (box,) = harness.wait_until(agent_env.boxes, what="the box is listed")
    harness.wait_until(lambda: "half" in agent_env.hutch("box", "diff", box).stdout, what="the command has begun")
    kill(process)

    model_server.script([Reply(call("bash", command="cat work.txt")), plays.after("half", "Half there.")])
    done = agent_env.ask("go on", "--resume", "last", "--no-apply", api=api)
    assert done.text == "Half there."
    resumed = model_server.requests[1]
    assert len(resumed.calls) == len(resumed.results) == 1, "the call that was cut is answered"
    assert agent_env.boxes() == [box], "the same box goes on"


def test_box_that_is_gone_is_made_again_from_what_was_saved(user_env, model_server):
    model_server.script([Reply(call("bash", command="echo saved > work.txt")), Reply("Done.")])
    first = user_env.ask("begin", "--no-apply")
    user_env.close()  # as a reboot would
    model_server.script([Reply(call("bash", command="cat work.txt")), plays.after("saved", "Still there.")])
    assert user_env.ask("go on", "--resume", first.session, "--apply").text == "Still there."
    assert user_env.get("work.txt") == "saved\n"


@pytest.mark.parametrize("api", APIS)
def test_interrupt_in_a_stream(user_env, model_server, api):
    stalled = Reply("Half of a long answer that nobody wants any more, after all.", stall=0.6)
    model_server.script([stalled])
    process = user_env.start_ask("begin", api=api)
    assert stalled.reached.wait(20)
    lines_until(process, "text")
    process.send_signal(signal.SIGINT)
    done = user_env.finish(process)
    assert done.status == 130, done
    model_server.script([Reply("Going on.")])
    assert user_env.ask("again", "--resume", "last", api=api).text == "Going on."


@pytest.mark.parametrize("api", APIS)
def test_interrupt_in_a_call_ends_it_in_the_box(user_env, model_server, api):
    model_server.script([Reply(call("bash", command="sleep 987654"))])
    process = user_env.start_ask("begin", api=api)
    lines_until(process, "tool_call")
    harness.wait_until(lambda: any("sleep 987654" in harness.describe(p) for p in harness.descendants()), what="it runs")
    process.send_signal(signal.SIGINT)
    done = user_env.finish(process)
    assert done.status == 130, done
    harness.wait_until(lambda: not any("sleep 987654" in harness.describe(p) for p in harness.descendants()), what="it ended")
    model_server.script([Reply("Going on.")])
    assert user_env.ask("again", "--resume", "last", api=api).text == "Going on."
    assert len(model_server.requests[-1].results) == 1


def test_second_program_on_one_session_is_told(user_env, model_server):
    stalled = Reply("waits", stall=0.5)
    model_server.script([stalled])
    process = user_env.start_ask("begin")
    assert stalled.reached.wait(20)
    second = user_env.ask("too", "--resume", "last", status=125)
    assert "another" in second.stderr or str(process.pid) in second.stderr, second
    stalled.release()
    assert user_env.finish(process).status == 0


def test_torn_last_write_is_repaired(user_env, model_server):
    model_server.script([Reply(call("bash", command="echo x > y")), Reply("A long last answer."), Reply("Repaired.")])
    first = user_env.ask("begin", "--no-apply")
    (path,) = (user_env.data / "hutch" / "history").glob("*.json")
    whole = path.read_bytes()
    at = whole.index(b"A long last answer.")
    path.write_bytes(whole[:at + 5])
    assert user_env.ask("again", "--resume", first.session).text == "Repaired."
    assert len(model_server.requests[-1].results) == 1 and user_env.histories()[0]["messages"]
