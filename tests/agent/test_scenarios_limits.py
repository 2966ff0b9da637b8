"""Limits of `hutch ask`, and several attempts at one goal."""
import threading

import pytest

from model_reply import Reply, Usage, call


def busy(**how):
    """A model that never comes to an end."""
    return lambda request: Reply(f"Step {request.answers}. ", call("bash", command="true"), **how)


def test_max_turns(user_env, model_server):
    model_server.script(busy())
    done = user_env.ask("go", "--max-turns", "3", status=None)
    assert len(model_server.requests) == 3
    assert "turns" in done.one("done")["why"] and done.status == 1, done


def test_max_tokens(user_env, model_server):
    model_server.script(busy(usage=Usage(input=100, output=400)))
    done = user_env.ask("go", "--max-tokens", "1000", status=None)
    assert len(model_server.requests) == 3
    assert "tokens" in done.one("done")["why"] and done.status == 1, done


def test_max_cost(user_env, model_server):
    user_env.configure(models={"anthropic/scripted-1": {"window": 200000, "input": 1000, "output": 1000}})
    model_server.script(busy(usage=Usage(input=100, output=100)))
    done = user_env.ask("go", "--max-cost", "0.5", status=None)
    assert len(model_server.requests) == 3, "each answer costs 20 cents"
    assert "cost" in done.one("done")["why"] and done.status == 1, done
    assert abs(done.events("usage")[-1]["session"]["cost"] - 0.6) < 1e-9


@pytest.mark.parametrize("option", ["--max-turns", "--max-tokens", "--max-cost"])
def test_limits_must_be_numbers(user_env, model_server, option):
    done = user_env.hutch("ask", option, "many", "go")
    assert done.returncode == 2 and option in done.stderr, done


def test_a_run_that_was_stopped_by_a_limit_goes_on(user_env, model_server):
    model_server.script(busy())
    first = user_env.ask("go", "--max-turns", "2", status=1)
    model_server.script([Reply("Finished.")])
    assert user_env.ask("go on", "--resume", first.session).text == "Finished."


BAD = "def add(a, b):\n    return a - b\n"
GOOD = "def add(a, b):\n    return a + b\n"
LONG = "def add(a, b):\n    # the sum\n    total = a\n    total += b\n    return total\n"
TESTS = "import unittest\nfrom add import add\n\n\nclass TestAdd(unittest.TestCase):\n" \
    "    def test_sum(self):\n        self.assertEqual(add(2, 3), 5)\n\n" \
    "    def test_zero(self):\n        self.assertEqual(add(2, 0), 2)\n"


class Contest:
    """Three conversations at once, told apart by what each was told to say in its first answer."""

    def __init__(self, *contents):
        self.contents, self.begun, self.lock = contents, 0, threading.Lock()

    def __call__(self, request):
        if request.answers:
            return Reply("Finished.")
        with self.lock:
            number, self.begun = self.begun, self.begun + 1
        return Reply(f"Attempt {number}. ", call("write_file", path="add.py", content=self.contents[number]))


def test_best_of_three_attempts_is_kept(agent_env, model_server):
    agent_env.put("test_add.py", TESTS)
    agent_env.put("add.py", "")
    contest = Contest(BAD, LONG, GOOD)
    model_server.script(contest)
    done = agent_env.ask("write add", "--attempts", "3", "--test", "python3 -m unittest -q", "--apply")
    assert agent_env.get("add.py") == GOOD, "the smallest diff of those that pass"
    reports = done.one("done")["attempts"]
    assert len(reports) == 3 and sorted(r["test_status"] for r in reports) == [0, 0, 1], reports
    assert sum(r["best"] for r in reports) == 1
    assert agent_env.boxes() == []


def test_attempts_that_all_fail_apply_nothing(user_env, model_server):
    user_env.put("test_add.py", TESTS)
    user_env.put("add.py", "")
    model_server.script(Contest(BAD, BAD))
    done = user_env.ask("write add", "--attempts", "2", "--test", "python3 -m unittest -q", "--apply", status=None)
    assert done.status == 1 and user_env.get("add.py") == "", done


def test_attempts_need_a_test(user_env, model_server):
    done = user_env.hutch("ask", "--attempts", "3", "go")
    assert done.returncode == 2 and "--test" in done.stderr


def test_attempts_are_not_more_than_sixteen(user_env):
    done = user_env.hutch("ask", "--attempts", "17", "--test", "true", "go")
    assert done.returncode == 2 and "at most 16" in done.stderr


def test_prompt_is_not_longer_than_its_limit(user_env):
    done = user_env.hutch("ask", "-", input=b"x" * (16 * 2**20 + 1))
    assert done.returncode == 2 and "longer than 16 MB" in done.stderr


def test_model_that_only_pauses_is_left(user_env, model_server):
    model_server.script(lambda request: Reply("One moment. ", stop="pause_turn"))
    done = user_env.ask("go", status=None)
    assert done.status == 1 and "paused" in done.one("done")["why"], done
    assert len(model_server.requests) == 17


def test_conversation_that_never_fits_is_told(user_env, model_server):
    too_long = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 1 maximum"}}
    model_server.script(lambda request: Reply(status=400, body=too_long))
    done = user_env.ask("read this: " + "lorem ipsum " * 9000, status=None)
    assert done.status == 125 and "too long for" in done.stderr, done
    assert 1 < len(model_server.requests) <= 5, "it is shortened and asked again, but not for ever"
