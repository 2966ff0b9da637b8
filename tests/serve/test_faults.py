"""Nothing accepted is lost: jobs whose steps have counted effects, while the server and its workers are killed again and
again and the disk is full for a while. HUTCH_FAULT_JOBS sets the number of jobs (2,000 for a release)."""
import collections
import http.client
import os
import socketserver
import subprocess
import threading
import time
import uuid

import pytest

import harness

JOBS = int(os.environ.get("HUTCH_FAULT_JOBS", "120"))
CLIENTS = 8
PATIENCE = max(600, JOBS)  # seconds for all of it


class Counter(socketserver.ThreadingTCPServer):
    """Counts effects: a step connects, says which one it is, and waits for the answer."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self):
        self.counts, self.lock = collections.Counter(), threading.Lock()
        super().__init__(("127.0.0.1", 0), CounterHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class CounterHandler(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode().strip()
        if not line:
            return  # it was killed before it said anything
        with self.server.lock:
            self.server.counts[line] += 1
        self.wfile.write(b"counted\n")


@pytest.fixture
def counter():
    with Counter() as server:
        yield server
        server.shutdown()


def steps_of(name, port):
    """Two steps that count, and files that the second finds only if it begins in what the first left."""
    count = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo {name}-%d >&3; read -r answer <&3; [ \"$answer\" = counted ]"
    return [{"tool": "shell", "command": count % 0 + " && echo first > state"},
            {"tool": "shell", "command": "[ \"$(cat state)\" = first ] && " + count % 1 + " && echo second >> state"},
            {"tool": "shell", "command": "cat state"}]


class Client(threading.Thread):
    """Submits jobs one after the other; repeats what got no answer with the same idempotency key."""

    def __init__(self, server, port, names):
        super().__init__(daemon=True)
        self.server, self.port, self.names = server, port, list(names)
        self.accepted, self.refusals, self.trouble = {}, [], None

    def run(self):
        try:
            for name in self.names:
                self.submit(name)
        except BaseException as why:  # pylint: disable=broad-except
            self.trouble = why

    def submit(self, name):
        body = {"title": name, "steps": steps_of(name, self.port), "box": {"net": "host"}, "max_attempts": 20}
        key = str(uuid.uuid4())
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                answer = self.server.post("/v1/jobs", body, headers={"Idempotency-Key": key}, timeout=300)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # the server is away: nothing to wait for
                continue
            if answer.status in (200, 201):
                self.accepted[name] = answer.json()["id"]
                return
            # A clear error: the store cannot write now, or the server is about to stop.
            assert answer.problem in ("no-space", "unavailable", "storage", "disk-full"), answer
            self.refusals.append(answer.problem)
            time.sleep(0.2)
        raise AssertionError(f"{name} was not accepted")


class Chaos(threading.Thread):
    """Kills the server and a worker in turn, about once a second; restarts the server."""

    def __init__(self, server, disk):
        super().__init__(daemon=True)
        self.server, self.disk = server, disk
        self.stop, self.kills, self.full, self.trouble = threading.Event(), 0, None, None

    def workers(self):
        return [pid for pid in harness.descendants() if " worker " in harness.describe(pid)]

    def run(self):
        try:
            while not self.stop.wait(1):
                self.kills += 1
                if self.disk and self.kills == 3:
                    self.disk.fill()
                    self.full = self.server.post("/v1/uploads", bytes(1 << 20), headers={"Content-Type": "application/x-tar"})
                if self.disk and self.kills == 8:
                    self.disk.empty()
                if self.kills % 2:
                    for pid in self.workers()[:1]:
                        harness.end_all([pid])
                else:
                    self.server.restart()
        except BaseException as why:  # pylint: disable=broad-except
            self.trouble = why
        finally:
            if self.disk:
                self.disk.empty()


class SmallDisk:
    """A filesystem of its own for the data folder, which can be filled."""

    def __init__(self, folder, owner):
        self.folder, self.filler = folder, folder / "filler"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=512m,mode=0700,uid={owner.uid},gid={owner.gid}", "tmpfs", folder],
                       check=True)

    def fill(self):
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
            except OSError:
                pass

    def empty(self):
        self.filler.unlink(missing_ok=True)


@pytest.fixture
def disk(box):
    folder = box.caller.folder(box.scratch, "small")
    if os.geteuid() != 0:
        yield None
        return
    disk = SmallDisk(folder, box.caller)
    yield disk
    subprocess.run(["umount", "--lazy", folder], check=False)


def job_events(server, id):
    events, after = [], 0
    while True:
        answer = server.get(f"/v1/jobs/{id}/events?after={after}", headers={"Accept": "application/json"})
        assert answer.status == 200, answer
        page = answer.json()["events"]
        if not page:
            return events
        events += page
        after = page[-1]["seq"]


def check_job(name, events, counts):
    """It ended once, as completed. Each step finished once and did not begin again after that; it had as many effects as
    there were attempts until then, at most: the one in which it finished, and those that were killed in it."""
    final = [e["state"] for e in events if e["type"] == "state" and e["state"] in ("completed", "failed", "cancelled")]
    assert final == ["completed"], (name, final, events)
    finished = {}
    for event in events:
        if event["type"] != "step":
            continue
        assert event["step"] not in finished, (name, "a finished step again", events)
        assert event["status"] in ("started", "completed"), (name, events)
        if event["status"] == "completed":
            finished[event["step"]] = event["attempt"]
    assert sorted(finished) == [0, 1, 2], (name, finished)
    assert finished[0] <= finished[1] <= finished[2], (name, finished)
    began = {0: 1, 1: finished[0]}  # the first attempt that can have run the step
    for step in (0, 1):
        assert 1 <= counts[f"{name}-{step}"] <= finished[step] - began[step] + 1, (name, step, counts[f"{name}-{step}"], events)


def test_accepted_jobs_end_exactly_once(box, start_server, counter, disk):
    port = counter.server_address[1]
    server = start_server("--keep", "1d", workers=2, data=disk.folder / "data" if disk else None)
    names = [f"job{i}" for i in range(JOBS)]
    clients = [Client(server, port, names[i::CLIENTS]) for i in range(CLIENTS)]
    chaos = Chaos(server, disk)
    for thread in (*clients, chaos):
        thread.start()
    for client in clients:
        client.join(PATIENCE)
        assert not client.is_alive() and client.trouble is None, client.trouble
    accepted = {name: id for client in clients for name, id in client.accepted.items()}
    assert sorted(accepted) == sorted(names) and len(set(accepted.values())) == JOBS
    harness.wait_until(lambda: chaos.kills >= 14 or chaos.trouble, PATIENCE, "the kills")
    chaos.stop.set()
    chaos.join(PATIENCE)
    assert chaos.trouble is None, chaos.trouble
    assert not disk or chaos.full.status == 507, chaos.full
    server.restart()

    def ended():
        answer = server.get("/v1/jobs?state=scheduled,running&limit=1")
        return answer.status == 200 and not answer.json()["jobs"]
    harness.wait_until(ended, PATIENCE, "all jobs to end")
    for name, id in accepted.items():
        check_job(name, job_events(server, id), counter.counts)
        assert server.get(f"/v1/jobs/{id}").json()["result"][2]["text"] == "first\nsecond\n"
    assert set(counter.counts) == {f"{name}-{step}" for name in names for step in (0, 1)}
