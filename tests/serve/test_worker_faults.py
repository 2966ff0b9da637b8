"""What a worker does when it is killed or stopped, when the server goes away, and when a connection breaks."""
import os
import signal

import harness
from worker_kit import coordinator, is_running, read_tar, tar, wait_until_runs, workers  # noqa: F401

BASE = tar(("keep", "k\n"), ("gone", "g\n"), ("folder/inner", "i\n"), ("file", "f\n"), ("dir-\n-name", "n\n"))

# Everything that a checkpoint must bring to another box.
STEP_ONE = """echo one >>counter
rm gone; rm -r folder; echo now-a-file >folder; rm file; mkdir file; echo inner >file/inner
mkdir empty; chmod 751 empty; ln -s keep link; echo x >-dash; printf 'a' >$'new\\nline'; chmod 755 keep; rm $'dir-\\n-name'"""
STEP_TWO = "echo two >>counter; rm keep; sleep 8; ls -A; stat -c %a empty; readlink link; cat counter folder file/inner"


def test_killed_worker_repeats_only_the_step_it_was_in(coordinator, workers):
    first = workers.start()
    job = coordinator.steps(STEP_ONE, STEP_TWO, "cat counter; ls keep || true", upload=BASE,
                            spec={"workspace": {"upload": "x"}})
    coordinator.wait(lambda: len(job.results) == 1 and job.types("step")[-1]["step"] == 1)
    wait_until_runs(workers, "sleep 8")
    workers.kill(first)
    harness.wait_until(lambda: not is_running("sleep 8"), 20, "the box ends with its worker")
    workers.start()
    coordinator.ended(job)
    assert job.state == "completed" and job.token == 2, job.finish
    text = job.results[1]["text"]
    assert text == ("-dash\ncounter\nempty\nfile\nfolder\nlink\n'new'$'\\n''line'\n751\nkeep\none\ntwo\nnow-a-file\ninner\n") \
        or text.replace("'new'$'\\n''line'", "new\nline") == (
            "-dash\ncounter\nempty\nfile\nfolder\nlink\nnew\nline\n751\nkeep\none\ntwo\nnow-a-file\ninner\n"), text
    assert job.results[2]["text"].startswith("one\ntwo\n")
    starts = [(e["attempt"], e["step"]) for e in job.types("step") if e["status"] == "started"]
    assert starts == [(1, 0), (1, 1), (2, 1), (2, 2)]
    final = read_tar(job.files["workspace"])
    assert final["counter"] == b"one\ntwo\n" and "keep" not in final and "gone" not in final


def test_stopped_worker_does_not_write_after_its_lease(coordinator, workers):
    first = workers.start()
    job = coordinator.steps("echo $HOSTNAME; sleep 7; echo done >done")
    wait_until_runs(workers, "sleep 7")
    first.send_signal(signal.SIGSTOP)
    coordinator.wait(lambda: coordinator.expire() or job.state == "scheduled")
    workers.start()
    coordinator.wait(lambda: job.token == 2)
    asked = len(coordinator.requests)
    first.send_signal(signal.SIGCONT)
    coordinator.ended(job)
    assert job.state == "completed" and job.token == 2
    late = [r for r in coordinator.requests[asked:] if job.id in r[1] and
            (r[3].get("token") if isinstance(r[3], dict) else int(r[2]["token"])) == 1]
    assert late == []
    assert {e["attempt"] for e in job.types("step") if e["status"] == "completed"} == {2}
    # It works on.
    more = [coordinator.steps("sleep 1") for _ in range(4)]
    for one in more:
        assert coordinator.ended(one).state == "completed"
    assert len({one.attempts[-1] for one in more}) == 2


def test_lost_lease_kills_the_job(coordinator, workers):
    workers.start()
    job = coordinator.steps("sleep 4323")
    wait_until_runs(workers, "sleep 4323")
    with coordinator.changed:
        job.state = "cancelled"
        coordinator.changed.notify_all()
    harness.wait_until(lambda: not is_running("sleep 4323"), 30)
    assert coordinator.ended(coordinator.steps("true")).state == "completed"
    assert job.finish is None


def test_server_restart_in_the_middle_of_a_job(coordinator, workers):
    coordinator.lease_ms = 30000
    workers.start()
    job = coordinator.steps("echo one", "sleep 6; echo two", "echo three")
    wait_until_runs(workers, "sleep 6")
    coordinator.stop()
    harness.wait_until(lambda: not is_running("sleep 6"), 60)
    assert job.state == "running"
    coordinator.start()
    coordinator.ended(job)
    assert job.state == "completed" and job.token == 1
    assert [r["text"] for r in job.results] == ["one\n", "two\n", "three\n"]
    assert [(e["step"], e["status"]) for e in job.types("step")] == [
        (i, status) for i in range(3) for status in ("started", "completed")]


def test_job_ends_when_the_server_stays_away(coordinator, workers):
    workers.start()
    job = coordinator.steps("sleep 4324 && false || echo again")
    wait_until_runs(workers, "sleep 4324")
    coordinator.stop()
    harness.wait_until(lambda: not is_running("sleep 4324"), 60)
    job.spec["steps"][0]["command"] = "echo again"
    coordinator.start()
    coordinator.ended(job)
    assert job.state == "completed" and job.token == 2 and job.results[0]["text"] == "again\n"


def test_connection_breaks_in_the_middle_of_an_artifact(coordinator, workers):
    coordinator.fault("PUT", "/files/big", after=200000, times=3)
    coordinator.fault("PUT", "/files/small", times=1)
    coordinator.fault("PUT", "kind=log", times=2)
    workers.start()
    job = coordinator.ended(coordinator.steps(
        "head -c 3000000 /dev/zero | tr '\\0' x >big; echo s >small", spec={"artifacts": ["big", "small"]}))
    assert job.state == "completed", job.finish
    assert job.files["files/big"] == b"x" * 3000000 and job.files["files/small"] == b"s\n"
    assert len(job.log().splitlines()) == 1
    assert sorted(e["path"] for e in job.types("artifact")) == ["big", "small"]


def test_server_restart_in_the_middle_of_an_artifact(coordinator, workers):
    coordinator.lease_ms = 30000
    coordinator.fault("PUT", "/files/big", after=100000, times=1)
    workers.start()
    job = coordinator.steps("head -c 3000000 /dev/zero >big", spec={"artifacts": ["big"]})
    coordinator.wait(lambda: not coordinator.faults[0][3])
    coordinator.stop()
    coordinator.start()
    coordinator.ended(job)
    assert job.state == "completed" and job.token == 1 and len(job.files["files/big"]) == 3000000


def test_answers_that_are_lost_repeat_nothing(coordinator, workers):
    for pattern in ("/step$", "/events$", "/finish$"):
        coordinator.fault("POST", pattern, times=2)
    coordinator.fault("PUT", "checkpoint", times=1)
    workers.start()
    job = coordinator.ended(coordinator.steps("echo one >>f", "sleep 1; echo two >>f", "cat f"))
    assert job.state == "completed" and job.token == 1
    assert job.results[-1]["text"] == "one\ntwo\n"
    steps = [(e["step"], e["status"]) for e in job.types("step")]
    assert steps == [(i, status) for i in range(3) for status in ("started", "completed")]


def test_killed_worker_leaves_no_box(coordinator, workers):
    first = workers.start()
    jobs = [coordinator.steps("sleep 4325") for _ in range(2)]
    coordinator.wait(lambda: all(j.state == "running" for j in jobs))
    wait_until_runs(workers, "sleep 4325")
    before = set(harness.descendants(os.getpid()))
    workers.kill(first)
    harness.wait_until(lambda: not is_running("sleep 4325"), 30)
    assert before
