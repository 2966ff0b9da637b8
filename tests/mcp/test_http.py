"""MCP servers that are reached by URL: servers of every temper."""
import http.server
import json
import shutil
import ssl
import subprocess
import threading
import time

import harness
import pytest

EMPTY = {"type": "object"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, message, **headers):
        self.reply(200, json.dumps(message).encode(), **headers)

    def begin_events(self, **headers):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True

    def event(self, text):
        self.wfile.write(text if isinstance(text, bytes) else text.encode())
        self.wfile.flush()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.message = json.loads(body)
        self.server.seen.append(("POST", dict(self.headers), self.message))
        self.server.behaviour.post(self, self.message)

    def do_GET(self):
        self.server.seen.append(("GET", dict(self.headers), None))
        self.server.behaviour.get(self)

    def do_DELETE(self):
        self.server.seen.append(("DELETE", dict(self.headers), None))
        self.reply(200)


class Behaviour:
    """An ordinary server with one tool; each test changes something."""
    session = "session-1"
    tools = ["go"]

    def post(self, h, m):
        method = m.get("method")
        if "id" not in m:
            return h.reply(202)
        if method == "initialize":
            return self.initialize(h, m)
        if method == "tools/list":
            return h.reply_json(self.result(m, {"tools": [{"name": n, "inputSchema": EMPTY} for n in self.tools]}))
        return self.call(h, m)

    def initialize(self, h, m):
        h.reply_json(self.result(m, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "w", "version": "1"}}),
                     **({"Mcp_Session_Id": self.session} if self.session else {}))

    @staticmethod
    def result(m, result):
        return {"jsonrpc": "2.0", "id": m["id"], "result": result}

    def text(self, m, words="fine"):
        return self.result(m, {"content": [{"type": "text", "text": words}]})

    def call(self, h, m):
        h.reply_json(self.text(m))

    def get(self, h):
        h.reply(405)


class Web:
    def __init__(self, behaviour, context=None):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.behaviour, self.server.seen, self.closed = behaviour, [], False
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.scheme = "https" if context else "http"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}/mcp"

    def seen(self, method):
        return [s for s in self.server.seen if s[0] == method]

    def close(self):
        if not self.closed:
            self.server.shutdown()
            self.server.server_close()
        self.closed = True


@pytest.fixture
def web():
    made = []

    def make(behaviour, **more):
        made.append(Web(behaviour() if isinstance(behaviour, type) else behaviour, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def reach(desk, server, **more):
    desk.configure(mcpServers={"w": {"url": server if isinstance(server, str) else server.url, "timeout": 20, **more}})


def test_answers_in_the_body(desk, web):
    server = web(Behaviour)
    reach(desk, server, headers={"Authorization": "Bearer ${TOKEN}", "X-Empty": ""})
    assert desk.tool("w.go", env={"TOKEN": "t0ken"})["text"] == "fine"
    posts = server.seen("POST")
    assert [p[2].get("method") for p in posts] == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    for _, headers, _ in posts:
        assert headers["Authorization"] == "Bearer t0ken" and headers["X-Empty"] == ""
        assert headers["Accept"] == "application/json, text/event-stream" and headers["Content-Type"] == "application/json"
    assert "Mcp-Session-Id" not in posts[0][1] and "MCP-Protocol-Version" not in posts[0][1]
    for _, headers, _ in posts[1:]:
        assert headers["Mcp-Session-Id"] == "session-1" and headers["MCP-Protocol-Version"] == "2025-06-18"
    assert len(server.seen("DELETE")) == 1 and server.seen("DELETE")[0][1]["Mcp-Session-Id"] == "session-1"


def test_without_a_session_nothing_is_ended(users, web):
    class Sessionless(Behaviour):
        session = None
    server = web(Sessionless)
    reach(users, server)
    assert users.tool("w.go")["text"] == "fine" and not server.seen("DELETE")


def test_secrets_are_on_no_command_line_and_in_no_environment(users, web):
    class Slow(Behaviour):
        def call(self, h, m):
            self.called.set()
            self.looked.wait(20)
            super().call(h, m)
    behaviour = Slow()
    behaviour.called, behaviour.looked = threading.Event(), threading.Event()
    server = web(behaviour)
    reach(users, server.url + "?key=s3cret-query", headers={"Authorization": "Bearer s3cret-header"})
    process = subprocess.Popen([*users.box.caller.prefix, str(users.box.program), "tool", "-w", str(users.box.workspace), "w.go"],
                               env=users.box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert behaviour.called.wait(20)
    for pid in harness.descendants(process.pid) + [process.pid]:
        for name in ("cmdline", "environ"):
            try:
                assert b"s3cret" not in open(f"/proc/{pid}/{name}", "rb").read()
            except OSError:
                pass
    behaviour.looked.set()
    out, err = process.communicate(timeout=300)
    assert out == b"fine\n" and b"s3cret" not in err


EVENTS = {
    "LF": "event: message\ndata: {}\n\n",
    "CRLF": "event: message\r\ndata: {}\r\n\r\n",
    "CR": "event: message\rdata: {}\r\r",
    "unnamed": ": a comment\n\ndata:{}\n\n",
    "mark": "\ufeffdata: {}\n\n",
    "others": "event: other\ndata: nonsense\n\nretry: 10\nid: 7\nfoo: bar\n\ndata: {}\n\n",
}


@pytest.mark.parametrize("form", EVENTS.values(), ids=EVENTS)
def test_answers_in_events(users, web, form):
    class Events(Behaviour):
        def call(self, h, m):
            h.begin_events()
            h.event(form.replace("{}", json.dumps(self.text(m))))
    server = web(Events)
    reach(users, server)
    assert users.tool("w.go")["text"] == "fine"


def test_an_event_of_several_lines_and_pieces(users, web):
    class Pieces(Behaviour):
        def call(self, h, m):
            h.begin_events()
            text = "".join("data: " + line + "\r\n" for line in json.dumps(self.text(m), indent=1).splitlines()) + "\r\n"
            for byte in text.encode():
                h.event(bytes([byte]))
    server = web(Pieces)
    reach(users, server)
    assert users.tool("w.go")["text"] == "fine"


def test_a_stream_that_does_not_end_after_the_answer(users, web):
    class Open(Behaviour):
        done = threading.Event()

        def call(self, h, m):
            h.begin_events()
            h.event("data: " + json.dumps(self.text(m)) + "\n\n")
            self.done.wait(20)
    server = web(Open)
    reach(users, server)
    assert users.tool("w.go")["text"] == "fine"
    Open.done.set()


def test_a_stream_that_breaks_off_is_taken_up_again(users, web):
    class Broken(Behaviour):
        def call(self, h, m):
            self.waiting = m
            h.begin_events()
            h.event("retry: 20\nid: event-5\ndata: " + json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}) + "\n\n")

        def get(self, h):
            if h.headers.get("Last-Event-ID") != "event-5":
                return h.reply(405)
            h.begin_events()
            return h.event("id: event-6\ndata: " + json.dumps(self.text(self.waiting, "resumed")) + "\n\n")
    server = web(Broken)
    reach(users, server)
    assert users.tool("w.go")["text"] == "resumed"


def test_a_stream_that_breaks_off_for_good(users, web):
    class Broken(Behaviour):
        def call(self, h, m):
            h.begin_events()
            h.event(": nothing\n\n")
    server = web(Broken)
    reach(users, server)
    assert "ended its answer without a result" in users.tool("w.go")["text"]

    class Again(Behaviour):
        def call(self, h, m):
            h.begin_events()
            h.event("retry: 1\nid: x\ndata:\n\n")

        def get(self, h):
            if "Last-Event-ID" not in h.headers:
                return h.reply(405)
            h.begin_events()
            return h.event(": still nothing\n\n")
    server = web(Again)
    reach(users, server)
    assert "ended its answer without a result" in users.tool("w.go")["text"]
    assert len([g for g in server.seen("GET") if "Last-Event-ID" in g[1]]) == 5


def test_what_the_server_says_by_itself(users, web):
    class Talker(Behaviour):
        listening, changed = threading.Event(), threading.Event()

        def get(self, h):
            h.begin_events()
            self.listening.set()
            self.changed.wait(20)
            self.tools = ["go", "new"]
            h.event("data: " + json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n\n")
            time.sleep(20 if self.changed.is_set() else 0)
    server = web(Talker)
    reach(users, server)
    with users.door() as door:
        assert door.call("w.go") == (False, "fine")
        assert Talker.listening.wait(10)
        Talker.changed.set()
        harness.wait_until(lambda: door.call("w.new") == (False, "fine"), what="the new tool is there")


@pytest.mark.parametrize("status,said", [
    (401, 'refuses access (HTTP 401); check "headers"'),
    (403, 'refuses access (HTTP 403); check "headers"'),
    (404, "HTTP 404: go\u00a0away"),
    (500, "HTTP 500: go\u00a0away"),
    (503, "HTTP 503: go\u00a0away"),
])
def test_a_server_that_refuses(users, web, status, said):
    class Refuses(Behaviour):
        def initialize(self, h, m):
            h.reply(status, "go\u00a0away\x1b[31m\n".encode(), kind="text/plain")
    server = web(Refuses)
    reach(users, server)
    result = users.tool("w.go")
    assert result["failed"] and said in result["text"] and "\x1b" not in result["text"]


def test_an_error_with_a_message_of_its_own(users, web):
    class Refuses(Behaviour):
        def call(self, h, m):
            h.reply(400, json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32602, "message": "bad words"}}).encode())
    server = web(Refuses)
    reach(users, server)
    assert "answered with an error: bad words (code -32602)" in users.tool("w.go")["text"]


def test_a_lost_session_is_begun_anew(users, web):
    class Forgets(Behaviour):
        calls = 0

        def call(self, h, m):
            self.calls += 1
            if self.calls == 1:
                self.session = "session-2"
                return h.reply(404)
            return h.reply_json(self.text(m, h.headers["Mcp-Session-Id"]))
    server = web(Forgets)
    reach(users, server)
    with users.door() as door:
        assert door.call("w.go") == (False, "session-2"), "the call was not looked at, so it is sent again"
    assert [p[2]["method"] for p in server.seen("POST")].count("initialize") == 2


def test_a_session_that_is_lost_again_and_again(users, web):
    class Forgets(Behaviour):
        def call(self, h, m):
            h.reply(404)
    server = web(Forgets)
    reach(users, server)
    with users.door() as door:
        for _ in range(6):
            failed, text = door.call("w.go")
            assert failed
    assert "not started again" in text
    assert [p[2]["method"] for p in server.seen("POST")].count("initialize") == 4


def test_redirected_on_the_same_host(users, web):
    class Moved(Behaviour):
        def post(self, h, m):
            if h.path == "/mcp":
                return h.reply(307, Location="/mcp/")
            return super().post(h, m)
    server = web(Moved)
    reach(users, server)
    assert users.tool("w.go")["text"] == "fine"


def test_redirected_in_circles(users, web):
    class Circle(Behaviour):
        def post(self, h, m):
            h.reply(307, Location="/mcp")
    server = web(Circle)
    reach(users, server)
    assert "in circles" in users.tool("w.go")["text"] and len(server.seen("POST")) == 4


def test_redirected_to_another_host_nothing_goes_there(users, web):
    thief = web(Behaviour)

    class Moved(Behaviour):
        def post(self, h, m):
            h.reply(307, Location=thief.url)
    server = web(Moved)
    reach(users, server, headers={"Authorization": "secret"})
    text = users.tool("w.go")["text"]
    assert f"redirects to http://127.0.0.1:{thief.port}/mcp" in text and not thief.server.seen


class Sized(Behaviour):
    def __init__(self, events):
        self.events = events

    def call(self, h, m):
        big = json.dumps(self.text(m, "x" * (17 << 20)))
        try:
            if not self.events:
                return h.reply(200, big.encode())
            h.begin_events()
            return h.event("data: " + big + "\n\n")
        except OSError:
            return None  # it hung up, which is what it should do


@pytest.mark.parametrize("events", [False, True])
def test_a_giant_answer(users, web, events):
    server = web(Sized(events))
    reach(users, server)
    assert "a message of more than 16 MiB" in users.tool("w.go")["text"]


def test_garbage(users, web):
    class Garbage(Behaviour):
        def call(self, h, m):
            h.reply(200, b"<html>hello</html>", kind="text/html")
    server = web(Garbage)
    reach(users, server)
    assert "ended its answer without a result" in users.tool("w.go")["text"]


def test_one_that_hangs_is_given_up(users, web):
    class Hangs(Behaviour):
        done = threading.Event()

        def call(self, h, m):
            self.done.wait(20)
    server = web(Hangs)
    reach(users, server, timeout=0.5)
    assert "did not answer within 0.5 seconds" in users.tool("w.go")["text"]
    Hangs.done.set()


def test_nobody_there(users, web):
    server = web(Behaviour)
    server.close()
    reach(users, server)
    text = users.tool("w.go")["text"]
    assert f"http://127.0.0.1:{server.port}/mcp: " in text and "connect" in text


def test_several_at_once(users, web):
    """The server answers the first when the second is there."""
    class Both(Behaviour):
        there = threading.Barrier(2)

        def post(self, h, m):
            if m.get("method") == "tools/list":
                return h.reply_json(self.result(m, {"tools": [{"name": "go", "inputSchema": EMPTY, "annotations": {"readOnlyHint": True}}]}))
            return super().post(h, m)

        def call(self, h, m):
            self.there.wait(20)
            super().call(h, m)
    server = web(Both)
    reach(users, server)
    with users.door() as door:
        numbers = [door.begin("tools/call", {"name": "w.go", "arguments": {}}) for _ in range(2)]
        for n in numbers:
            assert door.end(n)["result"]["content"][0]["text"] == "fine"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("no openssl on this host: cannot make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert"],
                   check=True, capture_output=True)
    return folder


def test_certificates_are_checked(users, web, certificate, scratch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    server = web(Behaviour, context=context)
    reach(users, server)
    result = users.tool("w.go")
    assert result["failed"] and "certificate" in result["text"] and not server.server.seen
    known = users.config / "cert"
    shutil.copy(certificate / "cert", known)
    known.chmod(0o644)
    assert users.tool("w.go", env={"SSL_CERT_FILE": str(known)})["text"] == "fine"


@pytest.mark.parametrize("settings,said", [
    ({"url": "ftp://127.0.0.1/x"}, '"url" must start with https:// or http://'),
    ({"url": "not a url"}, '"url" must start with'),
    ({"url": "file:///etc/passwd"}, '"url" must start with'),
    ({"url": "http://127.0.0.1:1/", "headers": {"Host": "elsewhere"}}, "headers.Host: hutch sets this header itself"),
    ({"url": "http://127.0.0.1:1/", "headers": {"A": "b\r\nC: d"}}, "headers.A: its value has a line end"),
])
def test_settings_that_make_no_sense(users, settings, said):
    users.configure(mcpServers={"w": settings})
    assert said in users.tool("w.go")["text"]
