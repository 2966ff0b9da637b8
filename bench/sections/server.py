"""`hutch serve` over HTTP: submissions, trivial jobs end to end, reads under load, followers of a job, a small answer against
nginx."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import profiles
from host import Failed
from sections import gym
from report import percentile

CLIENTS, FOLLOWERS = 32, 1000
SUBMISSIONS = 5000  # durable ones per second
ENVIRONMENTS, TASK, SOLUTION = 64, "bugfix_1", "apply subtract-discount"
JOB = json.dumps({"steps": [{"tool": "shell", "command": "true"}]})


class Server:
    def __init__(self, c, folder, workers, tasks=""):
        self.process = c.user.popen(["env", f"HUTCH_TASKS={tasks}", c.stage.program("hutch"), "serve", "--json", "--listen",
                                     "127.0.0.1:0", "--log", "warn", "--data", c.user.home / folder, "--workers", workers],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline()
        if not line:
            raise Failed("hutch serve did not start")
        ready = json.loads(line)
        self.port, self.key = int(ready["url"].rsplit(":", 1)[1]), ready["key"]
        self.headers = {"X-API-Key": self.key, "Content-Type": "application/json"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection, method, path, body=None):
        connection.request(method, path, body, self.headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise Failed(f"{method} {path}: status {answer.status}: {data[:200]!r}")
        return json.loads(data)

    def memory(self):
        """Bytes of the server process that are its own."""
        text = Path(f"/proc/{self.pid()}/smaps_rollup").read_text()
        return 1024 * sum(int(n) for n in re.findall(r"^Private_\w+:\s+(\d+)", text, re.MULTILINE))

    def pid(self):
        return self.process.pid


def wrk(url, seconds, headers, script=None, clients=CLIENTS):
    """(answers per second, how many were not 2xx) of wrk."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--latency", *(["-s", str(script)] if script else []),
               *(word for name, value in headers.items() for word in ("-H", f"{name}: {value}")), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if done.returncode or not rate:
        raise Failed(f"wrk: {(done.stderr or done.stdout).strip()[:200]}")
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    return float(rate[1]), int(wrong[1]) if wrong else 0


def submissions(c, seconds):
    script = c.stage.folder / "submit.lua"
    script.write_text(f"wrk.method = \"POST\"\nwrk.body = '{JOB}'\n")
    with Server(c, "serve-submit", 0) as server:
        url = f"http://127.0.0.1:{server.port}/v1/jobs"
        together, wrong = wrk(url, seconds, server.headers, script)
        alone, more = wrk(url, seconds, server.headers, script, clients=1)
        if wrong + more:
            raise Failed(f"{wrong + more} submissions were refused")
    c.report.table("durable submissions over HTTP", ["per second"], [[f"{CLIENTS} clients", together], ["1 client", alone]])
    c.report.target("submissions per second", together, float(SUBMISSIONS), "", at_least=True)


def submit(server, count):
    connection = server.connect()
    ids = [server.ask(connection, "POST", "/v1/jobs", JOB)["id"] for _ in range(count)]
    connection.close()
    return ids


def jobs(c, count):
    named = {"posix_spawn": ["true"]}
    pool = c.user.json([c.stage.program("box_bench"), "rate", 1, c.user.workspace, 8, 1000, *profiles.lines(named)])
    with Server(c, "serve-jobs", os.cpu_count()) as server:
        connection = server.connect()
        first = submit(server, 1)[0]  # opens the pool
        while server.ask(connection, "GET", f"/v1/jobs/{first}")["state"] != "completed":
            time.sleep(0.02)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            ids = [id for part in threads.map(lambda _: submit(server, count // 4), range(4)) for id in part]
        reads = []
        while server.ask(connection, "GET", "/v1/jobs?state=scheduled,running&limit=1")["jobs"]:
            at = time.monotonic_ns()
            server.ask(connection, "GET", f"/v1/jobs/{ids[len(reads) % len(ids)]}")
            reads.append(time.monotonic_ns() - at)
            time.sleep(0.002)
        rate = len(ids) / (time.monotonic() - begin)
        wrong = [id for id in ids[:: max(1, len(ids) // 50)] if server.ask(connection, "GET", f"/v1/jobs/{id}")["state"] != "completed"]
        if wrong:
            raise Failed(f"jobs did not complete: {wrong[:3]}")
    boxes = percentile(pool["pool"], 50)
    c.report.table("trivial jobs, a fresh box each", ["per second"], [["jobs end to end", rate], ["boxes from the pool", boxes]])
    c.report.target("jobs against boxes of the pool", rate / boxes, 0.5, "×", at_least=True)
    if reads:
        c.report.table("GET /v1/jobs/{id} under that load", ["p50 ms", "p99 ms"],
                       [["one", percentile(reads, 50) / 1e6, percentile(reads, 99) / 1e6]])


def followers(c, count):
    with Server(c, "serve-follow", 0) as server:
        id = submit(server, 1)[0]
        before, sockets = server.memory(), []
        try:
            for _ in range(count):
                sock = socket.create_connection(("127.0.0.1", server.port), 60)
                sockets.append(sock)
                sock.sendall(f"GET /v1/jobs/{id}/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                             f"X-API-Key: {server.key}\r\n\r\n".encode())
            for sock in sockets:
                if b" 200 " not in sock.recv(4096):
                    raise Failed("a follower was refused")
            each = (server.memory() - before) / count
            begin = time.monotonic()
            connection = server.connect()
            connection.request("DELETE", f"/v1/jobs/{id}", headers=server.headers)
            connection.getresponse().read()
            for sock in sockets:
                data = b""
                while b"cancelled" not in data:
                    piece = sock.recv(4096)
                    if not piece:
                        raise Failed("a follower lost its stream")
                    data += piece
            took = time.monotonic() - begin
        finally:
            for sock in sockets:
                sock.close()
    c.report.table(f"{count:,} followers of one job", ["KiB each", "ms until all have an event"],
                   [["events by SSE", each / 1024, took * 1000]])


@contextlib.contextmanager
def nginx(c, size):
    """Serves one file of that size; yields its URL."""
    folder = c.user.own(c.user.home / "nginx")
    (folder / "file").write_bytes(b"x" * size)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    (folder / "conf").write_text(
        f"daemon off; pid {folder}/pid; error_log /dev/null; worker_processes 1;"
        f"events {{ worker_connections 1024; }} http {{ access_log off; keepalive_requests 1000000;"
        + "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}")
    if os.geteuid() == 0:
        for path in folder.iterdir():
            os.chown(path, c.user.uid, c.user.gid)
    process = c.user.popen(["/usr/sbin/nginx", "-c", folder / "conf"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/file"
    finally:
        process.terminate()
        process.wait()


def answers(c, seconds):
    with Server(c, "serve-small", 0) as server:
        connection = server.connect()
        connection.request("GET", "/v1/me", headers=server.headers)
        size = len(connection.getresponse().read())
        rates = {}
        for path in ("/healthz", "/v1/me"):
            rates[path], wrong = wrk(f"http://127.0.0.1:{server.port}{path}", seconds, server.headers)
            if wrong:
                raise Failed(f"{wrong} answers of {path} were refused")
        with nginx(c, size) as url:
            rates["nginx, a file of that size"], _ = wrk(url, seconds, {})
    c.report.table(f"small answers, {CLIENTS} clients", ["per second"], [[name, rate] for name, rate in rates.items()])


ECHO = "stty raw -echo; printf ready; exec cat"


def echoes(send, receive, count):
    """Nanoseconds from a byte to its echo, `count` times."""
    data = b""
    while b"ready" not in data:
        data += receive()
    times = []
    for _ in range(count):
        at = time.monotonic_ns()
        send(b"x")
        receive()
        times.append(time.monotonic_ns() - at)
    return times


def terminal(c, count):
    """A byte to `cat` on a terminal and back: in a box through the server, and on this host."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from hutch.client import Client
    ours, theirs = pty.openpty()
    local = subprocess.Popen(["/bin/sh", "-c", ECHO], stdin=theirs, stdout=theirs, close_fds=True)
    try:
        here = echoes(lambda data: os.write(ours, data), lambda: os.read(ours, 4096), count)
    finally:
        local.kill()
        local.wait()
        os.close(ours)
        os.close(theirs)
    with Server(c, "serve-terminal", 1) as server:
        client = Client(f"http://127.0.0.1:{server.port}", server.key)
        with client.boxes.new() as one, one.terminal(command=ECHO) as there:
            far = echoes(there.send, lambda: there.receive(60), count)
    c.report.table("one echo of a terminal", ["p50 ms", "p99 ms"],
                   [[name, percentile(times, 50) / 1e6, percentile(times, 99) / 1e6]
                    for name, times in (("in a box, by WebSocket", far), ("a terminal of this host", here))])


def episodes(c, count):
    """Of the gym: apply the right patch, submit; what is known comes from the cache. In lists for 64 environments each."""
    tasks = gym.stage(c).parent
    bench = c.user.json([c.stage.program("hutch"), "gym", "bench", "--json", "--tasks", tasks, "--task", TASK, "--envs", ENVIRONMENTS,
                         "--episodes", ENVIRONMENTS * count])

    def play(server, lists):
        connection = server.connect()

        def steps(items):
            answer = server.ask(connection, "POST", f"/v1/gym/{TASK}/step", json.dumps({"steps": items}))
            return answer["results"]

        begun = steps([{"reset": True, "options": {"clock": "virtual"}}] * ENVIRONMENTS)
        names = [one["env"] for one in begun]
        actions = server.ask(connection, "GET", f"/v1/gym/{TASK}")["actions"]
        for _ in range(lists):
            steps([{"env": name, "reset": True} for name in names])
            steps([{"env": name, "action": actions.index(SOLUTION)} for name in names])
            ended = steps([{"env": name, "tool": "submit"} for name in names])
            if any(one.get("pass_rate") != 1 for one in ended):
                raise Failed("an episode of the gym was not solved")
        connection.close()

    rates = {}
    with Server(c, "serve-gym", 1, tasks) as server:
        play(server, 1)  # opens the arena and fills its cache
        for clients in (1, 4):
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(clients) as threads:
                list(threads.map(lambda _: play(server, count), range(clients)))
            seconds = time.monotonic() - begin
            rates[f"over HTTP, clients: {clients}"] = clients * count * ENVIRONMENTS / seconds
    rates["in one process"] = bench["episodes_per_second"]
    c.report.table(f"known episodes of the gym, in lists of {ENVIRONMENTS}", ["per second"],
                   [[name, rate] for name, rate in rates.items()])


def server(c):
    terminal(c, 200 if c.quick else 2000)
    episodes(c, 10 if c.quick else 100)
    if not shutil.which("wrk") or not Path("/usr/sbin/nginx").exists():
        c.report.say("  skipped: needs wrk and nginx")
        return
    seconds = 2 if c.quick else 10
    submissions(c, seconds)
    jobs(c, 200 if c.quick else 2000)
    followers(c, 100 if c.quick else FOLLOWERS)
    answers(c, seconds)
