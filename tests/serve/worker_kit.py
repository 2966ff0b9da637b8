"""Workers under test: `coordinator` is their server (coordinator.py), `workers` starts the built program. Both are fixtures:

    from worker_kit import coordinator, workers  # noqa: F401
"""
import io
import os
import signal
import subprocess
import tarfile

import pytest

import harness
from coordinator import Coordinator


class Workers:
    """The workers of one test, as the caller of its box."""

    def __init__(self, box, coordinator):
        self.box, self.coordinator, self.all = box, coordinator, []

    def start(self, *options, env=None, slots=2):
        command = [*self.box.caller.prefix, str(self.box.program), "worker", "--server", f"unix:{self.coordinator.path}",
                   "--slots", str(slots), *options]
        worker = subprocess.Popen(command, env={**self.box.env, **(env or {})}, cwd="/", stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.all.append(worker)
        return worker

    def kill(self, worker):
        """As a crash would."""
        worker.kill()
        worker.wait()

    def end(self):
        for worker in self.all:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.terminate()
        for worker in self.all:
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                pytest.fail("the worker did not end after SIGTERM")
            worker.stdout.close()
            worker.stderr.close()

    def leave_nothing(self):
        """Folders of jobs go away soon after the job's end."""
        folder = self.box.caller.home / ".local/state/hutch/worker/jobs"
        return harness.wait_until(lambda: not list(folder.glob(self.coordinator.tag + "*")), 30, "the folders of jobs are removed")


@pytest.fixture
def coordinator(box):
    server = Coordinator(box.caller.own(box.caller.folder(box.scratch, "sock")) / "worker.sock")
    yield server
    if server.listener:
        server.stop()
    assert server.wrong == []


@pytest.fixture
def workers(box, coordinator):
    some = Workers(box, coordinator)
    yield some
    some.end()


def tar(*members, compression="gz"):
    """An archive of (name, content or what tarfile.TarInfo has) members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:" + compression) as archive:
        for name, content, *more in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            for key, value in (more[0] if more else {}).items():
                setattr(info, key, value)
            data = content.encode() if isinstance(content, str) else content
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return "application/x-tar", out.getvalue()


def read_tar(data):
    """{name: content} of the files, without "./"."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isreg()}


def wait_until_runs(workers, what):
    """Some process of a box has this in its command line."""
    harness.wait_until(lambda: [p for p in harness.descendants() if what in harness.describe(p)], 90, what)


def is_running(what):
    return any(what in harness.describe(p) for p in harness.descendants(os.getpid()))
