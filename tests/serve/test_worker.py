"""The worker's jobs of steps, against a small server in the test (coordinator.py)."""
import json
import re
import signal

import pytest

import harness
from worker_kit import coordinator, is_running, tar, wait_until_runs, workers  # noqa: F401


def test_steps_share_a_box(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps(
        "ls -la", {"tool": "python", "code": "print('made', open('hello.txt', 'w').write('hé\\n'))"},
        "export A=1; cat hello.txt", "echo $A", {"tool": "read_file", "path": "hello.txt"},
        spec={"artifacts": ["*.txt"]}))
    assert job.state == "completed", job.finish
    assert job.finish["exit_reason"] == "completed" and job.finish["error"] is None
    assert [r["tool"] for r in job.results] == ["bash", "python", "bash", "bash", "read_file"]
    assert not any(r["failed"] for r in job.results) and all(r["seconds"] > 0 for r in job.results)
    assert [r["text"] for r in job.results[1:4]] == ["made 3\n", "hé\n", "1\n"]
    assert job.results[2]["data"]["exit_code"] == 0
    assert [(e["step"], e["status"]) for e in job.types("step")] == [
        (i, status) for i in range(5) for status in ("started", "completed")]
    assert job.files["files/hello.txt"].decode() == "hé\n"
    assert "+hé" in job.files["diff"].decode()
    assert job.types("artifact") == [{"type": "artifact", "path": "hello.txt", "size": 4}]
    lines = job.log().splitlines()
    assert len(lines) == 5
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z \d+\.\d{3}s bash export A=1; cat hello.txt -> hé", lines[2])
    assert workers.leave_nothing()


def test_jobs_have_boxes_of_their_own(coordinator, workers):
    workers.start(slots=3)
    jobs = [coordinator.steps(f"ls; echo {i} >file; cat file") for i in range(6)]
    for i, job in enumerate(jobs):
        assert coordinator.ended(job).results[0]["text"] == f"{i}\n"


def test_failed_step_ends_the_job(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps("echo one", "echo two >two; exit 3", "echo three"))
    assert job.state == "failed" and job.finish["exit_reason"] == "step_failed" and not job.finish["retry"]
    assert [r["failed"] for r in job.results] == [False, True]
    assert job.results[1]["data"]["exit_code"] == 3
    assert "+two" in job.files["diff"].decode()
    assert [e["status"] for e in job.types("step")] == ["started", "completed", "started", "failed"]


@pytest.mark.parametrize("step, word", [
    ({"tool": "no_such_tool"}, "no_such_tool"), ({"tool": "bash"}, "command"),
    ({"tool": "git_clone", "url": "https://example.org/x"}, "git_clone"),
    ({"tool": "python", "code": "import sys; sys.exit('bad thing')"}, "bad thing"),
    ({"tool": "read_file", "path": "absent"}, "absent")])
def test_step_that_cannot_work_fails(coordinator, workers, step, word):
    workers.start()
    job = coordinator.ended(coordinator.steps(step))
    assert job.state == "failed" and job.finish["exit_reason"] == "step_failed"
    assert word in job.results[0]["text"]


@pytest.mark.parametrize("spec", [{"steps": []}, {"steps": [{"tool": "python"}]}, {"steps": [{}]}, {"steps": ["x"]},
                                  {"steps": [{"tool": "bash", "command": "true"}], "box": {"memory": "much"}},
                                  {"steps": [{"tool": "bash", "command": "true"}], "box": {"image": "absent"}}])
def test_mistakes_are_not_tried_again(coordinator, workers, spec):
    workers.start()
    job = coordinator.ended(coordinator.submit(spec))
    assert job.state == "failed" and job.finish["exit_reason"] == "error" and job.token == 1
    assert job.finish["error"] and "\n" not in job.finish["error"]


def test_box_options_hold(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps(
        "echo $GREETING; ulimit -n", spec={"box": {"env": {"GREETING": "hello you"}, "files": "77", "timeout": "20s"}}))
    assert job.results[0]["text"] == "hello you\n77\n"


def test_memory_of_an_earlier_job_is_a_file(coordinator, workers):
    workers.start()
    memory = {"job": "x", "actions": [{"tool": "bash", "input": {}, "result": {"text": "42"}}]}
    job = coordinator.ended(coordinator.steps("cat /tmp/memory.json; ls", spec={"memory_from": "x"}, memory=memory))
    assert json.loads(job.results[0]["text"]) == memory


def test_timeout_ends_everything(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps("echo begun; sleep 4321", "echo never", timeout_ms=3000))
    assert job.state == "failed" and job.finish["exit_reason"] == "timeout" and not job.finish["retry"]
    assert job.finish["steps"] == [] and not is_running("sleep 4321")


def test_cancel_kills_at_once(coordinator, workers):
    workers.start()
    job = coordinator.steps("setsid sleep 4322 & sleep 4322")
    wait_until_runs(workers, "sleep 4322")
    coordinator.cancel(job)
    coordinator.ended(job)
    assert job.state == "cancelled" and job.finish["exit_reason"] == "cancelled"
    harness.wait_until(lambda: not is_running("sleep 4322"), 20)
    assert coordinator.ended(coordinator.steps("echo next")).state == "completed"


def test_progress_comes_while_a_step_runs(coordinator, workers):
    workers.start()
    job = coordinator.steps("echo working hard; until [ -e stop ]; do sleep 0.2; done", timeout_ms=600000)
    coordinator.wait(lambda: [e for e in job.types("progress") if "working hard" in e["text"]])
    assert job.state == "running" and job.types("step")[0]["status"] == "started"
    coordinator.cancel(job)
    coordinator.ended(job)


def test_shutdown_gives_jobs_back(coordinator, workers):
    first = workers.start()
    job = coordinator.steps("echo one >>one", "cat one; echo two >>two; sleep 8; cat two")
    coordinator.wait(lambda: len(job.results) == 1 and job.types("step")[-1]["status"] == "started")
    wait_until_runs(workers, "sleep 8")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    assert job.state == "scheduled" and job.released == 1
    workers.start()
    coordinator.ended(job)
    assert job.state == "completed" and job.results[1]["text"] == "one\ntwo\n"
    assert "gives the job back" in job.log()


def test_shutdown_lets_short_jobs_finish(coordinator, workers):
    worker = workers.start()
    job = coordinator.steps("sleep 0.3; echo ended")
    coordinator.wait(lambda: job.state == "running")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert (job.state, job.released) in [("completed", 0), ("scheduled", 1)]


def test_wrong_key_is_refused(coordinator, workers):
    coordinator.key = "right"
    key = workers.box.put("key", "wrong\n", 0o600)
    worker = workers.start("--key", str(key))
    assert worker.wait(60) == 125
    assert b"status 401" in worker.stderr.read()
    key.write_text("right\n")
    workers.start("--key", str(key))
    assert coordinator.ended(coordinator.steps("true")).state == "completed"


def test_usage(box):
    assert box.hutch("worker", "--slots", "0").returncode == 2
    assert "unix:" in box.hutch("worker", "--server", "ftp://x").stderr
    assert "holds no key" in box.hutch("worker", "--key", box.put("empty", "", 0o600)).stderr


def test_big_results_are_bounded(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps("seq 1000000", {"tool": "bash", "command": "head -c 300000 /dev/urandom"}))
    assert job.state == "completed"
    assert all(len(json.dumps(r)) < 1 << 20 for r in job.results)
    assert all(len(e["text"]) <= 16 << 10 for e in job.types("step") if "text" in e)
