"""Jobs with a goal: the worker runs the agent, with models of its own environment."""
import sys

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "agent"))

from model_reply import Reply, call  # noqa: E402
from model_server import ModelServer  # noqa: E402
from worker_kit import coordinator, is_running, tar, workers  # noqa: E402,F401

SAMPLE = [(p.name, p.read_bytes()) for p in sorted((harness.REPO / "share" / "sample").iterdir()) if p.is_file()]


def model_env(server):
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.key, "HUTCH_MODEL": "anthropic/claude-test"}


def goal(prompt, **more):
    return {"goal": {"prompt": prompt, **more}}


def test_goal_with_the_recording_in_the_program(coordinator, workers):
    workers.start(env={"HUTCH_MODEL": "builtin/demo"})
    spec = {**goal("A test fails. Fix it."), "workspace": {"upload": "x"}, "artifacts": ["shares.py"]}
    job = coordinator.ended(coordinator.submit(spec, kind="goal", upload=tar(*SAMPLE)), 300)
    assert job.state == "completed", job.finish
    assert "divmod" in job.files["diff"].decode() and b"divmod" in job.files["files/shares.py"]
    assert "All tests pass" in job.finish["result"]["text"] and job.finish["usage"]["output"] > 0
    names = [e["name"] for e in job.types("tool_call")]
    assert names == [e["name"] for e in job.types("tool_result")] and "edit_file" in names
    assert "I will run the tests" in "".join(e["text"] for e in job.types("text"))
    assert len(job.log().splitlines()) == len(names)
    assert b'"edit_file"' in job.files["memory"]
    assert workers.leave_nothing()


def test_killed_worker_continues_the_conversation(coordinator, workers):
    went_on = []

    def script(request):
        if request.answers == 0:
            return Reply(call("bash", command="echo once >>effects"))
        if not went_on:
            went_on.append("killed")
            workers.kill(workers.all[0])
            return Reply("nobody hears this")
        return Reply("Done.") if "interrupted" in str(request.body) else Reply("lost")

    with ModelServer(script) as server:
        workers.start(env=model_env(server))
        job = coordinator.submit(goal("Do it once."), kind="goal")
        coordinator.wait(lambda: went_on)
        workers.start(env=model_env(server))
        coordinator.ended(job)
    assert job.state == "completed" and job.token == 2, job.finish
    assert job.finish["result"]["text"] == "Done."
    assert "+once" in job.files["diff"].decode() and job.files["diff"].decode().count("once") == 1
    assert workers.leave_nothing()


def test_memory_of_an_earlier_job_is_for_the_model(coordinator, workers):
    seen = []

    def script(request):
        if request.answers == 0:
            seen.append(str(request.body))
            return Reply(call("bash", command="cat /tmp/memory.json"))
        return Reply("It was 42.")

    memory = {"job": "x", "actions": [{"tool": "bash", "input": {"command": "compute"}, "result": {"text": "it is 42"}}]}
    with ModelServer(script) as server:
        workers.start(env=model_env(server))
        job = coordinator.ended(coordinator.submit({**goal("What was it?"), "memory_from": "x"}, kind="goal", memory=memory))
    assert job.state == "completed", job.finish
    assert "compute" in seen[0] and "it is 42" in seen[0]
    assert "it is 42" in job.types("tool_result")[0]["text"]


def test_goal_is_cancelled_at_once(coordinator, workers):
    with ModelServer([Reply(call("bash", command="sleep 4331"))]) as server:
        workers.start(env=model_env(server))
        job = coordinator.submit(goal("Sleep."), kind="goal")
        harness.wait_until(lambda: is_running("sleep 4331"), 90)
        coordinator.cancel(job)
        coordinator.ended(job)
        harness.wait_until(lambda: not is_running("sleep 4331"), 30)
    assert job.state == "cancelled" and workers.leave_nothing()


def test_goal_without_a_key_or_with_a_recording_is_a_mistake(coordinator, workers):
    workers.start()
    for spec, word in [(goal("x"), "key"), (goal("x", model="replay//etc/passwd"), "recording"),
                       (goal("x", attempts=99, test="true"), "at most 16")]:
        job = coordinator.ended(coordinator.submit(spec, kind="goal"))
        assert job.state == "failed" and job.token == 1 and word in job.finish["error"], job.finish


def test_limit_gives_up(coordinator, workers):
    with ModelServer(lambda request: Reply(call("bash", command=f"echo {request.answers}"))) as server:
        workers.start(env=model_env(server))
        job = coordinator.ended(coordinator.submit(goal("Never end.", max_turns=2), kind="goal"))
    assert job.state == "failed" and job.finish["exit_reason"] == "gave_up" and job.token == 1
