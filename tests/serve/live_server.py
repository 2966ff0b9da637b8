"""One `hutch serve` with a worker for all tests of a module, driven by the Python client: import `server` and
`nothing_left_running`. What is left running counts at the end of the module, since boxes of the server outlive a test."""
import os
import sys
from pathlib import Path

import pytest

import harness
from hutch_server import Server

sys.path.insert(0, str(harness.REPO / "python"))

from hutch.client import Client  # noqa: E402


class LiveServer(Server):
    def __init__(self, *arguments, **more):
        self.keys = {}
        super().__init__(*arguments, **more)

    def key_for(self, user, role="user"):
        if (user, role) not in self.keys:
            value = {"name": f"{user}-{role}", "user": user, "role": role}
            self.keys[user, role] = Client(self.url, self.key).transport.json("POST", "/v1/keys", value=value)["key"]
        return self.keys[user, role]

    def client(self, user, role="user"):
        return Client(self.url, self.key_for(user, role))

    def worker_pids(self):
        pid = self.process.pid
        children = [int(child) for task in os.listdir(f"/proc/{pid}/task")
                    for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
        return [child for child in children if "hutch-worker" in harness.describe(child)]


@pytest.fixture
def nothing_left_running():
    """Instead of the one of tests/conftest.py: see `server`."""


@pytest.fixture(scope="module")
def server(callers, scratch):
    before = set(harness.descendants())
    caller, program = callers("user")
    server = LiveServer(harness.Box(program, caller, scratch), workers=1)
    yield server
    admin = Client(server.url, server.key)
    for job in admin.jobs(state="scheduled,running"):
        job.cancel()
    harness.wait_until(lambda: not list(admin.jobs(state="scheduled,running")), 120, "all jobs have ended")
    server.stop()
    left = harness.leftovers(before)
    said = [harness.describe(pid) for pid in left]
    harness.end_all(left)
    harness.reap_orphans()
    assert not left, "left running: " + "; ".join(said)
