"""Jobs over HTTP: what is accepted, what is refused, events, files, leases. A fake worker does what each test says."""
import io
import json
import tarfile
import threading

import pytest

from fake_worker import FakeWorker, refused
from hutch_server import wait_until

STEPS = [{"tool": "shell", "command": "ls -la"}, {"tool": "python", "code": "open('hello.txt', 'w').write('hello')"},
         {"tool": "shell", "command": "cat hello.txt"}]


def steps(n=1):
    return {"steps": [{"tool": "shell", "command": f"echo {i}"} for i in range(n)]}


def submit(server, body=None, **more):
    answer = server.post("/v1/jobs", body or steps(), **more)
    assert answer.status == 201, answer
    return answer.json()["id"]


def state(server, job):
    return server.get(f"/v1/jobs/{job}").json()["state"]


@pytest.fixture
def worker(server):
    return FakeWorker(f"unix:{server.data}/worker.sock") if server.box.caller.prefix == [] else \
        FakeWorker(server.url, server.new_key("fake", "worker"))


def tar(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


# Submitting.


def test_short_forms(server, worker):
    """/schedule and /status, as the contract has them."""
    task = server.post("/schedule", STEPS).json()
    assert set(task) == {"task_id"}
    status = server.get("/status?task_id=" + task["task_id"]).json()
    assert (status["task_id"], status["status"], status["log"]) == (task["task_id"], "scheduled", "")
    lease = worker.lease(task["task_id"])
    assert server.get("/status/" + task["task_id"]).json()["status"] == "running"
    lease.put("log", b"12:00:00 0.1s bash ls -la -> ok\n")
    lease.run("", "", "hello")
    status = server.get("/status/" + task["task_id"]).json()
    assert (status["status"], status["exit_reason"]) == ("completed", "completed")
    assert status["log"] == "12:00:00 0.1s bash ls -la -> ok\n" and status["result"][2]["text"] == "hello"
    for body in ({"steps": STEPS}, {"goal": "say hello"}):
        assert server.get("/status/" + server.post("/schedule", body).json()["task_id"]).json()["status"] == "scheduled"
    assert server.get("/status").problem == "bad-query"
    assert server.get("/status?task_id=nothing").status == 404


def test_what_the_worker_gets(server, worker):
    """The stored form: shell is bash, a goal is an object, box options are strings."""
    submit(server, {"steps": STEPS, "box": {"pids": 100, "cpus": 1.5, "memory": "256M", "env": {"A": "b", "N": 1}}})
    spec = worker.lease().spec
    assert [step["tool"] for step in spec["steps"]] == ["bash", "python", "bash"]
    assert spec["box"] == {"pids": "100", "cpus": "1.500", "memory": "256M", "env": {"A": "b", "N": "1"}}
    assert spec["title"] == "ls -la"
    submit(server, {"goal": "say hello\nand more", "labels": {"a": "b"}})
    spec = worker.lease().spec
    assert (spec["goal"], spec["title"]) == ({"prompt": "say hello\nand more"}, "say hello")


@pytest.mark.parametrize("body, at", [
    ({}, "a job has either steps or a goal"),
    ({"steps": [], "goal": "x"}, "steps"),
    ({"steps": STEPS, "goal": "x"}, "a job has either"),
    ({"step": STEPS}, "step: is not known"),
    ({"steps": [{"command": "x"}]}, "tool"),
    ({"steps": [{"tool": "bsh", "command": "x"}]}, "steps[0].tool: there is no tool 'bsh'; did you mean 'bash'"),
    ({"steps": [{"tool": "shell", "comand": "x"}]}, "steps[0].comand"),
    ({"steps": [*STEPS, {"tool": "python"}]}, "steps[3].code"),
    ({"steps": [{"tool": "git_push"}]}, "jobs cannot use it"),
    ({"steps": [{"tool": "shell", "command": "x"}] * 1001}, "at most 1000"),
    ({"goal": {"prompt": "x", "attempts": 2}}, "goal.test"),
    ({"goal": {"prompt": "x", "model": "replay//etc/passwd"}}, "goal.model"),
    ({"goal": "x", "workspace": {}}, "workspace: must have one of"),
    ({"goal": "x", "workspace": {"git": "file:///etc"}}, "workspace.git"),
    ({"goal": "x", "workspace": {"git": "ext::sh -c id"}}, "workspace.git"),
    ({"goal": "x", "workspace": {"git": "https://x/y", "ref": "--upload-pack=id"}}, "workspace.ref"),
    ({"goal": "x", "workspace": {"upload": "../../etc"}}, "workspace.upload"),
    ({"goal": "x", "workspace": {"upload": "0" * 20}}, "there is no upload"),
    ({"goal": "x", "after": ["0" * 20]}, "after: there is no job"),
    ({"goal": "x", "box": {"ro": "/etc"}}, "box.ro: there is no such option"),
    ({"goal": "x", "box": {"memory": "lots"}}, "memory"),
    ({"goal": "x", "box": {"env": {"A=B": "c"}}}, "box.env"),
    ({"goal": "x", "artifacts": ["../x"]}, "artifacts[0]"),
    ({"goal": "x", "timeout": "soon"}, "timeout"),
    ({"goal": "x", "not_before": "tomorrow"}, "not_before"),
    ({"goal": "x", "priority": 1000}, "priority"),
    ({"goal": "x", "labels": {"a": 1}}, "labels.a"),
])
def test_what_is_refused(server, body, at):
    """With one line that begins with the path of the mistake; and there is no job."""
    answer = server.post("/v1/jobs", body)
    assert answer.status in (404, 422) and at in answer.json()["detail"] and "\n" not in answer.json()["detail"], answer
    assert server.get("/v1/jobs").json() == {"jobs": [], "next": None}


def test_only_an_admin_gets_the_network_of_the_worker(server):
    body = {**steps(), "box": {"net": "host"}}
    assert server.post("/v1/jobs", body, key=server.new_key("bob")).status == 422
    assert server.post("/v1/jobs", body).status == 201


def test_idempotency(server):
    same = {"headers": {"Idempotency-Key": "k1"}}
    first, again = server.post("/v1/jobs", steps(), **same), server.post("/v1/jobs", steps(), **same)
    assert first.json()["id"] == again.json()["id"] and (first.status, again.status) == (201, 201)
    assert (first.headers["idempotency-replayed"], again.headers["idempotency-replayed"]) == (None, "true")
    assert first.headers["location"] == "/v1/jobs/" + first.json()["id"]
    assert server.post("/v1/jobs", steps(2), **same).problem == "exists"
    assert server.post("/v1/jobs", steps(), headers={"Idempotency-Key": "x" * 300}).status == 400
    assert server.post("/v1/jobs", steps(), key=server.new_key("bob"), **same).json()["id"] != first.json()["id"]


# Reading.


def test_list(server):
    jobs = [submit(server, {**steps(), "title": f"job {i}", "labels": {"n": str(i % 2)}}) for i in range(7)]
    page = server.get("/v1/jobs?limit=3").json()
    assert [job["id"] for job in page["jobs"]] == jobs[:-4:-1] and page["next"] == jobs[4]
    rest = server.get(f"/v1/jobs?before={page['next']}").json()
    assert [job["id"] for job in rest["jobs"]] == jobs[3::-1] and rest["next"] is None
    assert len(server.get("/v1/jobs?label=n%3D1").json()["jobs"]) == 3
    assert [job["title"] for job in server.get("/v1/jobs?search=job%205").json()["jobs"]] == ["job 5"]
    assert server.get("/v1/jobs?state=running,failed").json()["jobs"] == []
    assert server.get("/v1/jobs?limit=0").problem == server.get("/v1/jobs?nonsense=1").problem == "bad-query"


def test_jobs_of_others_do_not_exist(server, worker):
    alice, bob = server.new_key("alice"), server.new_key("bob")
    job = submit(server, key=alice)
    lease = worker.lease(job)
    lease.put("artifact", b"x", "a.txt")
    lease.run()
    for path in ("", "/events", "/log", "/memory", "/diff", "/files", "/files/a.txt"):
        assert server.get(f"/v1/jobs/{job}{path}", key=bob).status == 404, path
    assert server.get(f"/status/{job}", key=bob).status == 404
    assert server.delete(f"/v1/jobs/{job}", key=bob).status == server.post(f"/v1/jobs/{job}/repeat", key=bob).status == 404
    outcome, = server.post("/v1/jobs/actions", {"action": "remove", "jobs": [job]}, key=bob).json()["results"]
    assert not outcome["done"] and "there is no job" in outcome["error"]
    for body in ({"workspace": {"job": job}}, {"after": [job]}, {"memory_from": job}):
        assert server.post("/v1/jobs", {**steps(), **body}, key=bob).status == 404, body
    assert server.get("/v1/jobs", key=bob).json()["jobs"] == [] and len(server.get("/v1/jobs", key=alice).json()["jobs"]) == 1
    assert server.get(f"/v1/jobs/{job}").json()["user"] == "alice"
    assert [j["id"] for j in server.get("/v1/jobs?user=alice").json()["jobs"]] == [job]


def test_events_follow_the_job(server, worker):
    job = submit(server, steps(2))
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(server.events(f"/v1/jobs/{job}/events")))
    reader.start()
    lease = worker.lease(job)
    wait_until(lambda: len(seen) == 1, what="the first event")
    lease.events({"type": "log", "text": "a line"})
    wait_until(lambda: len(seen) == 2, what="the second event")
    lease.run("zero", "one")
    reader.join(60)
    assert not reader.is_alive(), "the stream goes on behind the last event"
    assert [event.type for event in seen] == ["state", "log", "step", "step", "step", "step", "state"]
    assert [int(event.id) for event in seen] == list(range(1, 8)) == [event.json()["seq"] for event in seen]
    assert (seen[-1].json()["state"], seen[3].json()["text"]) == ("completed", "zero")
    again = list(server.events(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": "5"}))
    assert [event.id for event in again] == ["6", "7"]
    assert [event.id for event in server.events(f"/v1/jobs/{job}/events?after=6")] == ["7"]
    assert server.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": "7"}).status == 204
    assert server.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": "x"}).status == 400
    page = server.get(f"/v1/jobs/{job}/events?limit=3", headers={"Accept": "application/json"}).json()
    assert ([event["seq"] for event in page["events"]], page["next"], page["ended"]) == ([1, 2, 3], 3, False)
    page = server.get(f"/v1/jobs/{job}/events?after=3", headers={"Accept": "application/json"}).json()
    assert (len(page["events"]), page["next"], page["ended"]) == (4, 7, True)


def test_large_events_reach_a_client(server, worker):
    """Many of them; and one that is too large is cut."""
    job = submit(server)
    lease = worker.lease(job)
    for _ in range(5):
        lease.events(*[{"type": "log", "text": "x" * 3000} for _ in range(100)])
    lease.events({"type": "log", "text": "y" * 500_000})
    lease.run()
    events = [event.json() for event in server.events(f"/v1/jobs/{job}/events")]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and len(events) == 505
    large = next(event for event in events if event.get("truncated"))
    assert large["type"] == "log" and large["text"] == "y" * len(large["text"]) and len(large["text"]) > 5000
    assert events[-1]["state"] == "completed"


def test_files(server, worker):
    job = submit(server)
    for path in ("/log", "/memory", "/diff", "/files/x"):
        assert server.get(f"/v1/jobs/{job}{path}").problem == "not-found"
    lease = worker.lease(job)
    lease.put("log", b"one\n")
    lease.put("log", b"two\n", offset=4)
    lease.put("log", b"two\n", offset=4)  # repeated
    lease.put("artifact", b"<script>alert(1)</script>", "out/a%20%22b.html")
    lease.put("memory", json.dumps({"job": job, "actions": []}).encode())
    lease.put("diff", b"diff --git a/x b/x\n")
    lease.run()
    assert server.get(f"/v1/jobs/{job}/log").body == b"one\ntwo\n"
    part = server.get(f"/v1/jobs/{job}/log", headers={"Range": "bytes=4-"})
    assert (part.status, part.body) == (206, b"two\n")
    assert server.get(f"/v1/jobs/{job}/log", headers={"Range": "bytes=8-"}).status == 416
    assert server.get(f"/v1/jobs/{job}/files").json() == {"files": [{"path": 'out/a "b.html', "size": 25}]}
    page = server.get(f"/v1/jobs/{job}/files/out/a%20%22b.html")
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22b.html"
    assert (page.headers["content-type"], page.headers["x-content-type-options"]) == ("application/octet-stream", "nosniff")
    assert page.body == b"<script>alert(1)</script>"
    assert server.get(f"/v1/jobs/{job}/memory").json()["job"] == job
    assert server.get(f"/v1/jobs/{job}/diff").body == b"diff --git a/x b/x\n"
    for path in ("..%2f..%2fhutch.db", "%2e%2e/agent.log", "out/../../agent.log", "%2fetc%2fpasswd", "out"):
        assert server.get(f"/v1/jobs/{job}/files/{path}").status in (400, 404), path


def test_an_artifact_cannot_leave_its_folder(server, worker):
    lease = worker.lease(submit(server))
    for path in ("..%2f..%2fagent.log", "%2e%2e/x", "a/../../x"):
        assert refused(lease.put, "artifact", b"x", path)[0] in (400, 404), path
    lease.run()
    assert server.get(f"/v1/jobs/{lease.job}/files").json() == {"files": []}


# Ending, removing, repeating.


def test_delete(server, worker):
    """Cancels what has not ended, and removes what has."""
    job = submit(server)
    assert server.delete(f"/v1/jobs/{job}").json() == {"id": job, "action": "cancelled"}
    assert state(server, job) == "cancelled"
    assert server.delete(f"/v1/jobs/{job}").json() == {"id": job, "action": "removed"}
    assert server.delete(f"/v1/jobs/{job}").status == server.get(f"/v1/jobs/{job}").status == 404
    running = submit(server)
    lease = worker.lease(running)
    assert server.delete(f"/v1/jobs/{running}").json()["action"] == "cancelled"
    assert lease.renew() == "cancel"
    lease.finish("cancelled")
    assert state(server, running) == "cancelled"


def test_cancel_reaches_a_waiting_renewal_at_once(server, worker):
    lease = worker.lease(submit(server))
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(lease.renew(wait_ms=60000)))
    waiting.start()
    server.delete(f"/v1/jobs/{lease.job}")
    waiting.join(30)
    assert answers == ["cancel"]


def test_actions(server, worker):
    ended, waiting = submit(server), submit(server)
    worker.lease(ended).run()

    def act(action, *jobs):
        return server.post("/v1/jobs/actions", {"action": action, "jobs": jobs}).json()["results"]

    results = act("cancel", ended, waiting, "0" * 20)
    assert [one["done"] for one in results] == [False, True, False]
    assert "ended" in results[0]["error"] and "there is no job" in results[2]["error"]
    repeated, = act("repeat", ended)
    assert repeated["done"] and state(server, repeated["job"]) == "scheduled"
    assert [one["done"] for one in act("remove", ended, waiting, repeated["job"])] == [True, True, False]
    assert server.post("/v1/jobs/actions", {"action": "explode", "jobs": [ended]}).status == 422


def test_repeat(server, worker):
    job = submit(server, {**steps(2), "title": "twice"})
    worker.lease(job).run()
    again = server.post(f"/v1/jobs/{job}/repeat")
    assert again.status == 201 and again.json()["id"] != job
    assert (again.json()["title"], again.json()["spec"]) == ("twice", server.get(f"/v1/jobs/{job}").json()["spec"])


# Uploads.


def test_uploads(server, worker):
    archive = tar(**{"a.txt": "hello"})
    upload = server.post("/v1/uploads", archive).json()
    assert (upload["type"], upload["size"]) == ("tar", len(archive))
    job = submit(server, {**steps(), "workspace": {"upload": upload["id"]}})
    assert worker.lease(job).get("workspace") == archive
    second = server.post("/v1/uploads", archive).json()["id"]
    assert server.post("/v1/jobs", {**steps(), "workspace": {"upload": second}}, key=server.new_key("bob")).status == 404
    assert server.delete("/v1/uploads/" + second).status == 204
    assert server.delete("/v1/uploads/" + second).status == 404
    assert server.post("/v1/uploads", b"neither").problem == server.post("/v1/uploads", b"").problem == "not-an-archive"


def test_stored_bytes_are_limited(server):
    key = server.new_key("bob")
    assert server.request("PATCH", "/v1/users/bob", {"stored": 100_000}).status == 204
    assert server.post("/v1/uploads", tar(a="x" * 90_000), key=key).status == 201
    assert server.post("/v1/uploads", tar(a="x" * 90_000), key=key).problem == "quota"


# Workers.


def test_a_step_is_not_repeated(server, worker):
    """A second worker goes on behind the last finished step, with its checkpoint; the first is fenced."""
    server_job = submit(server, steps(3))
    first = worker.lease(server_job)
    checkpoint = first.put("checkpoint", tar(x="1"))
    first.step(0, "zero", checkpoint=checkpoint)
    first.finish("failed", "worker_lost", "the box broke", retry=True)
    second = FakeWorker(worker.transport.server, worker.transport._key, "second").lease(server_job)
    assert (second.token, second.data["steps_done"], second.data["has_checkpoint"]) == (2, 1, True)
    assert second.data["results"][0]["text"] == "zero" and second.get("checkpoint") == tar(x="1")
    for call in (lambda: first.step(1), lambda: first.events({"type": "log", "text": "late"}),
                 lambda: first.put("log", b"late"), lambda: first.get("checkpoint")):
        assert refused(call) == (409, "lost-lease")
    assert first.renew() == "lost"
    second.run("", "one", "two")
    job = server.get(f"/v1/jobs/{server_job}").json()
    assert (job["state"], job["attempt"], [one["text"] for one in job["result"]]) == ("completed", 2, ["zero", "one", "two"])


def test_requests_of_a_worker_can_be_repeated(server, worker):
    """As it does when an answer was lost: nothing is doubled."""
    lease = worker.lease(submit(server, steps(2)))
    for _ in range(2):
        assert lease.events({"type": "log", "text": "once"}, {"type": "log", "text": "twice"}, first=0) == 2
    for _ in range(2):
        lease.sent = 2
        lease.step(0, "zero")
    lease.step(1, "one")
    lease.finish()
    lease.finish()
    events = [event.type for event in server.events(f"/v1/jobs/{lease.job}/events")]
    assert events == ["state", "log", "log", "step", "step", "step", "step", "state"]


def test_a_lease_waits_for_a_job(server, worker):
    leases = []
    waiting = threading.Thread(target=lambda: leases.extend(worker.leases(wait_ms=60000)))
    waiting.start()
    job = submit(server)
    waiting.join(30)
    assert [lease.job for lease in leases] == [job]


def test_only_workers_lease(server):
    for key in (server.new_key("bob"), server.new_key("ro", "read-only")):
        assert refused(FakeWorker(server.url, key).leases)[0] == 403
    fake = FakeWorker(server.url, server.new_key("w", "worker"))
    assert fake.leases() == []
    assert server.get("/v1/jobs", key=fake.transport._key).status == 403


def test_after_and_failure(server, worker):
    first = submit(server)
    second, third = (submit(server, {**steps(), "after": [first]}) for _ in range(2))
    lease = worker.lease(first)
    assert worker.leases() == []
    lease.step(0, "no", failed=True)
    lease.finish("failed", "step_failed", "step 1 failed")
    for job in (second, third):
        read = server.get(f"/v1/jobs/{job}").json()
        assert (read["state"], read["exit_reason"]) == ("failed", "dependency_failed")


# Keys and users.


def test_me_keys_users_audit(server):
    admin = server.get("/v1/me").json()
    assert admin["role"] == "admin"
    made = server.post("/v1/keys", {"name": "carol", "role": "read-only"})
    key = made.json()["key"]
    assert made.status == 201 and made.json()["user"] == "carol"
    assert server.get("/v1/me", key=key).json()["role"] == "read-only"
    assert server.post("/v1/jobs", steps(), key=key).status == 403
    assert server.get("/v1/keys", key=key).status == server.get("/v1/audit", key=key).status == 403
    listed = {one["name"]: one for one in server.get("/v1/keys").json()["keys"]}
    assert listed["carol"]["role"] == "read-only" and key not in json.dumps(listed)
    assert server.post("/v1/keys", {"name": "../x"}).status == server.post("/v1/keys", {"name": "x", "role": "god"}).status == 422
    assert server.request("PATCH", "/v1/users/carol", {"running": 2}).status == 204
    users = {one["name"]: one for one in server.get("/v1/users").json()["users"]}
    assert users["carol"]["limits"]["running"] == 2
    assert server.request("PATCH", "/v1/users/carol", {"runing": 2}).status == 422
    assert server.delete("/v1/keys/carol").status == 204
    wait_until(lambda: server.get("/v1/me", key=key).status == 401, what="the end of the key")

    def audited():
        actions = [line["action"] for line in server.get("/v1/audit").json()["audit"]]
        return "key_new" in actions and "key_delete" in actions and "user_set" in actions

    wait_until(audited, what="the lines of the audit log, which are written behind the answers")
