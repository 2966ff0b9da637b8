"""An agent between its turns: undo, forks, going on later. Driven without a terminal (tests/unit/agent/agent_run.c)."""
import json

import pytest

import harness
from model_reply import Reply, call


class Driver(harness.Dialogue):
    """One agent_run: a command in, its answer out."""

    def __init__(self, program, env, *session):
        self.env = env
        super().__init__([*env.caller.prefix, program, env.workspace, env.speak("anthropic"), *session], env=env.env)

    def __call__(self, command, fails=False):
        answer = self.say(command)
        assert fails == (answer["result"] < 0), answer
        return answer


@pytest.fixture
def drive(agent_env, scratch):
    program = harness.beside_parts(harness.built("agent/agent_run"), agent_env.caller, scratch)
    return lambda *session: Driver(program, agent_env, *session)


def writes(name, text):
    """A turn that writes a file by a shell command, which no editor's undo would see."""
    return [Reply(call("bash", command=f"mkdir -p sub && echo {text} > sub/{name} && echo {text} > /tmp/{name}")), Reply("Done.")]


def looks(command):
    return [Reply(call("bash", command=command)), Reply("Seen.")]


def last_output(server):
    """What the model was told that its last call gave."""
    for message in reversed(server.requests[-1].body["messages"]):
        for block in message["content"]:
            if block["type"] == "tool_result":
                return block["content"][0]["text"]
    raise AssertionError("no call was answered")


def said(server):
    """The person's words in the last request."""
    return [b["text"] for m in server.requests[-1].body["messages"] if m["role"] == "user"
            for b in m["content"] if b["type"] == "text"]


def test_undo_takes_back_files_and_words(drive, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2"), *writes("one", "3")])
    for words in ("first", "second", "third"):
        a(f"turn {words}")
    undone = a("undo 2")
    assert list(undone["changes"]) == ["sub/one"] and undone["state"]["turns"] == 1
    model_server.script(looks("cat sub/one; (cd /tmp; ls -d one two 2>/dev/null); ls sub"))
    a("turn what is there")
    assert last_output(model_server).split() == ["1", "one", "one"], "files elsewhere in the box are taken back, too"
    assert not [w for w in said(model_server) if "second" in w or "third" in w]
    a.end()


def test_undo_of_all_leaves_the_folder_as_it_was(drive, agent_env, model_server):
    agent_env.put("kept.txt", "as it was\n")
    a = drive()
    model_server.script([Reply(call("bash", command="rm kept.txt; echo new > new.txt")), Reply("Done.")])
    assert set(a("turn go")["changes"]) == {"kept.txt", "new.txt"}
    assert a("undo 1")["changes"] == {}
    a("undo 1", fails=True)
    a.end()
    assert agent_env.boxes() == [], "a box without changes is not kept"


def test_undo_after_a_crash(drive, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2")])
    a("turn first")
    session = a("turn second")["state"]["session"]
    a.kill()
    b = drive(session)
    assert set(b.opened["changes"]) == {"sub/one", "sub/two"} and b.opened["notes"] == []
    undone = b("undo 1")
    assert set(undone["changes"]) == {"sub/one"}
    assert undone["notes"] == ["Undid turn 2: restored 1 file in the box and removed it from the conversation.\n"]
    b.end()


def test_undo_where_the_box_is_gone_says_so(drive, agent_env, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2")])
    a("turn first")
    session = a("turn second")["state"]["session"]
    a.end()
    agent_env.hutch("box", "rm", *agent_env.boxes())
    b = drive(session)
    assert set(b.opened["changes"]) == {"sub/one", "sub/two"}, "brought back from what was saved"
    assert any("no longer exists" in note for note in b.opened["notes"])
    undone = b("undo 1")
    assert any("so the files stay as they are" in note for note in undone["notes"]) and undone["state"]["turns"] == 1
    model_server.script(writes("three", "3"))
    b("turn third")
    assert set(b("undo 1")["changes"]) == {"sub/one", "sub/two"}, "what was done since can be undone"
    b.end()


def test_fork_from_a_turn_has_its_files_and_its_words(drive, agent_env, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2")])
    a("turn first")
    first = a("turn second")
    forked = a("fork 1")
    assert forked["state"]["session"] != first["state"]["session"] and forked["box"] != first["box"]
    assert set(forked["changes"]) == {"sub/one"} and forked["state"]["turns"] == 1
    model_server.script(writes("other", "x"))
    assert set(a("turn another way")["changes"]) == {"sub/one", "sub/other"}
    assert not [w for w in said(model_server) if "second" in w]
    assert set(a("use 0")["changes"]) == {"sub/one", "sub/two"}, "the first goes on as it was"
    a.end()
    assert len(agent_env.histories()) == 2 and len(agent_env.boxes()) == 2


def test_undo_in_a_fork_beyond_where_it_began(drive, agent_env, model_server):
    """Also when the first conversation and its box are gone."""
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2"), *writes("three", "3")])
    a("turn first")
    a("turn second")
    parent = a("state")["box"]
    a("fork 0")
    a("turn third")
    agent_env.hutch("box", "rm", parent)
    undone = a("undo 2")
    assert set(undone["changes"]) == {"sub/one"} and undone["state"]["turns"] == 1
    assert undone["notes"] == ["Undid turns 2 to 3: restored 2 files in the box and removed them from the conversation.\n"]
    again = a("undo 1")
    assert again["changes"] == {} and again["notes"][0].startswith("Undid turn 1: restored 1 file in the box")
    model_server.script(writes("four", "4"))
    assert set(a("turn fourth")["changes"]) == {"sub/four"}
    a.end()


def test_fork_of_a_fork_from_a_turn_before_both(drive, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), *writes("two", "2"), *writes("three", "3")])
    a("turn first")
    a("turn second")
    a("fork 0")
    a("turn third")
    a("fork 0")
    assert set(a("fork 1")["changes"]) == {"sub/one"}
    assert set(a("undo 1")["changes"]) == set()
    a.end()


def test_fork_from_now(drive, model_server):
    a = drive()
    model_server.script(writes("one", "1"))
    a("turn first")
    assert set(a("fork 0")["changes"]) == {"sub/one"}
    a("fork 9", fails=True)
    a.end()


def test_background_commands_are_known_after_a_crash(drive, model_server):
    a = drive()
    model_server.script([Reply(call("bash", command="sleep 1000", background=True)), Reply("Started.")])
    assert a("turn start it")["state"]["running"] == 1
    session = a("state")["state"]["session"]
    a.kill()
    b = drive(session)
    model_server.script([Reply("It runs.")])
    b("turn does it run")
    assert "sleep 1000" in json.dumps(model_server.requests[-1].body["messages"][-1])
    model_server.script([Reply(call("bash", handle=1, kill=True)), Reply("Ended.")])
    assert b("turn end it")["state"]["running"] == 0
    b.end()


def test_plan_and_usage_are_there_again(drive, model_server):
    a = drive()
    model_server.script([Reply(call("plan", items=[{"text": "dig a tunnel", "state": "active"}])), Reply("Planned.")])
    used = a("turn plan it")["state"]
    a.end()
    b = drive(used["session"])
    assert b.opened["state"]["output"] == used["output"] > 0
    model_server.script([Reply("I go on.")])
    b("turn go on")
    assert "dig a tunnel" in json.dumps(model_server.requests[-1].body["messages"][-1])
    b.end()


def test_commands_of_the_person_in_the_box_count(drive, agent_env, model_server):
    a = drive()
    assert set(a("own echo 1 > mine")["changes"]) == {"mine"}
    model_server.script(writes("one", "1"))
    assert set(a("turn first")["changes"]) == {"mine", "sub/one"}
    session = a("own echo 2 > also")["state"]["session"]
    a.end()
    assert len(agent_env.boxes()) == 1, "the box is kept for what the person did"
    b = drive(session)
    assert set(b.opened["changes"]) == {"mine", "also", "sub/one"}
    assert set(b("undo 1")["changes"]) == {"mine"}
    b.end()


def test_clear_forgets_the_words_and_keeps_the_files(drive, model_server):
    a = drive()
    model_server.script([*writes("one", "1"), Reply("Fresh.")])
    a("turn remember the badger")
    assert set(a("clear")["changes"]) == {"sub/one"}
    a("turn hello")
    assert "badger" not in json.dumps(model_server.requests[-1].body["messages"])
    a.end()


def test_apply_leaves_nothing_to_bring_back(drive, agent_env, model_server):
    a = drive()
    model_server.script(writes("one", "1"))
    a("turn first")
    applied = a("apply")
    assert applied["changes"] == {} and agent_env.get("sub/one") == "1\n"
    a.end()
    assert agent_env.boxes() == [] and not list((agent_env.data / "hutch" / "history").glob("*.patch"))
