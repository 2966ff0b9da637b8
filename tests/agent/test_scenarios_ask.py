"""`hutch ask` through whole pieces of work, in each of the three protocols."""
import pytest

import plays
from model_reply import Call, Reply, call, think

APIS = ["anthropic", "chat", "responses"]


def outline(history):
    """Roles of a session's messages, hutch's own left out."""
    return [m["role"] for m in history["messages"] if m["role"] != "hutch"]


@pytest.mark.parametrize("api", APIS)
def test_hello_world(agent_env, model_server, api):
    model_server.script(plays.hello())
    done = agent_env.ask("Write a hello-world script and run it.", "--apply", api=api)
    assert done.text == plays.HELLO_SAID
    assert agent_env.get("hello.py") == plays.HELLO
    assert [e["name"] for e in done.events("tool_call")] == ["write_file", "bash"]
    model_server.check_growth()
    (history,) = agent_env.histories()
    assert outline(history) == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert agent_env.boxes() == [], "everything was applied: there is nothing to keep a box for"


@pytest.mark.parametrize("api", APIS)
def test_web_service_in_the_background(user_env, model_server, api):
    model_server.script(plays.service())
    done = user_env.ask("Build a web service with /health, try it and stop it.", "--apply", api=api)
    assert done.text.endswith("It was healthy, and is stopped.")
    assert user_env.get("service.py") == plays.SERVICE
    model_server.check_growth()


@pytest.mark.parametrize("api", APIS)
def test_csv_filter_with_tests(user_env, model_server, api):
    model_server.script(plays.csv_filter())
    done = user_env.ask("Build a CSV filter with sample data and tests.", "--apply", api=api)
    assert done.text.endswith("The filter works.")
    assert ">= least" in user_env.get("filter_csv.py")
    assert user_env.files() == ["filter_csv.py", "sales.csv", "test_filter.py"], "nothing but what was asked for is left"
    model_server.check_growth()


def test_without_apply_the_folder_stays_and_the_box_is_kept(agent_env, model_server):
    agent_env.put("a.txt", "one\n")
    model_server.script([Reply(call("bash", command="echo two > a.txt; echo b > b.txt")), Reply("Done.")])
    done = agent_env.ask("change it", "--no-apply")
    assert agent_env.get("a.txt") == "one\n" and not agent_env.has("b.txt")
    assert {c["path"]: c["kind"] for c in done.one("changes")["changes"]} == {"a.txt": "modified", "b.txt": "added"}
    (box,) = agent_env.boxes()
    assert "+two" in agent_env.hutch("box", "diff", box).stdout


@pytest.mark.parametrize("api", APIS)
def test_thinking_goes_back_as_it_came(user_env, model_server, api):
    model_server.script([Reply(think("Let me see."), "Looking. ", call("list_files")), Reply(think("Fine."), "Nothing there.")])
    done = user_env.ask("what is here?", api=api)
    assert "".join(e["text"] for e in done.events("thinking")) == "Let me see.Fine."
    sent = model_server.requests[1].raw
    if api != "chat":  # there it has no form to go back in
        assert b"signature+" in sent


@pytest.mark.parametrize("api", APIS)
def test_reading_calls_side_by_side_are_answered_in_order(user_env, model_server, api):
    for name in "abc":
        user_env.put(name, f"this is {name}\n")
    model_server.script([Reply(*(call("read_file", path=name) for name in "abc")), Reply("Read.")])
    user_env.ask("read all", api=api)
    texts = [r.text for r in model_server.requests[1].results]
    assert ["this is " + name in text for name, text in zip("abc", texts)] == [True] * 3, texts


@pytest.mark.parametrize("api", APIS)
def test_mistakes_of_the_model_are_told_to_it(user_env, model_server, api):
    model_server.script([Reply(Call("no_such_tool", {"x": 1}), Call("bash", {}, raw='{"command": "tru'),
                               call("read_file", path=7), call("read_file", path="absent")),
                         Reply("I see.")])
    done = user_env.ask("make mistakes", api=api)
    texts = [r.text for r in model_server.requests[1].results]
    assert "no_such_tool" in texts[0] and "JSON" in texts[1] and "path" in texts[2] and "absent" in texts[3], texts
    assert done.text == "I see."


@pytest.mark.parametrize("quirk", ["no-id", "index-0", "whole-call", "stop-anyway", "no-usage"])
def test_quirks_of_compatible_servers(user_env, model_server, quirk):
    more = {"piece": 10000} if quirk == "index-0" else {}
    model_server.script([Reply(call("bash", command="echo one"), call("bash", command="echo two"), quirks=[quirk], **more),
                         Reply("Both.", quirks=[quirk])])
    done = user_env.ask("go", api="chat")
    assert done.text == "Both."
    assert ["one" in r.text or "two" in r.text for r in model_server.requests[1].results] == [True, True]


@pytest.mark.parametrize("api", APIS)
def test_conversation_goes_on_in_a_second_run(user_env, model_server, api):
    model_server.script([Reply(call("bash", command="echo kept > state")), Reply("First."),
                         Reply(call("bash", command="cat state")), plays.after("kept", "Second.")])
    first = user_env.ask("one", "--no-apply", api=api)
    second = user_env.ask("two", "--no-apply", "--resume", first.session, api=api)
    assert second.text == "Second." and second.session == first.session
    model_server.check_growth()
    assert model_server.requests[2].said[0].startswith("one"), "the first words are still there"


def test_pause_turn_goes_on(user_env, model_server):
    model_server.script([Reply("Half. ", stop="pause_turn"), Reply("Whole.")])
    assert user_env.ask("go").text == "Half. Whole."
    assert len(model_server.requests) == 2


@pytest.mark.parametrize("stop, api", [("refusal", "anthropic"), ("max_tokens", "anthropic"), ("max_tokens", "responses")])
def test_other_ends_are_told(user_env, model_server, stop, api):
    model_server.script(lambda request: Reply("So far.", stop=stop))
    done = user_env.ask("go", api=api, status=None)
    assert done.events("done")[-1]["stop"] == stop, done


def test_a_window_that_is_exceeded_is_shortened_for(user_env, model_server):
    def model(request):
        if not request.tools:
            return Reply("A summary.")
        if request.answers < 4 and len(request.raw) < 150_000:
            return Reply(call("bash", command="seq 100000 | head -c 60000"))
        return Reply("Too m", stop="model_context_window_exceeded") if len(request.raw) > 60_000 else Reply("It fits.")

    model_server.script(model)
    done = user_env.ask("go")
    assert done.text.endswith("It fits.") and done.events("done")[-1]["stop"] == "end_turn"


def test_instructions_of_the_workspace_are_in_the_system_prompt(user_env, model_server):
    user_env.put("AGENTS.md", "Always speak of badgers.\n")
    model_server.script([Reply("Badgers.")])
    user_env.ask("go")
    request = model_server.requests[0]
    assert "Always speak of badgers." in request.system + " ".join(request.said)


def test_no_key_is_explained_in_three_lines(user_env, model_server):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        user_env.env.pop(name)
    done = user_env.hutch("ask", "-w", user_env.workspace, "go")
    assert done.returncode == 125 and "ANTHROPIC_API_KEY" in done.stderr, done
    assert len(done.stderr.strip().splitlines()) <= 4
