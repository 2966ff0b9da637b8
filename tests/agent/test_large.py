"""A session of three million tokens: opened, pruned, continued, and searched."""
import json
import sys

import pytest

import harness
from model_reply import Reply, call

sys.path.insert(0, str(harness.REPO / "bench"))
import big_session  # noqa: E402  pylint: disable=wrong-import-position

SESSION = "20260101-000000"
TOKENS = 3_000_000


@pytest.fixture
def large(user_env):
    """(surroundings with such a session, the facts in it)"""
    folder = user_env.data / "hutch" / "history"
    for path in (user_env.data, folder.parent, folder):
        path.mkdir(mode=0o700)
        user_env.caller.own(path)
    path = folder / f"{SESSION}.json"
    facts = big_session.write(path, SESSION, user_env.workspace, TOKENS)
    path.chmod(0o600)
    user_env.caller.own(path)
    return user_env, path, facts


def is_summary(request):
    """hutch asks for a summary, not for the next step."""
    return not request.tools


def test_goes_on_and_finds_facts(large, model_server):
    env, path, facts = large
    before = path.stat().st_size
    asked = []

    def model(request):
        assert len(request.raw) < 2_000_000, "what is sent fits the window"
        if is_summary(request):
            return Reply("They worked on a parser.")
        done = len(asked)
        if done < len(facts):
            asked.append(facts[done])
            return Reply(call("memory", query=facts[done][0]))
        return Reply("All found.")

    model_server.script(model)
    done = env.ask("where do the services listen?", "--resume", SESSION, timeout=120)
    assert done.text.endswith("All found.") and done.session == SESSION
    steps = [r for r in model_server.requests if not is_summary(r)]
    for i, (question, planted) in enumerate(facts):
        assert planted in steps[i + 1].results[-1].text, f"{question}: {steps[i + 1].results[-1].text[:2000]}"
    model_server.check_growth(steps)
    whole = json.loads(path.read_bytes())
    assert path.stat().st_size > before and whole["messages"][-1]["role"] in ("assistant", "hutch")


def test_file_before_is_untouched(large, model_server):
    env, path, _ = large
    before = path.read_bytes()
    model_server.script(lambda request: Reply("A summary." if is_summary(request) else "Going on."))
    env.ask("hello", "--resume", SESSION, timeout=120)
    after = path.read_bytes()
    assert after.startswith(before[:-len(b"\n]}\n")]), "a session only grows at its end"
