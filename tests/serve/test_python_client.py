"""hutch.Client against a server, with a fake worker: jobs, uploads, events, errors, and a server that restarts."""
import io
import os
import socket
import subprocess
import tarfile
import threading
import time

import pytest

from fake_worker import FakeWorker
from hutch_server import make_certificate, wait_until

from hutch import Client, HutchError
from hutch.client import JobFailed, ServerError, ServerUnreachable


@pytest.fixture
def client(server):
    with Client(server.url, server.key, patience=60) as made:
        yield made


@pytest.fixture
def worker(server):
    return FakeWorker(server.url, server.new_key("fake", "worker"))


def test_a_job(client, worker):
    job = client.submit(["ls -la", {"tool": "python", "code": "print(1)"}], title="two", labels={"a": "b"}, timeout=90,
                        box={"memory": "256M"}, artifacts=["*.txt"], priority=3)
    assert (job.state, job.ended, job.title, job.log(), job.diff(), job.files(), job.memory()) == \
        ("scheduled", False, "two", "", "", [], None)
    lease = worker.lease(job.id)
    assert lease.spec["steps"][0] == {"tool": "bash", "command": "ls -la"} and lease.spec["timeout"] == "90000ms"
    lease.put("log", b"a line\n")
    lease.put("artifact", "café\n".encode(), "out/a%20b.txt")
    lease.put("memory", b'{"actions": []}')
    lease.put("diff", b"diff\n")
    lease.run("zero", "one")
    assert job.wait(60, check=True) is job and job.ended and job.exit_reason == "completed" and job.error is None
    assert [one["text"] for one in job.result] == ["zero", "one"]
    assert (job.log(), job.diff(), job.memory()) == ("a line\n", "diff\n", {"actions": []})
    (path, size), = job.files()
    assert (path, size, job.read(path).decode()) == ("out/a b.txt", 6, "café\n")
    assert [event["type"] for event in job.events(follow=False)] == [event["type"] for event in job.events()]
    assert [found.id for found in client.jobs(label="a=b", state="completed")] == [job.id]
    assert client.job(job.id).data == job.data
    assert not job.cancel()
    again = job.repeat()
    assert again.id != job.id and again.cancel() and again.refresh().state == "cancelled"
    again.remove()
    waiting = client.submit(["true"])
    with pytest.raises(HutchError, match="has not ended|cancel"):
        waiting.remove()
    with pytest.raises(ServerError) as gone:
        again.refresh()
    assert (gone.value.status, gone.value.type) == (404, "not-found")


def test_download(client, worker, tmp_path):
    job = client.submit(["true"])
    content = os.urandom(3 << 20)
    lease = worker.lease(job.id)
    lease.put("artifact", content, "large")
    lease.run()
    job.download("large", tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == content


def test_failure_and_timeout(client, worker):
    job = client.submit(["false"])
    with pytest.raises(TimeoutError):
        job.wait(0.5)
    lease = worker.lease(job.id)
    lease.step(0, "no", failed=True)
    lease.finish("failed", "step_failed", "step 1 failed")
    with pytest.raises(JobFailed, match="step 1 failed") as failed:
        job.wait(60, check=True)
    assert failed.value.job is job


def test_errors(client, server):
    with pytest.raises(ServerError) as refused:
        client.submit([{"tool": "bsh"}])
    assert (refused.value.status, refused.value.type) == (422, "invalid-content") and refused.value.request_id
    assert "did you mean 'bash'" in str(refused.value)
    with pytest.raises(ServerError) as refused:
        Client(server.url, "hutch_wrong").me()
    assert refused.value.status == 401
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ServerUnreachable, match="cannot reach the server http://127.0.0.1:"):
            Client(f"http://127.0.0.1:{free.getsockname()[1]}", "x", patience=0.5).me()
    with pytest.raises(ValueError, match="must start with http://"):
        Client("ftp://x")
    assert client.me()["role"] == "admin"


def test_an_upload_that_is_too_large_is_refused_with_the_reason(start_server, tmp_path):
    """Although the server answers before it has read all of it."""
    server = start_server("--max-upload", "1M")
    (tmp_path / "large.tar").write_bytes(os.urandom(30 << 20))
    with pytest.raises(ServerError, match="more than 1048576 bytes") as refused:
        Client(server.url, server.key, patience=60).upload(tmp_path / "large.tar")
    assert (refused.value.status, refused.value.type) == (413, "too-large")


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def test_workspaces(client, worker, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to("../a.txt")
    job = client.submit(["true"], workspace=tmp_path)
    sent = members(worker.lease(job.id).get("workspace"))
    assert {"a.txt", "sub", "sub/link"} == set(sent) and sent["sub/link"].linkname == "../a.txt"
    assert all((member.uid, member.uname) == (0, "") for member in sent.values())
    (tmp_path / "x.tar").write_bytes(b"")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "a.txt", "b.txt")
    upload = client.upload(tmp_path / "x.tar")
    assert upload.type == "tar"
    client.submit(["true"], workspace=upload)
    assert set(members(worker.lease().get("workspace"))) == {"b.txt"}
    for given, want in (("https://example.org/x.git", {"git": "https://example.org/x.git"}), (job, {"job": job.id}),
                        ({"git": "https://example.org/x", "ref": "v1"}, {"git": "https://example.org/x", "ref": "v1"})):
        assert client.submit(["true"], workspace=given).refresh().data["spec"]["workspace"] == want


def test_a_repository_is_sent_as_git_sees_it(client, worker, tmp_path):
    """Without .git and what is ignored; and nothing that its configuration names is run."""
    def git(*words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("kept.txt", "new.txt", "gone.txt", ".env"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text(".env\n")
    git("add", "kept.txt", "gone.txt", ".gitignore")
    git("commit", "-qm", "x")
    (tmp_path / "gone.txt").unlink()
    git("config", "core.fsmonitor", f"touch {tmp_path}/pwned; true")
    client.submit(["true"], workspace=tmp_path)
    assert set(members(worker.lease().get("workspace"))) == {"kept.txt", "new.txt", ".gitignore"}
    assert not (tmp_path / "pwned").exists()
    client.submit(["true"], workspace=client.upload(tmp_path, everything=True))
    assert {".env", ".git/config"} < set(members(worker.lease().get("workspace")))


def test_it_survives_restarts_of_the_server(server, client, worker):
    """A wait, its events, and a submission that is sent while there is no server."""
    job = client.submit(["one", "two"])
    lease = worker.lease(job.id)
    seen = []
    waiting = threading.Thread(target=lambda: seen.extend(job.events()))
    waiting.start()
    wait_until(lambda: seen, what="an event")
    server.kill()
    late = []
    submitting = threading.Thread(target=lambda: late.append(client.submit(["three"], idempotency_key="k")))
    submitting.start()
    time.sleep(0.3)
    server.restart()
    lease.run("1", "2")
    for thread in (waiting, submitting):
        thread.join(60)
        assert not thread.is_alive()
    assert [event["seq"] for event in seen] == list(range(1, 7)) and seen[-1]["state"] == "completed"
    assert job.wait(60).state == "completed"
    assert [found.title for found in client.jobs()] == ["three", "one"] and late


def test_a_request_whose_answer_is_lost_is_one_job(server):
    """A proxy that cuts the first answers."""
    cut = []

    def serve(listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            with near, socket.create_connection(("127.0.0.1", server.port)) as far:
                request = b""
                while not request.endswith(b"}"):  # of its JSON
                    request += near.recv(65536)
                far.sendall(request)
                answer = far.recv(65536)
                if len(cut) < 2:
                    cut.append(answer)
                else:
                    near.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        job = Client(address, server.key).submit(["true"])
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert len(cut) == 2 and all(answer.startswith(b"HTTP/1.1 201") for answer in cut)
    assert [found.id for found in Client(server.url, server.key).jobs()] == [job.id]


def test_tls(start_server, box, monkeypatch):
    cert, key = make_certificate(box.caller.folder(box.scratch, "tls"))
    for path in (cert, key):
        box.caller.own(path)
    server = start_server("--tls", f"{cert},{key}")
    with pytest.raises(ServerUnreachable, match="certificate"):
        Client(server.url, server.key, patience=30).me()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    assert Client(server.url, server.key).me()["role"] == "admin"


def test_many_threads_share_a_client(client):
    jobs, threads = [], [threading.Thread(target=lambda: jobs.extend(client.submit(["true"]) for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len({job.id for job in jobs}) == 40 == len(list(client.jobs()))
    assert len(list(client.jobs(limit=7))) == 7
