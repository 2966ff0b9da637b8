"""Every operation of /openapi.json with every kind of key. The operations come from the server's own table, so a new route is
tested by being there; a parameter of a path that this file does not know fails.

One user, alice, has a job, a box, a session, an upload and an environment. Nobody else gets at them."""
import json
import tarfile

import pytest

from live_server import nothing_left_running, server  # noqa: F401 (fixtures)

import openapi
from hutch.client import Client, ServerError

TASK = "bugfix_1"
NOBODY = (401, 429)  # wrong keys are limited by address
FORBIDDEN = (403,)
GONE = "00000000000000000000"


def tar_file(folder):
    (folder / "a").write_text("a")
    with tarfile.open(folder / "a.tar", "w") as tar:
        tar.add(folder / "a", "a")
    return folder / "a.tar"


@pytest.fixture(scope="module")
def party(server, tmp_path_factory):
    """The server with keys of everybody, and what alice has."""
    admin = Client(server.url, server.key)

    def key(user, role):
        return admin.transport.json("POST", "/v1/keys", value={"name": f"{user}-{role}", "user": user, "role": role})["key"]

    class Party:
        url, client = server.url, admin
        keys = {"own": key("alice", "user"), "reader": key("alice", "read-only"), "other": key("bob", "user"),
                "worker": key("w", "worker"), "admin": server.key, "wrong": server.key + "x", "none": None}
        alice = Client(server.url, keys["own"])
        operations = openapi.operations(json.loads(admin.transport.get("/openapi.json")))

    for who in Party.keys:  # a key that was right before passes the limit of wrong ones
        if who not in ("wrong", "none"):
            try:
                Client(server.url, Party.keys[who]).me()
            except ServerError as refused:
                assert refused.status == 403
    alice = Party.alice
    Party.job = alice.submit(["echo hello >hello.txt"], artifacts=["*.txt"]).wait(300).id
    Party.box = alice.boxes.new(title="alice's").id
    Party.env = alice.gym(TASK).env()
    Party.env.reset(seed=1)
    Party.upload = alice.upload(tar_file(tmp_path_factory.mktemp("upload"))).id
    Party.session = alice.transport.json("POST", "/v1/sessions", value={"title": "alice's", "model": "builtin/demo"})["id"]
    yield Party
    for close in (alice.gym(TASK).close, alice.boxes.get(Party.box).close, alice.sessions.get(Party.session).close):
        close()


def values_of(operation, party):
    """The parameters of the path: alice's objects."""
    objects = {"/v1/jobs/": party.job, "/status/": party.job, "/v1/boxes/": party.box, "/v1/sessions/": party.session,
               "/v1/worker/": party.job, "/v1/uploads/": party.upload, "/v1/keys/": GONE}
    known = {"task": TASK, "path": "hello.txt"}
    for name in operation.path_names():
        if name == "id":
            known["id"] = next((value for start, value in objects.items() if operation.path.startswith(start)), None)
        elif name == "name":
            known["name"] = "nobody" if operation.path.startswith("/v1/users/") else "read_file"
        assert known.get(name) is not None, f"{operation}: say in values_of() what {{{name}}} is"
    return known


def body_of(operation, party):
    """A body that is allowed, where the smallest one would not do or would do too much; None: the smallest."""
    return {
        "worker_lease": {"worker": "nobody", "slots": 0, "live_slots": 0, "wait_ms": 0},
        "worker_renew": {"worker": "nobody", "leases": [], "wait_ms": 0},
        "box_set": {"net": "off"},
        "gym_step": {"env": party.env.id, "action": 0},
        "gym_fork": {"env": party.env.id},
        "gym_close": {"env": party.env.id},
        "gym_reset": {"env": party.env.id},
    }.get(operation.name)


def allowed(access, who):
    """None: it may call; else the status that it gets."""
    if who == "wrong":
        return NOBODY
    if access == "public":
        return None
    if who == "none":
        return NOBODY
    may = {"read": ("own", "reader", "other", "admin"), "user": ("own", "other", "admin"), "admin": ("admin",),
           "worker": ("worker", "admin")}[access]
    return None if who in may else FORBIDDEN


@pytest.mark.parametrize("who", ["none", "wrong", "reader", "worker"])
def test_key_that_may_not_is_refused(party, who):
    door = openapi.Door(party.url)
    failed = []
    for operation in party.operations:
        expected = allowed(operation.access, who)
        if expected is None and operation.access == "worker" or who == "wrong" and operation.access == "public":
            continue  # a worker's key may: see below; and it does not matter what a key is wrong for
        answer = door.send(operation, party.keys[who], values_of(operation, party), body_of(operation, party), read=False)
        if expected and answer.status not in expected:
            failed.append(f"{operation} ({operation.access}) as {who}: {answer.status}, not {expected}")
        if not expected and answer.status in (401, 403):
            failed.append(f"{operation} ({operation.access}) as {who}: {answer.status}")
    assert not failed, "\n".join(failed)


def alice_has(party):
    """What alice has, for a comparison."""
    alice = party.alice
    return {"job": alice.job(party.job).state, "log": alice.job(party.job).log(), "box": alice.boxes.get(party.box).state,
            "session": alice.sessions.get(party.session).data["state"], "env": party.env.state(),
            "envs": alice.gym(TASK).envs(), "jobs": sorted(job.id for job in alice.jobs())}


OF_ONE_USER = ("/v1/jobs/{id}", "/status/{id}", "/v1/boxes/{id}", "/v1/sessions/{id}", "/v1/uploads/{id}")
BY_BODY = ("gym_step", "gym_fork", "gym_close", "gym_reset")


def test_other_user_finds_nothing_of_alices(party):
    """Bob calls every operation with the IDs of alice's objects."""
    door, failed, before = openapi.Door(party.url), [], alice_has(party)
    for operation in sorted(party.operations, key=lambda one: one.method == "DELETE"):
        values, body = values_of(operation, party), body_of(operation, party)
        answer = door.send(operation, party.keys["other"], values, body)
        expected = allowed(operation.access, "other")
        theirs = operation.path.startswith(OF_ONE_USER) or operation.name in BY_BODY
        if expected and answer.status not in expected:
            failed.append(f"{operation}: {answer.status}, not {expected}")
        elif not expected and theirs and answer.status != 404:
            failed.append(f"{operation}: {answer.status}, not 404: {answer.body[:200]}")
        elif not expected and answer.status < 400 and (party.job.encode() in answer.body or party.box.encode() in answer.body):
            failed.append(f"{operation}: tells of alice's objects: {answer.body[:200]}")
    assert not failed, "\n".join(failed)
    assert alice_has(party) == before
    bob = Client(party.url, party.keys["other"])
    for close in [bob.gym(TASK).close, *[box.close for box in bob.boxes.list()], *[one.close for one in bob.sessions.list()]]:
        close()


def test_names_of_foreign_objects_in_bodies_are_refused(party):
    bob = Client(party.url, party.keys["other"])
    for more in ({"after": [party.job]}, {"memory_from": party.job}, {"workspace": {"job": party.job}},
                 {"workspace": {"upload": party.upload}}):
        with pytest.raises(ServerError) as refused:
            bob.transport.json("POST", "/v1/jobs", value={"steps": [{"tool": "shell", "command": "true"}], **more})
        assert refused.value.status in (404, 422), more
    for action in ("cancel", "repeat", "remove"):
        outcome = bob.transport.json("POST", "/v1/jobs/actions", value={"action": action, "jobs": [party.job]})
        assert not outcome["results"][0]["done"], outcome


def test_own_key_may_and_answers_are_as_described(party):
    """Alice calls what she may, destructive operations last, and every answer is held against its schema."""
    door, failed, called = openapi.Door(party.url), [], 0
    last = lambda one: (one.method == "DELETE", one.name in ("gym_close", "session_cancel"), one.path)  # noqa: E731
    for operation in sorted(party.operations, key=last):
        for who in ("own", "admin", "worker"):
            if allowed(operation.access, who) is not None or (who == "admin" and operation.access in ("read", "user")):
                continue
            answer = door.send(operation, party.keys[who], values_of(operation, party), body_of(operation, party))
            called += 1
            if answer.status in (401, 403) or answer.status >= 500:
                failed.append(f"{operation} as {who}: {answer.status}: {answer.body[:300]}")
            elif not operation.websocket and operation.tag != "mcp" and not answer.type.startswith("text/event-stream"):
                try:
                    operation.check(answer.status, answer.type, answer.body)
                except AssertionError as wrong:
                    failed.append(f"as {who}: {wrong}")
    assert not failed, "\n".join(failed)
    assert called >= len(party.operations) - 5
