"""The job of three steps that the README shows, with real workers: by curl, `hutch job` and Python."""
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

import harness
from hutch_server import wait_until

README = (harness.REPO / "README.md").read_text()
PAGE = (harness.REPO / "docs" / "server.md").read_text()


@pytest.fixture
def server(start_server):
    return start_server(workers=1)


def heredoc(text):
    """The steps.json of a page, as a shell would write it."""
    return textwrap.dedent(re.search(r"cat >steps\.json <<'END'\n(.*?)\n +END\n", text, re.S)[1])


def curl(server, *words):
    done = subprocess.run(["curl", "-sS", "--fail-with-body", "-H", f"X-API-Key: {server.key}", *words], capture_output=True, text=True,
                          check=False, cwd=server.box.workspace, timeout=120)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", [README, PAGE], ids=["README.md", "docs/server.md"])
def test_with_curl(server, page):
    server.box.put("steps.json", heredoc(page))
    options = ["--json"] if page is README else ["-H", "Content-Type: application/json", "--data"]
    task = curl(server, *options, "@steps.json", f"{server.url}/schedule")["task_id"]

    def status():
        return curl(server, f"{server.url}/status?task_id={task}")

    wait_until(lambda: status()["status"] not in ("scheduled", "running"), 120, "the end of the job")
    ended = status()
    assert (ended["status"], ended["task_id"]) == ("completed", task), ended
    assert [step["tool"] for step in ended["result"]] == ["bash", "python", "bash"] and ended["result"][2]["text"] == "hello\n"
    assert len(ended["log"].splitlines()) == 3 and ended == curl(server, f"{server.url}/status/{task}")
    job = curl(server, "--json", json.dumps({"steps": json.loads(heredoc(page))}), f"{server.url}/v1/jobs")
    wait_until(lambda: curl(server, f"{server.url}/v1/jobs/{job['id']}")["state"] == "completed", 120, "the end of the job")


def test_with_hutch_job(server):
    box, env = server.box, {"HUTCH_SERVER": server.url, "HUTCH_API_KEY": server.key}
    box.put("steps.json", heredoc(README))
    done = box.hutch("job", "submit", "--wait", "--file", "steps.json", env=env, cwd=box.workspace)
    assert done.returncode == 0 and done.stdout.endswith("\nhello\n"), done
    assert "step 3/3 bash completed" in done.stderr
    done = box.hutch("job", "submit", "--wait", "echo hello >hello.txt; ls -la; exit 3", env=env, cwd=box.workspace)
    assert done.returncode == 1 and "hello.txt" in done.stdout and "failed" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("page", [README, PAGE], ids=["README.md", "docs/server.md"])
def test_with_python(server, page):
    """The example as it is printed; it needs no library."""
    program = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "Client" in block)
    env = {**os.environ, "HUTCH_SERVER": server.url, "HUTCH_API_KEY": server.key, "PYTHONPATH": str(harness.REPO / "python"),
           "HUTCH_LIBRARY": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False, timeout=170)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n\n", "")


def test_a_folder_comes_back_as_a_diff(server):
    """A job works on a copy; its diff applies to the folder, and a later job begins with what it left."""
    box, env = server.box, {"HUTCH_SERVER": server.url, "HUTCH_API_KEY": server.key}
    box.put("a.txt", "one\n")

    def job(*words):
        done = box.hutch("job", *words, env=env, cwd=box.workspace)
        assert done.returncode == 0, done
        return done.stdout

    name = job("submit", "-w", ".", "--artifact", "out/**", "mkdir out; tr a-z A-Z <a.txt >out/b.txt; echo two >>a.txt").strip()
    assert job("wait", name) == f"{name} completed\n"
    assert job("files", name, "out/b.txt") == "ONE\n" and (box.workspace / "a.txt").read_text() == "one\n"
    subprocess.run(["git", "apply"], input=job("diff", name), cwd=box.workspace, text=True, check=True)
    assert (box.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert job("submit", "--wait", "-w", f"job:{name}", "cat a.txt out/b.txt") == "one\ntwo\nONE\n"
