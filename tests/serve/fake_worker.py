"""A worker that runs nothing: it speaks the protocol of workers and does exactly what a test says. So leases, fencing,
retries and failures can be tested step by step, without a box.

    worker = FakeWorker("unix:" + str(data / "worker.sock"))
    lease = worker.lease()
    lease.step(0, text="hello\\n")
    lease.finish("completed")
"""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from hutch.client import ServerError, Transport  # pylint: disable=wrong-import-position


class FakeWorker:
    """`server` as for hutch.Client; the socket of the data folder needs no key."""

    def __init__(self, server, key=None, name="fake"):
        self.transport = Transport(server, key, timeout=90, patience=0)
        self.name = name

    def post(self, path, body):
        return self.transport.json("POST", "/v1/worker/" + path, value=body)

    def leases(self, slots=1, live_slots=0, wait_ms=0, **more):
        """All leases of one request, perhaps none."""
        answer = self.post("lease", {"worker": self.name, "slots": slots, "live_slots": live_slots, "wait_ms": wait_ms, **more})
        return [Lease(self, lease) for lease in answer["jobs"]]

    def lease(self, job=None, seconds=60, **more):
        """The next job; fails if it is not this one, or if there is none for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for lease in self.leases(wait_ms=2000, **more):
                assert job in (None, lease.job), f"leased {lease.job} instead of {job}"
                return lease
        raise AssertionError(f"no job to lease within {seconds} s")

    def renew(self, *leases, wait_ms=0):
        """The states of these leases: {job: "held", "lost" or "cancel"}."""
        asked = [{"job": lease.job, "token": lease.token} for lease in leases]
        answer = self.post("renew", {"worker": self.name, "leases": asked, "wait_ms": wait_ms})
        return {one["job"]: one["state"] for one in answer["leases"]}


class Lease:
    """A leased job: `data` is the server's answer."""

    def __init__(self, worker, data):
        self.worker, self.data = worker, data
        self.job, self.token, self.spec = data["job"], data["token"], data["spec"]
        self.sent = 0  # events of this attempt

    def post(self, path, body):
        return self.worker.post(f"jobs/{self.job}/{path}", {"token": self.token, **body})

    def events(self, *events, first=None):
        """Appends events; `first` repeats earlier ones. Returns the number of the next."""
        first = self.sent if first is None else first
        answer = self.post("events", {"first": first, "events": list(events)})
        self.sent = answer["next"]
        return self.sent

    def step(self, step, text="", failed=False, checkpoint=None, seconds=0.1):
        """Finishes a step, with its events."""
        tool = self.spec["steps"][step]["tool"]
        result = {"tool": tool, "failed": failed, "text": text, "data": None, "seconds": seconds}
        status = "failed" if failed else "completed"
        events = [{"type": "step", "step": step, "tool": tool, "status": "started"},
                  {"type": "step", "step": step, "tool": tool, "status": status, "seconds": seconds, "text": text}]
        self.post("step", {"step": step, "result": result, "checkpoint": checkpoint, "first": self.sent, "events": events})
        self.sent += len(events)

    def finish(self, state="completed", exit_reason=None, error=None, retry=False, **more):
        self.post("finish", {"state": state, "exit_reason": exit_reason or state, "error": error, "retry": retry,
                             "first": self.sent, "events": [], **more})

    def run(self, *texts):
        """All steps, with these results, and the end."""
        for step in range(self.data["steps_done"], len(self.spec["steps"])):
            self.step(step, texts[step] if step < len(texts) else "")
        self.finish()

    def put(self, kind, content, path=None, offset=0):
        """Sends a file; the ID of a checkpoint."""
        answer = self.worker.transport.json("PUT", f"/v1/worker/jobs/{self.job}/files/{path or kind}", body=content,
                                            query={"token": self.token, "kind": kind, "offset": offset},
                                            headers={"Content-Type": "application/octet-stream"})
        return answer["id"]

    def get(self, what):
        """"workspace", "checkpoint" or "memory": the bytes; empty if there is none."""
        return self.worker.transport.get(f"/v1/worker/jobs/{self.job}/{what}", query={"token": self.token})

    def renew(self, wait_ms=0):
        return self.worker.renew(self, wait_ms=wait_ms)[self.job]


def refused(call, *args, **more):
    """The problem that a call gets: (status, type)."""
    try:
        call(*args, **more)
    except ServerError as error:
        return error.status, error.type
    raise AssertionError("the server did what it should have refused")
