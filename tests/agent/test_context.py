"""A conversation that outgrows a small window: it goes on, and what matters is still there."""
import pytest

from model_reply import Reply, call

WINDOW = 24_000


@pytest.fixture
def small(user_env):
    user_env.configure(models={"*": {"window": WINDOW, "max_output": 2000}})
    return user_env


def is_summary(request):
    return not request.tools


def worker(steps, summary):
    """Reads a long file again and again, then ends."""
    def model(request):
        assert len(request.raw) < WINDOW * 6, "what is sent fits the window"
        if is_summary(request):
            return summary(request)
        worker.done += 1
        return Reply(call("bash", command=f"seq {worker.done}000 {worker.done}900; echo {'x' * 300}")) if worker.done < steps else Reply("Done.")
    worker.done = 0
    return model


@pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])
def test_a_long_turn(small, model_server, api):
    model_server.script(worker(60, lambda _: Reply("SUMMARY: numbers were counted.")))
    done = small.ask("Count far. RULE: never touch the migrations.", api=api, timeout=120)
    assert done.text.endswith("Done.")
    last = model_server.requests[-1].raw.decode() if isinstance(model_server.requests[-1].raw, bytes) else model_server.requests[-1].raw
    assert "never touch the migrations" in last, "the person's words are pinned"
    assert "gets them back" in last or "SUMMARY" in last
    (history,) = small.histories()
    assert any(m.get("kind") == "summary" for m in history["messages"])


def test_summaries_fail(small, model_server):
    """The model cannot summarise: what was done is listed instead."""
    model_server.strict = False
    model_server.script(worker(60, lambda _: Reply("", status=400)))
    done = small.ask("Count far.", timeout=120)
    assert done.text.endswith("Done.")


def test_own_instruction_for_summaries(small, model_server):
    small.configure(models={"*": {"window": WINDOW, "max_output": 2000}}, summary_prompt=str(small.home / "mine.md"))
    path = small.home / "mine.md"
    path.write_text("SUMMARISE IN VERSE\n")
    path.chmod(0o600)
    small.caller.own(path)
    model_server.script(worker(90, lambda _: Reply("SUMMARY")))
    small.ask("Count far.", timeout=120)
    asked = [r for r in model_server.requests if is_summary(r)]
    assert asked and all("SUMMARISE IN VERSE" in str(r.body["system"]) for r in asked)
