"""A small server of the workers' protocol (docs/control-plane.md) in this process, for tests of the worker alone: it can
be told to break a connection in the middle, to lose a lease, to go away and come back, and it keeps every request."""
import json
import os
import re
import select
import socket
import socketserver
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from pathlib import Path

WAIT = int(os.environ.get("HUTCH_TEST_WAIT", "120"))  # seconds; a loaded machine takes long


class Job:
    def __init__(self, name, kind, spec, **more):
        self.id, self.kind, self.spec = name, kind, spec
        self.user = more.get("user", "alice")
        self.upload = more.get("upload")  # (type, bytes)
        self.memory = more.get("memory")
        self.timeout_ms = more.get("timeout_ms")
        self.state, self.token, self.until, self.cancelled = "scheduled", 0, 0, False
        self.events, self.results, self.checkpoint, self.finish = [], [], None, None
        self.files, self.resume, self.received = {}, None, 0
        self.uploads, self.refused, self.attempts, self.released = {}, 0, [], 0
        self.not_before = 0

    def types(self, wanted):
        return [e for e in self.events if e["type"] == wanted]

    def log(self):
        return self.files.get("agent.log", b"").decode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.open.add(self.connection)

    def finish(self):
        self.server.open.discard(self.connection)
        try:
            super().finish()
        except OSError:
            pass

    def log_message(self, *args):
        pass

    def address_string(self):
        return "local"

    def answer(self, status, body=None, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def problem(self, status, kind, detail):
        self.answer(status, {"type": "urn:hutch:problem:" + kind, "title": kind, "detail": detail})

    def body(self):
        left, data = int(self.headers.get("Content-Length") or 0), bytearray()
        stop = self.server.owner.breaks(self.command, self.path, left)
        while left > 0:
            piece = self.rfile.read(min(left, 65536, max(1, stop - len(data)) if stop is not None else 65536))
            if not piece:
                raise ConnectionError
            data += piece
            left -= len(piece)
            if stop is not None and len(data) >= stop:
                raise ConnectionError
        if stop is not None:
            raise ConnectionError
        return bytes(data)

    def serve(self):
        owner = self.server.owner
        try:
            if owner.key and self.headers.get("Authorization") != "Bearer " + owner.key:
                self.body()
                self.problem(401, "unauthorized", "no such key")
                return
            data = self.body()
            status, body, kind = owner.serve(self.command, self.path, data, self.connection)
            if owner.breaks(self.command, self.path, None) is not None:
                raise ConnectionError
            self.answer(status, body, kind)
        except AssertionError as e:
            owner.wrong.append(f"{self.command} {self.path}: {e}")
            self.problem(400, "wrong", str(e))
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = serve


class Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


class Coordinator:
    def __init__(self, path, lease_ms=10000):
        self.path, self.lease_ms, self.key = Path(path), lease_ms, None
        self.jobs, self.requests, self.faults = {}, [], []
        self.tag = os.urandom(5).hex()  # no two servers have the same IDs
        self.wrong = []  # what a worker asked that it may not
        self.changed = threading.Condition()
        self.listener = None
        self.start()

    # --- the process ---

    def start(self):
        self.path.unlink(missing_ok=True)
        self.listener = Listener(str(self.path), Handler)
        self.listener.owner, self.listener.open = self, set()
        self.path.chmod(0o777)
        threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        """Goes away: new connections are refused, requests that wait get no answer."""
        self.path.unlink(missing_ok=True)
        self.listener.shutdown()
        self.listener.server_close()
        for connection in list(self.listener.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.listener = None
        with self.changed:
            self.changed.notify_all()

    def fault(self, method, pattern, after=None, times=1):
        """Breaks the connection of the next requests: after so many bytes of the body, or (None) once it was carried
        out, before the answer."""
        self.faults.append([method, re.compile(pattern), after, times])

    def breaks(self, method, path, body):
        for fault in self.faults:
            if fault[3] and fault[0] == method and fault[1].search(path) and (fault[2] is None) == (body is None):
                fault[3] -= 1
                return fault[2] or 0
        return None

    # --- tests ---

    def submit(self, spec, kind="steps", **more):
        with self.changed:
            name = f"{self.tag}{len(self.jobs) + 1:010d}"
            job = self.jobs[name] = Job(name, kind, spec, **more)
            self.changed.notify_all()
            return job

    def steps(self, *commands, **more):
        spec = {"steps": [c if isinstance(c, dict) else {"tool": "bash", "command": c} for c in commands]}
        spec.update(more.pop("spec", {}))
        return self.submit(spec, **more)

    def wait(self, condition, seconds=WAIT):
        deadline = time.monotonic() + seconds
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, "it did not happen: " + json.dumps(
                    {j.id: [j.state, j.token, j.finish, j.events[-3:]] for j in self.jobs.values()}, default=str)
                self.changed.wait(min(left, 0.2))

    def ended(self, job, seconds=WAIT):
        self.wait(lambda: job.state in ("completed", "failed", "cancelled"), seconds)
        return job

    def cancel(self, job):
        with self.changed:
            job.cancelled = True
            self.changed.notify_all()

    # --- the protocol; under the lock ---

    def serve(self, method, path, data, connection):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = [urllib.parse.unquote(p) for p in url.path.split("/")[1:]]
        assert parts[:2] == ["v1", "worker"], path
        body = json.loads(data) if method == "POST" else None
        with self.changed:
            self.requests.append((method, url.path, query, body if body is not None else len(data)))
            try:
                if parts[2] == "lease":
                    return 200, self.lease(body, connection), "application/json"
                if parts[2] == "renew":
                    return 200, self.renew(body), "application/json"
                job = self.jobs[parts[3]]
                token = int(body["token"] if body else query["token"])
                if not self.holds(job, token):
                    job.refused += 1
                    return 409, {"type": "urn:hutch:problem:lost-lease", "title": "lost"}, "application/json"
                return getattr(self, method.lower() + "_" + parts[4])(job, query, body, data, "/".join(parts[5:]))
            finally:
                self.changed.notify_all()

    def holds(self, job, token):
        return job.state == "running" and job.token == token and time.monotonic() < job.until

    def expire(self):
        for job in self.jobs.values():
            if job.state == "running" and time.monotonic() >= job.until:
                job.state = "cancelled" if job.cancelled else "scheduled"

    def lease(self, body, connection):
        deadline = time.monotonic() + body["wait_ms"] / 1000
        while not select.select([connection], [], [], 0)[0]:  # the worker has gone
            self.expire()
            found = []
            for job in self.jobs.values():
                room = body["slots"] if job.kind in ("steps", "goal") else body["live_slots"]
                if job.state == "scheduled" and len(found) < room and time.monotonic() >= job.not_before:
                    job.state, job.token, job.received = "running", job.token + 1, 0
                    job.until = time.monotonic() + self.lease_ms / 1000
                    job.attempts.append(body["worker"])
                    found.append({"job": job.id, "token": job.token, "kind": job.kind, "user": job.user, "spec": job.spec,
                                  "steps_done": len(job.results), "results": job.results,
                                  "has_checkpoint": job.checkpoint is not None,
                                  "log_size": len(job.files.get("agent.log", b"")), "deadline_ms": job.timeout_ms,
                                  "lease_ms": self.lease_ms, "resume": job.resume})
            left = deadline - time.monotonic()
            if found or left <= 0 or not self.listener:
                return {"jobs": found}
            self.changed.wait(min(left, 0.5))
        raise ConnectionError

    def renew(self, body):
        deadline = time.monotonic() + body["wait_ms"] / 1000
        for one in body["leases"]:
            job = self.jobs[one["job"]]
            if self.holds(job, one["token"]):
                job.until = time.monotonic() + self.lease_ms / 1000
        told = {j.id for j in self.jobs.values() if getattr(j, "told", False)}
        while True:
            states = []
            for one in body["leases"]:
                job = self.jobs[one["job"]]
                held = self.holds(job, one["token"])
                states.append({"job": job.id, "state": "lost" if not held else "cancel" if job.cancelled else "held"})
            left = deadline - time.monotonic()
            news = [s for s in states if s["state"] == "lost" or (s["state"] == "cancel" and s["job"] not in told)]
            if news or left <= 0 or not self.listener:
                for s in states:
                    if s["state"] == "cancel":
                        self.jobs[s["job"]].told = True
                return {"leases": states}
            self.changed.wait(min(left, 0.5))

    def take_log(self, job, offset, data):
        log = job.files.get("agent.log", b"")
        assert offset <= len(log), "a piece of the log is missing"
        job.files["agent.log"] = log[:offset] + data

    def take_events(self, job, body):
        if "log" in body:
            self.take_log(job, body["log"]["offset"], body["log"]["text"].encode())
        first, events = body.get("first", 0), body.get("events", [])
        assert first <= job.received, "events are missing"
        job.events += [dict(e, attempt=job.token) for e in events[job.received - first:]]
        job.received = max(job.received, first + len(events))

    def post_events(self, job, _query, body, _data, _path):
        self.take_events(job, body)
        return 200, {"next": job.received}, "application/json"

    def post_step(self, job, _query, body, _data, _path):
        self.take_events(job, body)
        assert body["step"] in (len(job.results), len(job.results) - 1)
        if body["step"] == len(job.results):
            job.results.append(body["result"])
            if body["checkpoint"]:
                job.checkpoint = job.uploads[body["checkpoint"]]
        return 200, {}, "application/json"

    def post_finish(self, job, _query, body, _data, _path):
        self.take_events(job, body)
        if body.get("release"):
            job.released += 1
            job.state = "scheduled"
            return 200, {}, "application/json"
        job.finish = body
        if body.get("retry"):
            job.state, job.not_before = "scheduled", time.monotonic() + 0.2
            if job.token >= 3:
                job.state = "failed"
            return 200, {}, "application/json"
        job.results += body.get("steps") or []
        job.state = body["state"]
        return 200, {}, "application/json"

    def post_resume(self, job, _query, body, _data, _path):
        job.resume = body["resume"]
        return 200, {}, "application/json"

    def put_files(self, job, query, _body, data, path):
        kind, answer = query["kind"], {"id": None}
        if kind == "log":
            self.take_log(job, int(query.get("offset", 0)), data)
        elif kind == "checkpoint":
            answer["id"] = f"checkpoint-{len(job.uploads)}"
            job.uploads[answer["id"]] = data
        elif kind == "artifact":
            if "files/" + path not in job.files:
                job.events.append({"type": "artifact", "path": path, "size": len(data)})
            job.files["files/" + path] = data
        else:
            job.files[kind] = data
        return 200, answer, "application/json"

    def get_workspace(self, job, *_rest):
        if not job.upload:
            return 204, b"", ""
        return 200, job.upload[1], job.upload[0]

    def get_checkpoint(self, job, *_rest):
        return (200, job.checkpoint, "application/x-tar") if job.checkpoint is not None else (204, b"", "")

    def get_memory(self, job, *_rest):
        return (200, json.dumps(job.memory).encode(), "application/json") if job.memory else (204, b"", "")
