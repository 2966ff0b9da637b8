"""`--agent model`: a scripted model plays an episode, over HTTP and from a recording."""
import json

import pytest

import calc_task
from model_reply import Reply, Usage, call

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
FIX = {"diff": calc_task.PATCHES[0]["diff"]}


def play(surroundings, calc, *words, api="anthropic", status=0, **more):
    done = surroundings.hutch("gym", "episode", "--task", calc, "--agent", "model", "--clock", "virtual", *words,
                     *(["--model", surroundings.speak(api)] if "--model" not in words else []), **more)
    assert done.returncode == status, done
    return done


def steps_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])
def test_a_model_solves_it(user_env, model_server, calc, api):
    model_server.script([Reply("I look.", call("read_file", path="src/calc.py"), call("run_tests")),
                         Reply(call("apply_diff", **FIX)), Reply("Done.", call("submit"))])
    *steps, sums = steps_of(play(user_env, calc, "--json", api=api))
    assert [step["action"]["tool"] for step in steps] == ["read_file", "run_tests", "apply_diff", "submit"]
    assert sums["pass_rate"] == 1.0 and sums["calls"] == 4


def test_what_a_model_is_told(agent_env, model_server, calc):
    model_server.script([Reply(call("run_tests")), Reply(call("submit"), usage=Usage(input=1200, output=34))])
    done = play(agent_env, calc)
    assert "anthropic/scripted-1: 2 answers, " in done.stdout and " tokens in, " in done.stdout
    first, second = (request.body for request in model_server.requests)
    names = [tool["name"] for tool in first["tools"]]
    assert {"bash", "read_file", "apply_diff", "run_tests"} < set(names) and names[-1] == "submit"
    told = json.dumps(first["messages"])
    assert "Make total() subtract the discount." in told and "fix-sign" not in told
    result = second["messages"][-1]["content"][0]
    assert result["type"] == "tool_result" and "1 passed" in json.dumps(result["content"])
    model_server.check_growth()


def test_a_model_without_a_call_is_reminded_once(user_env, model_server, calc):
    model_server.script([Reply("I think so."), Reply(call("read_file", path="src/calc.py")), Reply("Well."), Reply("Really.")])
    done = play(user_env, calc)
    assert "submitted since the model called no tool, twice" in done.stdout and "not solved after 2 calls" in done.stdout
    told = [json.dumps(request.body["messages"][-1]) for request in model_server.requests]
    assert ["You called no tool" in text for text in told] == [False, True, False, True]


def test_mistakes_of_a_model_are_told_to_it(user_env, model_server, calc):
    broken = call("bash")
    broken.raw = '{"command": '
    model_server.script([Reply(call("bahs", command="ls"), broken), Reply(call("submit"))])
    *steps, _ = steps_of(play(user_env, calc, "--json"))
    assert [step["action"]["tool"] for step in steps] == ["bahs", "submit"], "what is no JSON is no step"
    assert "did you mean 'bash'?" in steps[0]["observation"]["text"]
    results = model_server.requests[1].body["messages"][-1]["content"]
    assert [result["is_error"] for result in results] == [True, True] and "not a JSON object" in json.dumps(results[1])


def test_calls_behind_submit_are_not_made(user_env, model_server, calc):
    model_server.script([Reply(call("submit"), call("bash", command="touch x"))])
    *steps, _ = steps_of(play(user_env, calc, "--json"))
    assert [step["action"]["tool"] for step in steps] == ["submit"]


def test_a_limit_of_tokens_submits(user_env, model_server, calc):
    model_server.script([Reply(call("run_tests"), usage=Usage(input=10, output=60))] * 2)
    done = play(user_env, calc, env={"MAX_TOKENS": "100"})
    assert "submitted at the limit of 100 tokens (MAX_TOKENS)" in done.stdout and "after 3 calls" in done.stdout


def test_a_recording_plays(user_env, calc):
    user_env.put("play.jsonl", "\n".join([
        json.dumps({"text": "Fix it.", "calls": [{"name": "apply_diff", "input": FIX}, {"name": "run_tests", "input": {}}]}),
        json.dumps({"calls": [{"name": "submit", "input": {}}]})]))
    words = ["--model", f"replay/{user_env.workspace}/play.jsonl"]
    first, second = (play(user_env, calc, *words) for _ in range(2))
    assert first.stdout == second.stdout and "solved after 3 calls" in first.stdout
    user_env.put("play.jsonl", '"Nothing."')
    done = play(user_env, calc, *words, status=125)
    assert done.stderr.startswith("hutch: ") and "ends after 1 answer" in done.stderr


def test_without_a_key_it_says_how_to_give_one(user_env, calc):
    done = play(user_env, calc, "--model", "anthropic/x", status=125, env={name: "" for name in KEYS})
    lines = done.stderr.splitlines()
    assert len(lines) >= 2 and all(line.startswith("hutch: ") for line in lines) and "ANTHROPIC_API_KEY" in done.stderr


def test_a_model_is_compared(user_env, calc):
    user_env.put("play.jsonl", "\n".join([json.dumps({"calls": [{"name": "apply_diff", "input": FIX}]}), '{"calls": [{"name": "submit"}]}'] * 2))
    done = user_env.hutch("gym", "eval", "--task", calc, "--agents", "random,model", "--seeds", "2", "--clock", "virtual", "--json",
                          "--model", f"replay/{user_env.workspace}/play.jsonl")
    assert done.returncode == 0, done
    assert json.loads(done.stdout)[1]["solved"]["mean"] == 1.0


PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def test_a_model_sees_pictures(user_env, model_server, calc):
    model_server.script([Reply(call("bash", command=f"echo {PIXEL} | base64 -d >a.png"), call("read_file", path="a.png")),
                         Reply(call("submit"))])
    play(user_env, calc)
    result = model_server.requests[1].body["messages"][-1]["content"][1]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result["content"][1]["source"]["data"] == PIXEL


def test_a_dotenv_that_is_not_trusted_chooses_no_model(user_env, model_server, calc):
    user_env.put(".env", f"ANTHROPIC_API_KEY={model_server.key}\nANTHROPIC_BASE_URL={model_server.url}\nMODEL=anthropic/theirs\n")
    unset = {name: "" for name in KEYS}
    words = ["gym", "episode", "--task", calc, "--agent", "model", "--clock", "virtual"]
    done = user_env.hutch(*words, env=unset)
    assert done.returncode == 125 and "ignored ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, MODEL in .env" in done.stderr
    assert model_server.requests == []
    model_server.script([Reply(call("submit"))])
    assert user_env.hutch(*words, "--trust", env=unset).returncode == 0
    assert model_server.requests[0].body["model"] == "theirs"
