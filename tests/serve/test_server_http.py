"""The HTTP server: what every request meets. Routes have tests of their own."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from hutch_server import Server, WAIT, Closed, wait_until

SOCKET = "/v1/gym/bugfix_1/openenv/ws"


def test_prints_url_and_first_key_once(start_server):
    server = start_server()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
    assert re.fullmatch(r"hutch_[0-9a-z]+_[A-Za-z0-9_-]+", server.key)
    me = server.get("/v1/me").json()
    assert (me["role"], me["user"]) == ("admin", "admin")
    first = server.key
    server.restart()
    assert server.key == first, "a second start printed another key"
    assert server.get("/v1/me").status == 200


def test_line_for_people(box):
    data = box.caller.folder(box.scratch, "data")
    process = subprocess.Popen([*box.caller.prefix, str(box.program), "serve", "--data", str(data), "--listen", "127.0.0.1:0",
                                "--workers", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=box.env, cwd="/")
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+ key=hutch_\S+\n", process.stdout.readline().decode())
    finally:
        process.terminate()
        assert process.wait(WAIT) == 0
        process.stdout.close()


def test_answers_have_security_headers(server):
    for path, key in (("/healthz", None), ("/v1/me", True), ("/nothing", True), ("/v1/me", None)):
        headers = server.get(path, key=key).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none'")
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["access-control-allow-origin"] is None
        assert re.fullmatch(r"[0-9a-f]{16}", headers["x-request-id"])


def test_problems(server):
    for method, path, status, name in (("GET", "/nothing", 404, "not-found"), ("PUT", "/v1/jobs", 405, "method-not-allowed"),
                                       ("GET", "/v1/jobs?limit=x", 400, "bad-query"),
                                       ("GET", "/v1/jobs?limit=501", 400, "bad-query"),
                                       ("GET", "/v1/jobs?limit=1&limit=2", 400, "bad-query"),
                                       ("GET", "/v1/jobs?nothing=1", 400, "bad-query")):
        answer = server.request(method, path, body=b"" if method == "PUT" else None)
        assert (answer.status, answer.problem) == (status, name)
    assert server.request("PUT", "/v1/jobs", b"").headers["allow"] == "POST, GET"
    assert server.post("/v1/jobs", b"{").problem == "bad-request"
    assert server.post("/v1/jobs", b"").problem == "bad-request"
    assert server.post("/v1/jobs", b'{"steps": [], "steps": []}').problem == "bad-request"
    assert server.post("/v1/jobs", {"steps": "x"}).problem == "invalid-content"
    for method in ("HEAD", "OPTIONS", "PATCH", "CONNECT"):
        answer = server.raw(f"{method} /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\n"
                            "Connection: close\r\n\r\n".encode())
        assert not answer or answer.startswith(b"HTTP/1.1 200" if method == "HEAD" else b"HTTP/1.1 4"), (method, answer)


def test_head_has_no_body(server):
    answer = server.request("HEAD", "/healthz")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "16")


def test_request_ids(server):
    assert server.get("/healthz", headers={"X-Request-Id": "abc.1-2_3"}).headers["x-request-id"] == "abc.1-2_3"
    for evil in ("a b", "a" * 65, "ä".encode().decode("latin-1"), '"'):
        assert re.fullmatch(r"[0-9a-f]{16}", server.get("/healthz", headers={"X-Request-Id": evil}).headers["x-request-id"])


def test_keep_alive_and_pipelining(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    for _ in range(5):
        connection.request("GET", "/v1/me", headers={"X-API-Key": server.key})
        assert connection.getresponse().read()
    sock = connection.sock
    assert sock
    connection.close()
    one = f"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\n\r\n"
    answers = server.raw((one * 3).encode())
    assert answers.count(b"HTTP/1.1 200") == 3


def test_large_and_many_answers(server):
    whole = server.get("/openapi.json", key=None)
    assert len(whole.body) == int(whole.headers["content-length"]) > 50000
    json.loads(whole.body)


# Keys.

def test_keys_and_roles(server):
    keys = {role: server.new_key(role, role) for role in ("admin", "user", "read-only", "worker")}
    may = {"admin": {"me", "submit", "keys", "lease"}, "user": {"me", "submit"}, "read-only": {"me"}, "worker": {"lease"}}
    job = {"steps": [{"tool": "shell", "command": "true"}]}
    calls = {"me": ("GET", "/v1/me", None, 200), "submit": ("POST", "/v1/jobs", job, 201),
             "keys": ("GET", "/v1/keys", None, 200),
             "lease": ("POST", "/v1/worker/lease", {"worker": "w", "slots": 0, "live_slots": 0, "wait_ms": 0}, 200)}
    for role, key in keys.items():
        for name, (method, path, body, status) in calls.items():
            answer = server.request(method, path, body, key=key)
            assert answer.status == (status if name in may[role] else 403), (role, name, answer)
            if answer.status == 403:
                assert answer.problem == "not-allowed"
    me = server.get("/v1/me", key=None, headers={"Authorization": "Bearer " + keys["user"]})
    assert me.json()["role"] == "user"
    assert server.get("/v1/me", key=None).status == 401
    assert server.get("/v1/me", key=None).headers["www-authenticate"].startswith("Bearer")
    wrong = keys["user"][:-1] + ("A" if keys["user"][-1] != "A" else "B")
    for key in (wrong, "x", "hutch_", "hutch__", keys["user"] + " x", keys["user"][:30]):
        assert server.get("/v1/me", key=key).status == 401, key
    assert server.get("/v1/me", key=None, headers={"Authorization": "Basic " + keys["user"]}).status == 401


def test_key_commands(server):
    def key(*words):
        return server.box.hutch("key", *words, "--data", server.data)

    text = server.new_key("laptop", user="alice")
    assert server.get("/v1/me", key=text).json()["user"] == "alice"
    rows = json.loads(key("ls", "--json").stdout)
    assert {row["name"] for row in rows} == {"first", "laptop"}
    assert text.split("_")[-1] not in key("ls", "--json").stdout
    assert key("rm", "laptop").returncode == 0
    wait_until(lambda: server.get("/v1/me", key=text).status == 401, WAIT, "the key is removed")
    assert key("rm", "laptop").returncode == 125
    assert key("new", "x", "--role", "king").returncode == 2


def test_key_of_the_environment(start_server):
    server = start_server(env={"AGENT_API_KEY": "correct horse"})
    assert server.get("/v1/me").json()["role"] == "admin"
    assert server.get("/v1/me", key="correct hors").status == 401


def test_wrong_keys_are_limited_and_right_ones_are_not(server):
    good = server.new_key("good")
    assert server.get("/v1/me", key=good).status == 200
    answers = [server.get("/v1/me", key=f"hutch_{i}_x") for i in range(40)]
    assert {a.status for a in answers} == {401, 429}
    refused = [a for a in answers if a.status == 429]
    assert refused[0].problem == "too-many-failures" and int(refused[0].headers["retry-after"]) > 0
    assert server.get("/v1/me", key=good).status == 200, "a key that was right before is not limited"


def test_rate_of_a_user(server):
    key = server.new_key("quick", user="quick")
    server.get("/v1/me", key=key)
    assert server.request("PATCH", "/v1/users/quick", {"per_second": 2}).status == 204

    def is_limited():
        answers = [server.get("/v1/me", key=key) for _ in range(8)]
        limited = [a for a in answers if a.status == 429]
        return limited and limited[0].problem == "too-many-requests" and limited[0].headers["retry-after"] == "1"

    wait_until(is_limited, WAIT, "the limit is in force")
    assert server.get("/v1/me").status == 200


# Bodies, lengths, smuggling.

def head(server, line="GET /v1/me HTTP/1.1", *more, host="localhost"):
    return "\r\n".join([line, f"Host: {host}", f"X-API-Key: {server.key}", *more, "", ""]).encode()


def statuses(answer):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def test_smuggling_is_refused(server):
    secret = head(server)
    post = "POST /v1/jobs HTTP/1.1"
    for lines in (["Content-Length: 5", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", "Content-Length: 5"],
                  ["Content-Length: 5", "Content-Length: 6"], ["Content-Length: 5, 5"], ["Content-Length: +5"],
                  ["Content-Length: -1"], ["Content-Length: 0x5"], ["Content-Length: 5 5"], ["Content-Length: "],
                  ["Content-Length: 99999999999999999999"], ["Transfer-Encoding: chunked"],
                  ["Transfer-Encoding: xchunked"], ["Transfer-Encoding : chunked"], ["Transfer-Encoding: identity"],
                  ["Transfer-Encoding:\tchunked"], ["Content-Length: 5", "Transfer-Encoding : chunked"]):
        answer = server.raw(head(server, post, *lines) + b"0\r\n\r\n" + secret)
        assert len(statuses(answer)) <= 1, (lines, answer)
        assert not answer or statuses(answer)[0] in (400, 411), (lines, answer)
        assert b'"role"' not in answer, lines


def test_requests_that_are_not_http(server):
    for line in ("GET /v1/me", "GET /v1/me HTTP/2.0", "GET /v1/me HTTP/1.10", "GET /v1/me HTTP/0.9",
                 "GET v1/me HTTP/1.1", "\x00GET /v1/me HTTP/1.1", "GET /v1/me\x00 HTTP/1.1", 
                 "GET /v1/%00me HTTP/1.1", "GET /v1/me%0d%0aX-A:%20b HTTP/1.1", "GET /v1/me%0aX-A:%20b HTTP/1.1",
                 "GET /v1/me%0aHTTP/1.1%20 HTTP/1.1", "GET /v1/jobs?search=%00 HTTP/1.1", "GET /v1/jobs?search=%0a HTTP/1.1",
                 "GET /v1/jobs?search=%7f HTTP/1.1", "GET /v1/jobs?search=%ff HTTP/1.1", "GET /v1/%zz HTTP/1.1",
                 "GET /v1/%ff HTTP/1.1", "GET /v1/%1b HTTP/1.1"):
        answer = server.raw(head(server, line))
        assert all(400 <= status < 500 for status in statuses(answer)), (line, answer)
    for more in ("X-Request-Id: a\x01b", "Host: other", "Authorization: Bearer a\r\nAuthorization: Bearer b", "Origin: a\r\nOrigin: b",
                 "X-API-Key: a\x00b"):
        answer = server.raw(head(server, "GET /v1/me HTTP/1.1", more))
        assert not answer or re.fullmatch(r"[0-9A-Za-z._-]+", re.search(rb"x-request-id: (.*)\r", answer)[1].decode())
        assert b"\x01" not in answer
    assert server.get("/v1/me").status == 200


def test_path_traversal(server):
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"]
    for path in ("../../hutch.db", "%2e%2e/%2e%2e/hutch.db", "..%2f..%2fhutch.db", "....//hutch.db", "/etc/passwd", "%2fetc%2fpasswd",
                 "a/../../../hutch.db", "..\\..\\hutch.db", "%2e", ".", "..;/hutch.db"):
        answer = server.raw(head(server, f"GET /v1/jobs/{job}/files/{path} HTTP/1.1", "Connection: close"))
        assert statuses(answer)[0] in (400, 404), (path, answer)
        assert b"SQLite" not in answer and b"root:" not in answer


def test_body_limits(server):
    huge = 9 << 20
    answer = server.raw(head(server, "POST /v1/jobs HTTP/1.1", f"Content-Length: {huge}"))
    assert statuses(answer) == [413], "it must not wait for the body"
    deep = b"[" * 100000 + b"]" * 100000
    assert server.post("/v1/jobs", deep).status in (400, 413, 422)
    many = b'{"steps": [' + b"1," * 300000 + b"1]}"
    assert server.post("/v1/jobs", many).problem == "too-large"
    wide = json.dumps({"steps": [{"tool": "shell", "command": "x" * (4 << 20)}]}).encode()
    assert server.post("/v1/jobs", wide).status in (201, 422)
    assert server.raw(head(server, "GET /v1/me HTTP/1.1", "Content-Length: 999999")).startswith(b"HTTP/1.1 413")
    assert server.get("/v1/me").status == 200


def test_header_limits(server):
    for more in (["X-A: " + "a" * 20000], [f"X-{i}: {'a' * 50}" for i in range(500)], ["X-API-Key: " + "k" * 9000]):
        answer = server.raw(head(server, "GET /v1/me HTTP/1.1", *more))
        assert all(400 <= status < 500 for status in statuses(answer)), answer
    assert all(s >= 400 for s in statuses(server.raw(head(server, f"GET /{'a' * 20000} HTTP/1.1"))))
    assert server.get("/v1/jobs?" + "&".join(f"a{i}=1" for i in range(40))).status == 400
    assert server.get("/v1/me").status == 200


def test_an_upload_needs_a_key_before_its_body(server):
    line, size = "POST /v1/uploads HTTP/1.1", 100 << 20
    answer = server.raw(f"{line}\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
    assert statuses(answer) == [401]
    answer = server.raw(f"{line}\r\nHost: localhost\r\nX-API-Key: hutch_0_0\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * 1000)
    assert statuses(answer) == [401]
    answer = server.raw(head(server, line, f"Content-Length: {2 << 30}"))
    assert statuses(answer) == [413]
    assert statuses(server.raw(head(server, line))) == [411]


def test_slow_clients_are_dropped(server):
    """Three that send a byte now and then: in the head, in the body, and one that sends nothing."""
    started = time.monotonic()
    slow = [server.connect() for _ in range(3)]
    slow[0].sendall(b"GET /v1/me HT")
    slow[1].sendall(head(server, "POST /v1/jobs HTTP/1.1", "Content-Length: 100000"))
    open_ones, pieces = set(slow), [b"T", b"x", b""]
    while open_ones and time.monotonic() < started + 150:
        for i, sock in enumerate(slow):
            if sock not in open_ones:
                continue
            sock.settimeout(0.3)
            try:
                sock.sendall(pieces[i])
                if sock.recv(65536) == b"":
                    open_ones.discard(sock)
            except TimeoutError:
                pass
            except OSError:
                open_ones.discard(sock)
        assert server.get("/healthz").status == 200
    for sock in slow:
        sock.close()
    assert not open_ones, [slow.index(sock) for sock in open_ones]


def test_a_client_that_sends_on_does_not_keep_the_loop_busy(server):
    """An unread second request behind one that waits."""
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"]
    sock = server.connect()
    sock.sendall(head(server, f"GET /v1/jobs/{job}/events HTTP/1.1"))
    sock.recv(100)
    sock.sendall(b"GET / HTTP/1.1\r\n" * 10)

    def ticks():
        fields = open(f"/proc/{server.process.pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before, began = ticks(), time.monotonic()
    wait_until(lambda: time.monotonic() > began + 3, 10, "three seconds")
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") < 1.5
    sock.close()
    assert server.get("/healthz").status == 200


# Names and origins.

def test_dns_rebinding(start_server):
    server = start_server("--host", "hutch.example", "--origin", "https://page.example")
    for host, status in (("evil.example", 421), ("evil.example:80", 421), ("localhost", 200), ("LOCALHOST:1", 200),
                         ("127.0.0.1", 200), ("[::1]:8642", 200), ("10.1.2.3", 200), ("hutch.example", 200),
                         ("hutch.example.evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
                         ("", 421), ("localhost:x", 421), ("localhost@evil.example", 421), ("[::1]evil", 421)):
        answer = server.raw(head(server, host=host))
        assert statuses(answer) == [status], (host, answer)
    assert statuses(server.raw(f"GET /healthz HTTP/1.1\r\nX-API-Key: {server.key}\r\n\r\n".encode())) in ([400], [421])


def test_cors(start_server):
    server = start_server("--origin", "https://page.example")
    asked = {"Access-Control-Request-Method": "POST"}
    allowed = server.request("OPTIONS", "/v1/jobs", key=None, headers={"Origin": "https://page.example", **asked})
    assert allowed.status == 204
    assert allowed.headers["access-control-allow-origin"] == "https://page.example"
    assert "X-API-Key" in allowed.headers["access-control-allow-headers"]
    for origin in ("https://evil.example", "https://page.example.evil", "null", "http://page.example", "https://page.example:444"):
        refused = server.request("OPTIONS", "/v1/jobs", key=None, headers={"Origin": origin, **asked})
        assert refused.status == 403 and refused.headers["access-control-allow-origin"] is None
        assert server.get("/v1/me", headers={"Origin": origin}).headers["access-control-allow-origin"] is None
    mine = server.get("/v1/me", headers={"Origin": "https://page.example"})
    assert (mine.headers["access-control-allow-origin"], mine.headers["vary"]) == ("https://page.example", "Origin")


# Where it listens.

@pytest.mark.parametrize("options, why", [
    (["--listen", "0.0.0.0:0"], "no key"), (["--listen", "0.0.0.0:0", "--insecure-http"], "no key"),
    (["--listen", "[::]:0"], "no key"), (["--listen", "nonsense"], "HOST:PORT"), (["--listen", "127.0.0.1:99999"], "port"), (["--listen", "127.0.0.1:"], "port"),
    (["--listen", "127.0.0.1:http"], "port"),
    (["--tls", "x"], "CERT,KEY"), (["--tls", "/nowhere,/nowhere"], "certificate"), (["--store", "nonsense:x"], "store")])
def test_refuses_to_start(box, options, why):
    data = box.caller.folder(box.scratch, "data")
    done = box.hutch("serve", "--data", data, "--workers", "0", *options)
    assert done.returncode in (2, 125) and why in done.stderr and done.stderr.count("\n") == 1, done


def test_other_addresses_need_tls(box):
    data = box.caller.folder(box.scratch, "data")
    env = {"AGENT_API_KEY": "k"}
    done = box.hutch("serve", "--data", data, "--workers", "0", "--listen", "0.0.0.0:0", env=env)
    assert done.returncode == 125 and "--tls" in done.stderr, done
    with Server(box, "--insecure-http", data=data, listen="0.0.0.0:0", env=env) as server:
        assert server.url.startswith("http://localhost:")
        assert server.get("/v1/me").status == 200


def test_one_server_per_folder(server):
    done = server.box.hutch("serve", "--data", server.data, "--workers", "0", "--listen", "127.0.0.1:0")
    assert done.returncode == 125, done
    assert server.get("/v1/me").status == 200


def test_workers_socket(server):
    path = server.data / "worker.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    connection = http.client.HTTPConnection("localhost", timeout=WAIT)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))

    def ask(method, where, body=None):
        connection.request(method, where, body and json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()

    assert ask("POST", "/v1/worker/lease", {"worker": "w", "slots": 0, "live_slots": 0, "wait_ms": 0})[0] == 200
    assert ask("GET", "/v1/keys")[0] == 403
    assert ask("GET", "/v1/jobs")[0] == 403
    connection.close()


def test_socket_activation(box):
    if not os.path.exists("/usr/bin/systemd-socket-activate"):
        pytest.skip("no systemd-socket-activate")
    data = box.caller.folder(box.scratch, "data")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", *box.caller.prefix, str(box.program),
                                "serve", "--data", str(data), "--workers", "0"], env=box.env, cwd="/",
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        def is_up():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            except OSError:
                return False

        wait_until(is_up, WAIT, "it answers on the socket that was passed")
        assert f":{port} key=" in process.stdout.readline().decode()
    finally:
        process.terminate()
        process.wait(WAIT)
        process.stdout.close()


def test_notifies_systemd(box, start_server):
    folder = box.caller.folder(box.scratch, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(folder / "s"))
        box.caller.own(folder / "s")
        sock.settimeout(WAIT)
        server = start_server(env={"NOTIFY_SOCKET": str(folder / "s")})
        seen = []
        while "WATCHDOG=1" not in seen:
            seen.append(sock.recv(4096).decode())
        assert seen[0] == "READY=1"
        server.stop()
        while "STOPPING=1" not in seen:
            seen.append(sock.recv(4096).decode())


# The end.

def test_sigterm_ends_streams_and_finishes_requests(server):
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"]
    stream = server.open("GET", f"/v1/jobs/{job}/events")
    assert stream.status == 200
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert stream.read().endswith(b"shutting down\n\n")
    stream.close()
    stream.connection_of_test.close()
    assert server.stop() == 0
    assert time.monotonic() - began < 60
    with pytest.raises(OSError):
        server.connect(5)
    server.restart()
    assert server.get(f"/v1/jobs/{job}").json()["state"] == "scheduled"


def test_events_follow_from_last_event_id(server):
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}).json()["id"]
    assert server.delete(f"/v1/jobs/{job}").status == 200
    events = list(server.events(f"/v1/jobs/{job}/events"))
    assert events[-1].json()["state"] == "cancelled"
    assert [int(e.id) for e in events] == list(range(1, len(events) + 1))
    after_all = server.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": events[-1].id})
    assert after_all.status == 204, "a browser's EventSource connects again unless it is told that this was the end"
    again = list(server.events(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": str(len(events) - 1)}))
    assert [e.data for e in again] == [events[-1].data]


def test_log_has_no_secrets(start_server):
    server = start_server("--log", "debug")
    server.get("/v1/jobs?search=verysecretquery")
    server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "verysecretbody"}]})
    server.get("/v1/me", headers={"X-Request-Id": "mine"})
    wait_until(lambda: any(line["request"] == "mine" for line in server.requests_logged()), WAIT, "the request is logged")
    line = next(line for line in server.requests_logged() if line["request"] == "mine")
    assert (line["method"], line["path"], line["status"], line["user"], line["address"]) == (
        "GET", "/v1/me", 200, "admin", "127.0.0.1")
    assert line["ms"] >= 0 and line["bytes"] > 0 and line["key"] == server.key.split("_")[1]
    server.stop()
    log = "\n".join(server.log)
    assert "verysecret" not in log and server.key.split("_", 2)[2] not in log


def test_audit_names_who_did_what(server):
    alice = server.new_key("alice")
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}, key=alice).json()["id"]
    server.delete(f"/v1/jobs/{job}", key=alice)


    def is_audited():
        lines = server.get("/v1/audit").json()["audit"]
        return any(line["user"] == "alice" and line["action"] == "job_delete" and line["object"] == job for line in lines)

    wait_until(is_audited, WAIT, "the line of the audit log")


# WebSockets: the channel of a worker and the OpenEnv route are two that need no box to be refused.

def test_websocket_refusals(start_server):
    server = start_server("--origin", "https://page.example")
    for path, key, headers, status in (
            (SOCKET, None, {}, 401), (SOCKET, True, {"Origin": "https://evil.example"}, 403),
            (SOCKET, True, {"Origin": "null"}, 403), ("/nothing", True, {}, 404), ("/v1/me", True, {}, 400),
            (SOCKET, True, {"Host": "evil.example"}, 421)):
        answer = server.websocket(path, key=key, headers=headers)
        assert answer.status == status, (path, headers, answer)
    assert server.get(SOCKET).status == 426
    with server.websocket(SOCKET, key="hutch_0_0") as ws:
        with pytest.raises(Closed) as closed:
            ws.receive()
        assert closed.value.code == 4401 and "no-key" in closed.value.reason
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    for headers in ({}, own, {"Origin": "https://page.example"}):
        ws = server.websocket(SOCKET, headers=headers)
        ws.close()
    assert server.get("/v1/me").status == 200


def test_websocket_messages_are_bounded(server):
    with server.websocket(SOCKET) as ws:
        with pytest.raises((Closed, ConnectionError)) as closed:
            for _ in range(40):
                ws.frame(1 if _ == 0 else 0, b"x" * 65000, final=False)
            ws.receive()
        assert not isinstance(closed.value, Closed) or closed.value.code in (1009, 1006)
    assert server.get("/v1/me").status == 200


# The description.

def test_openapi_names_every_operation_once(server):
    api = server.get("/openapi.json", key=None).json()
    assert api["openapi"] == "3.1.0"
    operations = [operation["operationId"] for methods in api["paths"].values() for operation in methods.values()]
    assert len(operations) == len(set(operations)) > 30
    assert {"job_submit", "key_new", "healthz"} <= set(operations)


def test_docs_page_is_self_contained(server):
    page = server.get("/docs", key=None)
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    assert "'unsafe-inline'" not in page.headers["content-security-policy"]
    for path in re.findall(rb'(?:src|href)="([^"]+)"', page.body):
        assert path.startswith(b"/"), path
        assert server.get(path.decode(), key=None).status == 200


def test_metrics_and_readiness(server):
    assert server.get("/metrics", key=None).status == 401
    text = server.get("/metrics").body.decode()
    assert 'hutch_jobs{state="scheduled"} 0' in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{[a-z]+="[a-z0-9]+"\})? [-+0-9.e]+', line), line
    assert server.get("/readyz", key=None).problem == "no-worker"
    worker = server.new_key("w", "worker")
    server.post("/v1/worker/lease", {"worker": "w", "slots": 0, "live_slots": 0, "wait_ms": 0}, key=worker)
    assert server.get("/readyz", key=None).status == 200
