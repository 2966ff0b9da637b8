"""`hutch job` as a person or a script uses it, against a server with a fake worker."""
import io
import json
import signal
import subprocess
import tarfile
import threading

import pytest

from fake_worker import FakeWorker
from hutch_server import wait_until

EXIT = {"completed": 0, "failed": 1, "timeout": 124, "cancelled": 130}


@pytest.fixture
def worker(server):
    return FakeWorker(server.url, server.new_key("fake", "worker"))


class Cli:
    def __init__(self, server):
        self.box, self.env = server.box, {"HUTCH_SERVER": server.url, "HUTCH_API_KEY": server.key}

    def __call__(self, *words, **more):
        return self.box.hutch("job", *words, env={**self.env, **more.pop("env", {})}, cwd=self.box.workspace, **more)

    def ok(self, *words, **more):
        done = self(*words, **more)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def start(self, *words):
        return subprocess.Popen([*self.box.caller.prefix, str(self.box.program), "job", *words], env={**self.box.env, **self.env},
                                cwd=self.box.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, errors="surrogateescape")


@pytest.fixture
def job(server):
    return Cli(server)


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_submit_and_read(job, worker):
    name = job.ok("submit", "--title", "a title", "--label", "a=b", "--artifact", "*.txt", "--priority", "-5", "--timeout", "5m",
                  "--net", "allow:pypi.org", "--env", "A=1", "--", "printf", "%s", "it's").strip()
    assert "a title" in job.ok("ls") and "scheduled" in job.ok("status", name)
    lease = worker.lease(name)
    assert lease.spec["steps"] == [{"tool": "bash", "command": "printf %s 'it'\\''s'"}]
    assert {key: lease.spec[key] for key in ("artifacts", "priority", "timeout", "labels", "box")} == {
        "artifacts": ["*.txt"], "priority": -5, "timeout": "5m", "labels": {"a": "b"},
        "box": {"net": "allow:pypi.org", "env": {"A": "1"}}}
    assert job.ok("logs", name) == job.ok("diff", name) == job.ok("files", name) == ""
    lease.put("log", b"a line\n")
    lease.put("artifact", b"\0\1binary", "a%20b.txt")
    lease.put("diff", b"diff --git a/x b/x\n")
    lease.run("done")
    assert (job.ok("logs", name), job.ok("diff", name)) == ("a line\n", "diff --git a/x b/x\n")
    assert job.ok("files", name).split() == ["8", "a", "b.txt"] and job.ok("files", name, "a b.txt") == "\0\1binary"
    job.ok("files", name, "a b.txt", "-o", "out")
    assert (job.box.workspace / "out").read_bytes() == b"\0\1binary"
    assert json.loads(job.ok("status", "--json", name))["result"][0]["text"] == "done"
    assert "completed, attempt 1 of 3, 1 of 1 steps done" in job.ok("status", name)
    assert [one["id"] for one in json.loads(job.ok("ls", "--json", "--state", "completed"))] == [name]
    assert json.loads(job.ok("ls", "--json", "--label", "a=c")) == []
    assert job.ok("wait", name) == f"{name} completed\n"
    again = job.ok("repeat", name).strip()
    assert job.ok("cancel", again) == again + "\n" and "cancelled" in job.ok("status", again)
    assert job("wait", name, again).returncode == 130
    assert job.ok("rm", again, name).split() == [again, name] and job.ok("ls") == ""


def test_a_goal_and_a_file(job, worker):
    job.ok("submit", "--goal", "say hello", "--model", "builtin/echo", "--attempts", "2", "--test", "true", "--max-cost", "0.5")
    assert worker.lease().spec["goal"] == {"prompt": "say hello", "model": "builtin/echo", "attempts": 2, "test": "true",
                                           "max_cost": 0.5}
    steps = [{"tool": "shell", "command": "ls -la"}, {"tool": "python", "code": "print(1)"}]
    job.box.put("steps.json", json.dumps(steps))
    job.ok("submit", "-f", "steps.json")
    assert [step["tool"] for step in worker.lease().spec["steps"]] == ["bash", "python"]
    job.ok("submit", "-f", "-", "--title", "mine", input=json.dumps({"steps": steps, "title": "its", "box": {"pids": 9}}))
    spec = worker.lease().spec
    assert (spec["title"], spec["box"]) == ("mine", {"pids": "9"})
    assert json.loads(job.ok("submit", "--json", "ls"))["state"] == "scheduled"


@pytest.mark.parametrize("words, status, text", [
    (["submit"], 2, "give one of --goal, --file and a command"),
    (["submit", "--goal", "x", "ls"], 2, "give one of"),
    (["submit", "--model", "x", "ls"], 2, "belong to --goal"),
    (["submit", "--label", "x", "ls"], 2, "--label: 'x' is not NAME=VALUE"),
    (["submit", "--priority", "high", "ls"], 2, "'high' is not a number"),
    (["submit", "--timeout", "soon", "ls"], 125, "timeout: 'soon' is not a time"),
    (["submit", "-f", "none.json"], 125, "none.json"),
    (["submit", "-w", "none", "ls"], 125, "cannot read the workspace 'none'"),
    (["submit", "--ref", "x", "-w", ".", "ls"], 125, "--ref belongs to"),
    (["status", "../../x"], 125, "is not the ID of a job"),
    (["status", "0" * 20], 125, "there is no job 0000"),
    (["cancel", "0" * 20], 125, "there is no job 0000"),
    (["ls", "--server", "ftp://x"], 2, "--server: 'ftp://x' must start with"),
    (["ls", "--key", "none"], 125, "none"),
])
def test_mistakes_get_one_line(job, words, status, text):
    done = job(*words)
    assert (done.returncode, done.stdout) == (status, "") and text in done.stderr, done
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1


def test_key(job, server):
    done = job("ls", env={"HUTCH_API_KEY": "hutch_wrong"})
    assert done.returncode == 125 and "refused the key" in done.stderr
    key = job.box.put("key", server.key + "\n", mode=0o600)
    assert job.ok("ls", "--key", key, env={"HUTCH_API_KEY": "hutch_wrong"}) == ""


def test_no_server(box):
    done = box.hutch("job", "ls", "--server", "http://127.0.0.1:1")
    assert done.returncode == 125 and 5 < done.seconds < 60
    lines = done.stderr.splitlines()
    assert "Connection refused; retrying for 10 s" in lines[0] and "is 'hutch serve' running there?" in lines[1]
    assert len(lines) == 2


@pytest.mark.parametrize("how", EXIT)
def test_wait(job, worker, how):
    """Progress in short lines on stderr, the output on stdout, and the job's status."""
    job.box.put("steps.json", json.dumps([{"tool": "shell", "command": "one"}, {"tool": "python", "code": "two"}]))
    process = job.start("submit", "--wait", "-f", "steps.json")
    lease = worker.lease()
    lease.events({"type": "log", "text": "a line\x1b[31m"})
    lease.step(0, "zero\n")
    if how == "completed":
        lease.put("artifact", b"x", "a.txt")
        lease.step(1, "one")
        lease.finish()
    elif how == "failed":
        lease.step(1, "one", failed=True)
        lease.finish("failed", "step_failed", "step 2 failed")
    elif how == "timeout":
        lease.finish("failed", "timeout", "the job's time is over")
    else:
        job.ok("cancel", lease.job)
        lease.finish("cancelled")
    status, out, err = finish(process)
    assert status == EXIT[how], err
    assert out == ("zero\none\n" if how in ("completed", "failed") else "zero\n")
    assert f"job {lease.job} running" in err and "a line\\x1b[31m" in err and "step 1/2 bash completed after 0.1 s" in err
    assert ("hutch: artifact a.txt (1 bytes)" in err) == (how == "completed")
    assert err.splitlines()[-1].startswith(f"hutch: job {lease.job} {'failed' if how == 'timeout' else how}")
    assert job("wait", lease.job).returncode == EXIT[how]


def test_wait_with_json_prints_the_job_only(job, worker):
    process = job.start("submit", "--wait", "--json", "true")
    worker.lease().run("text")
    status, out, _ = finish(process)
    assert status == 0 and json.loads(out)["result"][0]["text"] == "text"


def test_a_signal_ends_the_wait_and_not_the_job(job, worker):
    process = job.start("submit", "--wait", "true")
    lease = worker.lease()
    wait_until(lambda: "running" in process.stderr.readline(), what="progress")
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    assert status == 130 and f"hutch job wait {lease.job}" in err
    lease.run()


def test_wait_survives_a_restart_of_the_server(job, worker, server):
    job.box.put("steps.json", json.dumps([{"tool": "shell", "command": str(i)} for i in range(3)]))
    process = job.start("submit", "--wait", "-f", "steps.json")
    lease = worker.lease()
    lease.step(0, "zero\n")
    server.kill()
    wait_until(lambda: "retrying" in process.stderr.readline(), what="the note")
    server.restart()
    lease.step(1, "one\n")
    lease.step(2, "two\n")
    lease.finish()
    status, out, err = finish(process)
    assert (status, out) == (0, "zero\none\ntwo\n"), err


def test_logs_follow(job, worker):
    name = job.ok("submit", "true").strip()
    lease = worker.lease(name)
    process = job.start("logs", "-f", name)
    lease.put("log", b"one\n")
    lease.events({"type": "log", "text": "x"})
    assert process.stdout.readline() == "one\n"
    lease.put("log", b"two \xff\x1b[2J\n", offset=4)
    lease.run()
    status, out, err = finish(process)
    assert (status, err) == (0, "") and out.startswith("two ")


def test_a_folder_is_sent_as_git_sees_it(job, worker):
    box = job.box

    def sent(*words):
        job.ok("submit", "-w", ".", *words, "true")
        lease = worker.lease()
        with tarfile.open(fileobj=io.BytesIO(lease.get("workspace"))) as archive:
            return {member.name.removeprefix("./"): member for member in archive}

    for name in ("a.txt", "sub/b.txt", "gone.txt", ".env"):
        (box.workspace / "sub").mkdir(exist_ok=True)
        box.put(name, name)
    assert {"a.txt", "sub", "sub/b.txt", ".env"} < set(sent())
    box.put(".gitignore", ".env\n")

    def git(*words):
        subprocess.run([*box.caller.prefix, "git", *words], cwd=box.workspace, check=True, capture_output=True, env=box.env)

    git("init", "-q")
    git("add", "-A")
    git("config", "core.fsmonitor", f"touch {box.workspace}/pwned; true")
    (box.workspace / "gone.txt").unlink()
    files = sent()
    assert set(files) == {"a.txt", "sub/b.txt", ".gitignore"} and files["a.txt"].uid == 0
    assert not (box.workspace / "pwned").exists()
    assert {".env", ".git/config", "a.txt"} < set(sent("--all"))


def test_workspaces(job, worker):
    name = job.ok("submit", "-w", "https://example.org/x.git", "--ref", "v1", "true").strip()
    assert worker.lease(name).spec["workspace"] == {"git": "https://example.org/x.git", "ref": "v1"}
    later = job.ok("submit", "-w", f"job:{name}", "true").strip()
    assert json.loads(job.ok("status", "--json", later))["spec"]["workspace"] == {"job": name}
    job.box.put("x.txt", "not an archive")
    done = job("submit", "-w", "x.txt", "true")
    assert done.returncode == 125 and "neither a zip nor a tar" in done.stderr


def test_the_socket_of_the_data_folder_is_for_workers_only(job, server):
    done = job("ls", "--server", f"unix:{server.data}/worker.sock")
    assert done.returncode == 125 and done.stderr.startswith("hutch: "), done


def test_many_jobs_are_listed_in_pages(job, server):
    ids = []
    threads = [threading.Thread(target=lambda: ids.extend(
        server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"] for _ in range(30))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(ids) == 600
    assert [one["id"] for one in json.loads(job.ok("ls", "-n", "550", "--json"))] == sorted(ids, reverse=True)[:550]
    assert len(job.ok("ls").splitlines()) == 51
