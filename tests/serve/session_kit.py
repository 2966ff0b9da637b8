"""Sessions of a server with a scripted model: what tests send, and how they follow it."""
import io
import json
import os
import signal
import sys
import tarfile
import threading
import time

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "agent"))

WAIT = 120  # seconds; a loaded machine takes long


def model_environment(box, model):
    """Of a worker whose model is the scripted one."""
    return {"XDG_STATE_HOME": str(box.caller.folder(box.scratch, "state")), "no_proxy": "127.0.0.1",
            "XDG_CONFIG_HOME": str(box.caller.folder(box.scratch, "config")), "HUTCH_MODEL": "anthropic/scripted-1",
            "ANTHROPIC_API_KEY": model.key, "ANTHROPIC_BASE_URL": model.url}


def tar_of(files):
    """A tar with these files: {path: text}."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def files_of(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isfile()}


def wait_for(condition, what, seconds=WAIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def upload(server, files, key=True):
    answer = server.post("/v1/uploads", tar_of(files), key=key, headers={"Content-Type": "application/x-tar"})
    assert answer.status == 201, answer
    return answer.json()["id"]


class Session:
    def __init__(self, server, files=None, key=True, id=None, **submission):
        self.server, self.key = server, key
        if files is not None:
            submission["workspace"] = {"upload": upload(server, files, key)}
        self.id = id or self.made(server.post("/v1/sessions", submission, key=key))

    @staticmethod
    def made(answer):
        assert answer.status == 201, answer
        assert answer.headers["location"] == "/v1/sessions/" + answer.json()["id"]
        return answer.json()["id"]

    def path(self, below=""):
        return f"/v1/sessions/{self.id}" + ("/" + below if below else "")

    def get(self, below="", status=200, **more):
        answer = self.server.get(self.path(below), key=self.key, **more)
        assert answer.status == status, answer
        return answer.json() if (answer.headers["content-type"] or "").startswith("application/json") else answer

    def post(self, below, body=None, status=200, **more):
        answer = self.server.post(self.path(below), body, key=self.key, timeout=WAIT, **more)
        assert answer.status == status, answer
        return answer if status >= 400 else answer.json()

    def stream(self, text, **more):
        """Sends a message; its events as they come."""
        events = self.server.events(self.path("messages"), "POST", body={"text": text, **more}, key=self.key, timeout=WAIT)
        for event in events:
            assert event.json()["type"] == event.type
            yield event.json()

    def say(self, text, **more):
        """Sends a message and waits for its end; its events."""
        return list(self.stream(text, **more))

    def say_beside(self, text, **more):
        """The same in a thread; join() gives the events."""
        return Beside(lambda: self.say(text, **more))

    def follow(self, after=0):
        """The stored events behind a number, as they come: (number, event)."""
        headers = {"Last-Event-ID": str(after)} if after else {}
        for event in self.server.events(self.path("events"), key=self.key, headers=headers, timeout=WAIT):
            yield int(event.id), event.json()

    def stored(self):
        """All stored events so far."""
        return self.get("events?limit=1000", headers={"Accept": "application/json"})["events"]

    def follow_until(self, kinds, after=0):
        """The stored events until the first of a kind (or of one of several)."""
        kinds, found = [kinds] if isinstance(kinds, str) else kinds, []
        for number, event in self.follow(after):
            found.append((number, event))
            if event["type"] in kinds:
                return found
        raise AssertionError(f"the stream ended without {kinds}: {found}")

    def wait_stored(self, condition, what):
        return wait_for(lambda: next((e for e in self.stored() if condition(e)), None), what)

    def run(self, command):
        """A command of the person's own in the box; its output."""
        return self.post("tools/bash", {"command": command})["data"]["output"]

    def diff(self):
        answer = self.get("diff")
        assert "attachment" in answer.headers["content-disposition"]
        return answer.body.decode()

    def workspace(self):
        return files_of(self.get("workspace").body)

    def paths(self):
        return [c["path"] for c in self.get("changes")["changes"]]

    def fork(self, **how):
        answer = self.server.post(self.path("fork"), how, key=self.key, timeout=WAIT)
        return Session(self.server, key=self.key, id=self.made(answer))


class Beside(threading.Thread):
    def __init__(self, what):
        super().__init__(daemon=True)
        self.what, self.result, self.failure = what, None, None
        self.start()

    def run(self):
        try:
            self.result = self.what()
        except BaseException as failure:  # shown by join()
            self.failure = failure

    def end(self):
        """However it ended."""
        super().join(WAIT)
        assert not self.is_alive(), "still under way"

    def join(self, timeout=None):
        self.end()
        if self.failure:
            raise self.failure
        return self.result


def types(events):
    return [e["type"] for e in events]


def only(events, kind):
    [event] = [e for e in events if e["type"] == kind]
    return event


def text_of(events):
    return "".join(e["text"] for e in events if e["type"] == "text")


def workers_of(server):
    """Process IDs of the local workers of a server."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat, open(f"/proc/{pid}/cmdline", "rb") as line:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
                if parent == server.process.pid and b"worker" in line.read():
                    found.append(int(pid))
        except (OSError, ValueError):
            pass
    return found


def kill_workers(server):
    for pid in workers_of(server):
        os.kill(pid, signal.SIGKILL)


def end_all(server):
    """Ends all live jobs and the server. A worker that lost its lease leaves boxes behind, which would end by themselves
    after a while: on a loaded machine that happens."""
    if server.process.poll() is None:
        def running():
            return [j["id"] for j in server.get("/v1/jobs?state=scheduled,running&limit=500").json()["jobs"]]
        for job in running():
            server.delete(f"/v1/jobs/{job}")
        wait_for(lambda: not running(), "all jobs have ended")
        server.stop()
    env = {**server.box.env, **server.env}
    left = [b["id"] for b in json.loads(server.box.hutch("box", "ls", "--json", env=env).stdout or "[]")]
    if left:
        server.box.hutch("box", "rm", *left, env=env)
