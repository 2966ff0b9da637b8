"""Sessions over HTTP: messages, events, undo, fork, diff, apply, cancel, and who may do what."""
import json

import pytest
from session_kit import Beside, Session, end_all, model_environment, only, text_of, types, wait_for

from model_reply import Reply, call
from model_server import ModelServer

COMMAND = "echo new >a.txt; echo more >b.txt; touch /tmp/trace"
WRITE = Reply("I write it.", call("bash", command=COMMAND))
DONE = Reply("All is done.")


@pytest.fixture
def model():
    with ModelServer() as server:
        yield server


@pytest.fixture
def server(start_server, box, model):
    server = start_server(workers=1, env=model_environment(box, model))
    yield server
    end_all(server)


@pytest.fixture
def session(server):
    return Session(server, files={"a.txt": "old\n", "keep.txt": "kept\n"})


def test_message_streams_its_events_in_order(session, model):
    model.script([WRITE, Reply("First paragraph.\n\nThe second one.", piece=3)])
    events = session.say("change a.txt")
    assert types(events)[:2] == ["session", "message"] and events[-1]["type"] == "done"
    kinds = [k for k in types(events) if k in ("text", "tool_call", "tool_result", "changes", "done")]
    assert [k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k] == [
        "text", "tool_call", "tool_result", "text", "changes", "done"]
    assert len([e for e in events if e["type"] == "text"]) > 4
    assert only(events, "tool_call")["input"] == {"command": COMMAND}
    assert not only(events, "tool_result")["failed"]
    assert text_of(events) == "I write it.First paragraph.\n\nThe second one."
    assert {c["path"]: c["kind"] for c in only(events, "changes")["changes"]} == {"a.txt": "modified", "b.txt": "added"}
    done = only(events, "done")
    assert (done["session"], done["turn"], done["status"]) == (session.id, 1, 0)


def test_text_is_stored_by_paragraphs(session, model):
    model.script([Reply("First paragraph.\n\nThe second one.", piece=2)])
    events = session.say("speak")
    stored = session.wait_stored(lambda e: e["type"] == "done", "the end is stored") and session.stored()
    assert [e["text"] for e in stored if e["type"] == "text"] == ["First paragraph.\n\n", "The second one."]
    assert text_of(stored) == text_of(events)
    assert [e["text"] for e in stored if e["type"] == "message"] == ["speak"]


def test_viewers_see_the_same_and_continue_behind_a_number(session, model):
    model.script([WRITE, DONE])
    viewers = [Beside(lambda: session.follow_until("done")) for _ in range(2)]
    session.say("change a.txt")
    first, second = [v.join() for v in viewers]
    assert first == second
    assert [n for n, _ in first] == list(range(1, len(first) + 1))
    for after in (1, len(first) // 2, len(first) - 1):
        assert session.follow_until("done", after) == first[after:]


def test_turn_goes_on_when_its_client_leaves(session, model):
    model.script([Reply("Slowly.", call("bash", command="sleep 2; echo late >late.txt")), DONE])
    stream = session.stream("take your time")
    while next(stream)["type"] != "tool_call":
        pass
    stream.close()
    session.follow_until("done")
    assert session.paths() == ["late.txt"]


def test_conversation_for_a_page_that_reloads(session, model):
    model.script([WRITE, DONE])
    session.say("change a.txt")
    page = session.get("messages")
    assert [(i["kind"], i["turn"]) for i in page["items"]] == [("person", 1), ("answer", 1), ("call", 1), ("answer", 1)]
    assert [i["text"] for i in page["items"] if i["kind"] == "answer"] == ["I write it.", "All is done."]
    asked, made = page["items"][0], page["items"][2]
    assert asked["text"] == "change a.txt" and page["next"] is None
    assert (made["name"], made["failed"], made["answered"]) == ("bash", False, True)
    assert session.get(f"messages?from={made['message']}")["items"] == page["items"][1:]


def test_long_conversation_comes_in_pages(session, model):
    model.script([Reply("x" * 30000) for _ in range(12)])
    for n in range(12):
        session.say(f"message {n}")
    items, start = [], 0
    while start is not None:
        page = session.get(f"messages?from={start}")
        assert len(json.dumps(page)) < 1 << 20
        items, start = items + page["items"], page["next"]
    assert [i["text"] for i in items if i["kind"] == "person"] == [f"message {n}" for n in range(12)]
    assert len([i for i in items if i["kind"] == "answer"]) == 12


def test_large_output_is_cut_in_events(session, model):
    model.script([Reply(call("bash", command="head -c 300000 /dev/zero | tr '\\0' x")), DONE])
    session.say("much")
    session.follow_until("done")
    for event in session.stored():
        assert len(json.dumps(event)) < 64 << 10
    assert [e["truncated"] for e in session.stored() if e["type"] == "tool_result"] == [True]


def test_undo_restores_files_and_conversation(session, model):
    model.script([WRITE, DONE, Reply("Now again.", call("bash", command="rm keep.txt")), DONE])
    session.say("change a.txt")
    session.say("remove keep.txt")
    assert sorted(session.paths()) == ["a.txt", "b.txt", "keep.txt"]
    undone = session.post("undo")
    assert undone["text"] == "Undid turn 2: restored 1 file in the box and removed it from the conversation.\n"
    assert (undone["first"], undone["last"], undone["files"], undone["restored"]) == (2, 2, "restored", 1)
    assert sorted(session.paths()) == ["a.txt", "b.txt"]
    assert session.get("state")["turns"] == 1
    assert [i["text"] for i in session.get("messages")["items"] if i["kind"] == "person"] == ["change a.txt"]
    assert session.post("undo", {"turns": 1})["last"] == 1 and session.paths() == []
    assert session.post("undo", status=400).problem == "invalid"


def test_fork_has_the_conversation_and_a_box_of_its_own(session, model):
    model.script([WRITE, DONE, Reply("More.", call("bash", command="echo third >c.txt")), DONE])
    session.say("change a.txt")
    fork = session.fork(title="another way")
    assert fork.get()["title"] == "another way" and fork.get()["state"] == "running"
    fork.say("go on")
    assert sorted(fork.paths()) == ["a.txt", "b.txt", "c.txt"] and sorted(session.paths()) == ["a.txt", "b.txt"]
    assert "change a.txt" in json.dumps(model.requests[-1].body)
    earlier = fork.fork(turn=1)
    assert sorted(earlier.paths()) == ["a.txt", "b.txt"] and earlier.get("state")["turns"] == 1
    session.server.delete(session.path())
    wait_for(lambda: session.get()["state"] == "cancelled", "the first session has ended")
    assert sorted(fork.paths()) == ["a.txt", "b.txt", "c.txt"]
    assert fork.post("apply")["applied"] == 3 and fork.workspace()["c.txt"] == "third\n"


def test_fork_that_is_not_possible_leaves_no_session(session, model):
    model.script([DONE])
    session.say("hello")
    session.post("fork", {"turn": 9}, status=400)
    listed = session.get()["id"], [s["state"] for s in session.server.get("/v1/sessions").json()["sessions"]]
    wait_for(lambda: sorted(s["state"] for s in session.server.get("/v1/sessions").json()["sessions"]) ==
             ["cancelled", "running"], f"the fork's job has ended: {listed}")


def test_diff_and_apply_change_the_workspace(session, model):
    model.script([WRITE, DONE])
    session.say("change a.txt")
    diff = session.diff()
    assert "diff --git a/a.txt b/a.txt" in diff and "-old" in diff and "+new" in diff
    assert session.workspace() == {"a.txt": "old\n", "keep.txt": "kept\n"}
    first = session.post("apply", {"paths": ["b.txt"]})
    assert (first["applied"], first["conflicts"]) == (1, 0)
    assert first["paths"] == [{"path": "b.txt", "outcome": "applied", "why": None}]
    assert session.workspace() == {"a.txt": "old\n", "b.txt": "more\n", "keep.txt": "kept\n"}
    session.post("apply")
    assert session.workspace() == {"a.txt": "new\n", "b.txt": "more\n", "keep.txt": "kept\n"}
    assert session.diff() == "" and session.paths() == []


def test_apply_reports_conflicts_and_takes_a_choice(session, model):
    model.script([DONE])
    session.say("hello")
    fork = session.fork()
    session.run("echo mine >a.txt")
    fork.run("echo theirs >a.txt")
    assert session.post("apply")["applied"] == 1
    met = fork.post("apply")
    assert (met["applied"], met["conflicts"]) == (0, 1) and met["paths"][0]["outcome"] == "conflict"
    assert fork.workspace()["a.txt"] == "mine\n"
    fork.post("apply", {"on_conflict": "theirs"})
    assert fork.workspace()["a.txt"] == "theirs\n"
    session.post("sync")
    assert session.run("cat a.txt") == "theirs\n"


def test_session_without_a_workspace_can_apply(server, model):
    model.script([Reply(call("write_file", path="new/a.txt", content="hello\n")), DONE])
    session = Session(server)
    session.say("write")
    assert session.post("apply")["applied"] >= 1
    assert session.workspace()["new/a.txt"] == "hello\n"


def test_cancel_in_the_middle_of_a_command(session, model):
    model.script([Reply(call("bash", command="echo begun >begun; sleep 1000")), Reply("Still here.")])
    assert session.post("cancel") == {"cancelled": False}
    answer = session.say_beside("wait")
    session.wait_stored(lambda e: e["type"] == "tool_call", "the command runs")
    assert session.get("state")["busy"]
    assert session.post("cancel") == {"cancelled": True}
    events = answer.join()
    assert only(events, "done")["why"] == "interrupted" and only(events, "done")["status"] == 1
    assert only(events, "tool_result")["failed"]
    assert session.run("pgrep sleep || echo none") == "none\n"
    assert text_of(session.say("are you there?")) == "Still here."


def test_second_message_is_refused_or_queued(session, model):
    model.script([Reply(call("bash", command="while [ ! -e go ]; do sleep 0.2; done")), Reply("One."), Reply("Two.")])
    first = session.say_beside("first")
    session.wait_stored(lambda e: e["type"] == "tool_call", "the first is answered")
    refused = session.post("messages", {"text": "second"}, status=409)
    assert refused.problem == "busy" and "queue" in refused.json()["detail"]
    for below in ("undo", "apply", "compact", "fork"):
        assert session.post(below, status=409).problem == "busy"
    second = session.say_beside("second", queue=True)
    wait_for(lambda: session.get("state")["waiting"] == 1, "the second waits")
    # The person's own command would wait, too, so the file comes by the first command's box: the cancel ends it.
    session.post("cancel")
    assert only(first.join(), "done")["why"] == "interrupted"
    events = second.join()
    assert types(events)[0] == "queued" and text_of(events) == "One."
    assert [e["text"] for e in session.stored() if e["type"] == "message"] == ["first", "second"]


def test_command_of_the_person_is_seen_by_the_model(session, model):
    model.script([DONE])
    names = [t["name"] for t in session.get("tools")["tools"]]
    assert {"bash", "read_file", "plan", "memory"} <= set(names) and not {"git_push", "create_pr"} & set(names)
    answer = session.post("tools/bash", {"command": "echo from the person"})
    assert answer["data"]["output"] == "from the person\n" and not answer["failed"]
    assert session.post("tools/read_file", {"path": "none"})["failed"]
    assert session.post("tools/nothing", {})["failed"]
    session.say("what did I do?")
    assert "I ran this in the box myself: echo from the person" in json.dumps(model.requests[0].body)
    assert [e["id"] for e in session.stored() if e["type"] == "tool_call"][:1] == ["!1"]


def test_model_can_be_changed(session, model):
    model.script([DONE, DONE])
    session.say("hello")
    assert session.post("model", {"model": "anthropic/scripted-2"})["model"] == "anthropic/scripted-2"
    session.say("hello again")
    assert [r.body["model"] for r in model.requests] == ["scripted-1", "scripted-2"]
    assert session.post("model", {"model": "replay//etc/passwd"}, status=422).problem == "invalid-session"
    assert "no API key" in session.post("model", {"model": "openai/x"}, status=400).json()["detail"]


def test_compact_summarises(session, model):
    model.script([Reply("One."), Reply("Two."), Reply("A summary of it."), Reply("Three.")])
    session.say("first")
    session.say("second")
    session.post("compact")
    session.say("third")
    assert "A summary of it." in json.dumps(model.requests[-1].body)


def test_model_that_fails_is_an_error_event(session, model):
    model.strict = False
    model.script([Reply("no", status=401), Reply("Back.")])
    events = session.say("hello")
    assert events[-1]["type"] == "error" and not events[-1]["retrying"]
    assert text_of(session.say("again")) == "Back."


def test_limits_end_a_turn(server, model):
    model.script([Reply(call("bash", command="true")) for _ in range(5)])
    session = Session(server, max_turns=2)
    done = only(session.say("go on for ever"), "done")
    assert done["status"] == 1 and "limit of 2 answers" in done["why"]


def test_system_prompt_of_the_session(server, model):
    model.script([DONE])
    session = Session(server, system="You speak like a pirate.")
    session.say("hello")
    assert "You speak like a pirate." in json.dumps(model.requests[0].body["system"])


def test_files_of_the_workspace_are_not_trusted(server, model):
    model.script([DONE])
    settings = {"providers": {"anthropic": {"base_url": "http://127.0.0.1:1"}}, "model": "anthropic/evil"}
    session = Session(server, files={".env": "ANTHROPIC_BASE_URL=http://127.0.0.1:1\n", ".hutch/config.json": json.dumps(settings)})
    assert text_of(session.say("hello")) == "All is done."
    assert model.requests[0].body["model"] == "scripted-1"


@pytest.mark.parametrize("body, part", [
    ({"model": "replay//etc/passwd"}, "model"), ({"ttl": "soon"}, "ttl"), ({"ttl": "90d"}, "ttl"),
    ({"workspace": {"git": "file:///etc"}}, "workspace.git"), ({"box": {"ro": "/etc"}}, "box.ro"),
    ({"max_turns": 0}, "max_turns"), ({"nonsense": 1}, "nonsense")])
def test_wrong_submissions_are_refused(server, body, part):
    answer = server.post("/v1/sessions", body)
    assert answer.status in (400, 422) and part in answer.json()["detail"], answer


def test_session_of_another_user_does_not_exist(server, session, model):
    model.script([DONE])
    session.say("hello")
    other = server.new_key("other", user="mallory")
    reader = server.new_key("reader", role="read-only", user="mallory")
    for method, below, body in [
            ("GET", "", None), ("DELETE", "", None), ("GET", "messages", None), ("POST", "messages", {"text": "x"}),
            ("GET", "events", None), ("GET", "state", None), ("GET", "changes", None), ("GET", "diff", None),
            ("POST", "undo", {}), ("POST", "fork", {}), ("POST", "apply", {}), ("POST", "sync", {}), ("GET", "workspace", None),
            ("POST", "cancel", {}), ("POST", "model", {"model": "anthropic/x"}), ("POST", "compact", {}), ("GET", "tools", None),
            ("POST", "tools/bash", {"command": "id"})]:
        answer = server.request(method, session.path(below), body, key=other)
        assert (answer.status, answer.problem) == (404, "not-found"), (method, below, answer)
        answer = server.request(method, session.path(below), body, key=reader)
        assert answer.status == (404 if method == "GET" else 403), (method, below, answer)
    assert server.get("/v1/sessions", key=other).json()["sessions"] == []
    assert session.get("state")["turns"] == 1


def test_jobs_of_other_kinds_are_no_sessions(server):
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"]
    for below in ("", "/state", "/diff"):
        assert server.get(f"/v1/sessions/{job}{below}").status == 404


def test_ended_session_keeps_its_events_and_answers_nothing(session, model):
    model.script([DONE])
    session.say("hello")
    assert session.server.delete(session.path()).status == 204
    events = session.follow_until("state", after=1)
    assert any(e["type"] == "done" for _, e in events)
    wait_for(lambda: session.get()["state"] == "cancelled", "it has ended")
    assert session.server.post(session.path("messages"), {"text": "hello?"}).status == 409
    assert session.server.delete(session.path()).status == 204


def test_request_that_is_too_large_is_refused(session):
    answer = session.server.post(session.path("tools/write_file"), {"path": "a.txt", "content": "x" * (2 << 20)})
    assert (answer.status, answer.problem) == (413, "too-large")
    assert session.run("cat a.txt") == "old\n"
