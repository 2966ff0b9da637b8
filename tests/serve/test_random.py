"""Random requests, made of the schemas of /openapi.json, for HUTCH_RANDOM_SECONDS (20): whatever comes in, every answer is one that
is described, none is a failure of the server, and neither the server nor its worker crashes.

HUTCH_RANDOM_SEED repeats a run as far as threads allow; a failure prints the request."""
import http.client
import json
import os
import random
import socket
import threading
import time
from urllib.parse import urlsplit

from live_server import nothing_left_running, server  # noqa: F401 (fixtures)

import openapi
from hutch.client import Client

SECONDS = float(os.environ.get("HUTCH_RANDOM_SECONDS", "20"))
SEED = int(os.environ.get("HUTCH_RANDOM_SEED", "0")) or random.randrange(1 << 30)
THREADS = 6
FINE_5XX = (503, 504, 507)  # no worker within the time, or a limit: not a fault
LIMITS = {"running": 8, "live": 8, "per_second": 0, "stored": 50 << 20}


class Requests:
    """What one thread sends."""

    def __init__(self, run, number):
        self.run, self.rng = run, random.Random(SEED * 1000 + number)

    def value_of(self, operation, name):
        known = self.run.known.get(next((start for start in self.run.known if operation.path.startswith(start)), ""), [])
        if name == "task":
            known = ["bugfix_1"]
        elif name == "name" and not operation.path.startswith("/v1/users"):
            known = ["read_file", "bash", "list_files"]
        elif name == "path":
            known = ["a.txt", "b/c", "hello.txt"]
        hard = ["0" * 20, "..", "%", "x" * 200, "a b", "é", "-", openapi.text(self.rng, {}) or "-"]
        return self.rng.choice(known) if known and self.rng.random() < 0.8 else self.rng.choice(hard)

    def query_of(self, operation):
        given = {}
        for one in operation.parameters:
            if one["in"] == "query" and self.rng.random() < (0.95 if one["required"] else 0.4):
                value = operation.some(one["schema"], self.rng)
                given[one["name"]] = str(value if isinstance(value, (str, int, float)) else json.dumps(value))[:2000]
        if self.rng.random() < 0.03:
            given["unknown"] = "1"
        return given

    def body_of(self, operation):
        if not operation.body:
            return None
        if self.rng.random() < 0.05 or operation.schema() is None:
            return self.rng.choice([b"", b"{", b"[" * 3000, b"\xff\xfe", b'{"a":1,"a":2}', b"null", bytes(1024), b'"\\ud800"'])
        value = operation.some(operation.schema(), self.rng)
        if operation.name == "worker_lease" and isinstance(value, dict):
            value.update(slots=0, live_slots=0)  # it would take jobs from the real worker
        if isinstance(value, dict) and "wait_ms" in value:
            value["wait_ms"] = 0
        return json.dumps(value).encode("utf-8", "surrogatepass")

    def send(self):
        operation = self.rng.choice(self.run.operations)
        right = {"admin": self.run.admin, "worker": self.run.worker}.get(operation.access, self.run.key)
        key = right if self.rng.random() < 0.8 else self.rng.choice([self.run.reader, self.run.worker, self.run.admin])
        target = operation.url({name: self.value_of(operation, name) for name in operation.path_names()},
                               self.query_of(operation))
        body = self.body_of(operation)
        said = f"{operation.method} {target} {body!r:.2000}"
        connection = http.client.HTTPConnection(self.run.address.hostname, self.run.address.port, timeout=150)
        try:
            connection.request(operation.method, target.encode("ascii", "replace").decode(), body=body,
                               headers={"X-API-Key": key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            kind = answer.headers.get("Content-Type", "")
            follows = kind.startswith("text/event-stream") or answer.status == 101
            data = b"" if follows else answer.read()
        except (OSError, http.client.HTTPException) as failure:
            if "%00" in target:  # libwebsockets closes the connection
                return None
            return self.run.fail(f"{said}: {failure!r}")
        finally:
            connection.close()
        self.run.statuses[answer.status] = self.run.statuses.get(answer.status, 0) + 1
        if answer.status >= 500 and answer.status not in FINE_5XX:
            return self.run.fail(f"{said}: {answer.status} {data[:500]}")
        if not follows and not operation.websocket and operation.tag != "mcp":
            try:
                operation.check(answer.status, kind, data)
            except AssertionError as wrong:
                return self.run.fail(f"{said}: {wrong}")
        if operation.name in ("box_new", "session_new", "job_submit", "upload_new") and answer.status == 201:
            self.run.known.setdefault(operation.path.rstrip("/") + "/", []).append(json.loads(data)["id"])
        return None

    def work(self):
        while time.monotonic() < self.run.end and len(self.run.failures) < 10:
            self.send()


class Run:
    def __init__(self, server):
        self.key, self.admin = server.key_for("rita"), server.key
        self.worker, self.reader = server.key_for("w", "worker"), server.key_for("rita", "read-only")
        self.address = urlsplit(server.url)
        self.operations = openapi.operations(json.loads(Client(server.url, server.key).transport.get("/openapi.json")))
        self.failures, self.statuses, self.known = [], {}, {}
        self.end = time.monotonic() + SECONDS

    def fail(self, text):
        self.failures.append(text)


def test_random_requests_find_no_fault(server):
    admin = Client(server.url, server.key)
    run = Run(server)
    for user in ("rita", "admin"):
        admin.transport.json("PATCH", f"/v1/users/{user}", value=LIMITS)
    box = server.client("rita").boxes.new()
    box.write("a.txt", "a")
    run.known["/v1/boxes/"] = [box.id]
    run.known["/v1/jobs/"] = run.known["/status/"] = [server.client("rita").submit(["echo hi >hello.txt"]).wait(300).id]
    workers = server.worker_pids()
    threads = [threading.Thread(target=Requests(run, number).work) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"seed {SEED}: {sum(run.statuses.values())} requests: {dict(sorted(run.statuses.items()))}")
    assert not run.failures, f"seed {SEED}:\n" + "\n".join(run.failures[:10])
    assert server.process.poll() is None and server.worker_pids() == workers, f"seed {SEED}: {server.log[-20:]}"
    assert run.statuses.get(200, 0) > 20 and run.statuses.get(422, 0) > 5
    with socket.create_connection((run.address.hostname, run.address.port), 60):
        assert admin.transport.json("GET", "/healthz")["status"] == "ok"
