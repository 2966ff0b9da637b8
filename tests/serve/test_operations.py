"""Every operation of /openapi.json succeeds once, and its answer is as described. A new operation fails here until it is called."""
import json
import tarfile

import pytest

import harness
from live_server import LiveServer, nothing_left_running, server  # noqa: F401 (fixtures)

import openapi
from hutch.client import Client

TASK = "bugfix_1"
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


class Caller:
    """Calls operations by name and keeps which ones have succeeded."""

    def __init__(self, server, called):
        self.door, self.called = openapi.Door(server.url), called
        document = json.loads(Client(server.url, server.key).transport.get("/openapi.json"))
        self.operations = {one.name: one for one in openapi.operations(document)}

    def __call__(self, what, key, body=None, query=None, headers=None, **values):
        operation = self.operations[what]
        answer = self.door.send(operation, key, values, body, query, headers=headers)
        assert answer.status in (101, *range(200, 300)), f"{operation}: {answer.status} {answer.body[:500]}"
        if not operation.websocket and not answer.type.startswith("text/event-stream"):
            operation.check(answer.status, answer.type, answer.body)
        self.called.add(what)
        return json.loads(answer.body) if answer.type.endswith("json") else answer


@pytest.fixture(scope="module")
def called():
    return set()


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    (folder / "a").write_text("a")
    with tarfile.open(folder / "a.tar", "w") as tar:
        tar.add(folder / "a", "a")
    return (folder / "a.tar").read_bytes()


def test_operations_of_a_user(server, called, archive):
    call, own, client = Caller(server, called), server.key_for("ute"), server.client("ute")
    upload = call("upload_new", own, archive)["id"]
    steps = [{"tool": "shell", "command": "echo hello >hello.txt; cat a"}]
    job = call("job_submit", own, {"steps": steps, "workspace": {"upload": upload}, "artifacts": ["*.txt"]})["id"]
    client.job(job).wait(300, check=True)
    for name in ("job_get", "job_events", "job_log", "job_memory", "job_diff", "job_files", "status_of"):
        call(name, own, id=job)
    call("status", own, query={"task_id": job})
    call("job_file", own, id=job, path="hello.txt")
    call("job_list", own)
    again = call("job_repeat", own, id=job)["id"]
    call("job_actions", own, {"action": "cancel", "jobs": [again]})
    call("schedule", own, {"steps": steps})
    client.job(again).wait(300)
    call("job_delete", own, id=again)
    call("upload_delete", own, id=call("upload_new", own, archive)["id"])
    for name in ("me", "tool_list", "healthz", "readyz", "openapi", "docs", "docs_script", "docs_style"):
        call(name, own)
    call("shell", own, {"command": "ls"})
    call("code", own, {"code": "print(1)"})
    call("fs", own, {"action": "list"})
    call("tool_call", own, {"command": "ls"}, name="bash")


def test_operations_of_a_box(server, called):
    call, own = Caller(server, called), server.key_for("ute")
    box = call("box_new", own, {"title": "box"})["id"]
    for name in ("box_get", "box_live", "box_changes", "box_diff", "box_files", "box_snapshots", "box_terminal"):
        call(name, own, id=box)
    call("box_list", own)
    call("box_set", own, {"net": "off"}, id=box)
    call("box_exec", own, {"command": "echo hi"}, id=box)
    call("box_tool", own, {"command": "ls"}, id=box, name="bash")
    call("box_file_put", own, b"content", id=box, path="a/b")
    call("box_file_get", own, id=box, path="a/b")
    snapshot = call("box_snapshot", own, {"name": "one"}, id=box)["id"]
    call("box_restore", own, {"snapshot": snapshot}, id=box)
    fork = call("box_fork", own, {"count": 1}, id=box)["boxes"][0]["id"]
    for one in (fork, box):
        call("box_delete", own, id=one)


def test_operations_of_a_session(server, called):
    """The model is a recording: what it says does not matter here."""
    call, own = Caller(server, called), server.key_for("ute")
    session = call("session_new", own, {"title": "session", "model": "builtin/demo"})["id"]
    for name in ("session_get", "session_state", "session_events", "session_changes", "session_diff", "session_workspace",
                 "session_tools", "session_cancel"):
        call(name, own, id=session)
    call("session_list", own)
    call("session_message", own, {"text": "make the tests pass"}, id=session)
    for _ in Client(server.url, own).sessions.get(session).send("go on", queue=True):
        pass
    call("session_conversation", own, id=session)
    call("session_tool", own, {"command": "echo x >x"}, id=session, name="bash")
    for name in ("session_undo", "session_apply", "session_sync"):
        call(name, own, {}, id=session)
    fork = call("session_fork", own, {}, id=session)["id"]
    call("session_compact", own, id=fork)
    call("session_model", own, {"model": "builtin/demo"}, id=fork)
    for one in (fork, session):
        call("session_delete", own, id=one)


def test_operations_of_the_gym(server, called):
    call, own = Caller(server, called), server.key_for("ute")
    call("gym_tasks", own)
    call("gym_task", own, task=TASK)
    env = call("gym_reset", own, {"seed": 1}, task=TASK)["env"]
    call("gym_step", own, {"env": env, "action": 0}, task=TASK)
    call("gym_step", own, {"steps": [{"env": env, "tool": "run_tests"}, {"env": "x", "action": 0}]}, task=TASK)
    call("gym_fork", own, {"env": env}, task=TASK)
    call("gym_state", own, task=TASK)
    call("gym_state", own, task=TASK, query={"env": env})
    call("openenv_reset", own, {}, task=TASK)
    call("openenv_step", own, {"action": {"tool": "submit"}}, task=TASK)
    call("openenv_mcp", own, {}, task=TASK)
    for name in ("openenv_state", "openenv_health", "openenv_metadata", "openenv_schema", "openenv_openapi", "openenv_ws"):
        call(name, own, task=TASK)
    call("gym_close", own, {}, task=TASK)


def test_operations_of_mcp(server, called):
    call, own = Caller(server, called), server.key_for("ute")
    headers = {"Accept": "application/json, text/event-stream"}
    answer = call.door.send(call.operations["mcp_post"], own, {}, json.dumps(INITIALIZE).encode(), headers=headers)
    assert answer.status == 200, answer.body
    called.add("mcp_post")
    session = {**headers, "Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
    call("mcp_listen", own, headers=session)
    call("mcp_end", own, headers=session)


def test_operations_of_an_admin(server, called):
    call = Caller(server, called)
    for name in ("metrics", "key_list", "user_list", "audit_list"):
        call(name, server.key)
    call("key_new", server.key, {"name": "short-lived", "user": "nora", "role": "user"})
    call("user_set", server.key, {"running": 4}, name="nora")
    call("key_delete", server.key, id="short-lived")


@pytest.fixture
def lonely(callers, scratch):
    """A server without a worker: the test is the worker."""
    caller, program = callers("user")
    lonely = LiveServer(harness.Box(program, caller, scratch), workers=0)
    yield lonely
    lonely.stop()


def test_operations_of_a_worker(lonely, called, archive):
    call, worker, client = Caller(lonely, called), lonely.key_for("w", "worker"), lonely.client("ute")
    first = client.submit([{"tool": "shell", "command": "true"}])
    upload = call("upload_new", client.transport._key, archive)["id"]
    job = client.submit([{"tool": "shell", "command": "true"}] * 2, memory_from=first, workspace={"upload": upload}).id
    ask = {"worker": "me", "slots": 1, "live_slots": 0, "wait_ms": 60000}
    (lease,) = call("worker_lease", worker, ask)["jobs"]
    assert lease["job"] == first.id  # the other one waits for its memory
    call("worker_finish", worker, {"token": lease["token"], "state": "completed", "exit_reason": "completed"}, id=first.id)
    (lease,) = call("worker_lease", worker, ask)["jobs"]
    assert lease["job"] == job
    token = lease["token"]
    call("worker_renew", worker, {"worker": "me", "leases": [{"job": job, "token": token}], "wait_ms": 0})
    event = {"type": "log", "text": "hello"}
    call("worker_events", worker, {"token": token, "first": 0, "events": [event]}, id=job)
    call("worker_resume", worker, {"token": token, "resume": {"a": 1}}, id=job)
    for name in ("worker_workspace", "worker_memory", "worker_checkpoint"):
        call(name, worker, id=job, query={"token": token})
    checkpoint = call("worker_file", worker, archive, id=job, path="checkpoint", query={"token": token, "kind": "checkpoint"})
    result = {"tool": "bash", "failed": False, "text": "", "data": None, "seconds": 0.1}
    call("worker_step", worker, {"token": token, "step": 0, "result": result, "checkpoint": checkpoint["id"]}, id=job)
    call("worker_checkpoint", worker, id=job, query={"token": token})
    call("worker_finish", worker, {"token": token, "state": "failed", "exit_reason": "error", "error": "it was a test",
                                   "retry": False}, id=job)
    assert client.job(job).error == "it was a test"
    box = client.transport.json("POST", "/v1/boxes", value={"wait": False})["id"]
    (live,) = call("worker_lease", worker, {**ask, "slots": 0, "live_slots": 1})["jobs"]
    assert live["job"] == box
    call("worker_channel", worker, id=box, query={"token": live["token"]})


def test_every_operation_was_called(server, called):
    """The last test: the ones above call them."""
    names = set(Caller(server, set()).operations)
    if len(called) < 20:
        pytest.skip("the tests above did not run")
    assert names - called == set()
