"""MCP over streamable HTTP: /mcp, with requests of our own, the official SDK and the conformance suite."""
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading

import pytest
from session_kit import Beside, end_all, kill_workers, model_environment, wait_for

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "mcp"))

from peer import HERE, MODULES  # noqa: E402

LATEST_BEGUN, STATELESS = "2025-11-25", "2026-07-28"
BOTH = "application/json, text/event-stream"
META = {"io.modelcontextprotocol/protocolVersion": STATELESS, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}}


class NoModel:
    key, url = "none", "http://127.0.0.1:1"


@pytest.fixture
def server(start_server, box):
    server = start_server(workers=1, env=model_environment(box, NoModel))
    yield server
    end_all(server)


class Client:
    """A client of the revisions that begin with `initialize`."""

    def __init__(self, server, key=True, begin=True):
        self.server, self.key, self.session, self.ids = server, key, None, 0
        if begin:
            answer = self.post(self.request("initialize", protocolVersion=LATEST_BEGUN, capabilities={},
                                            clientInfo={"name": "test", "version": "1"}))
            assert answer.status == 200, answer
            self.session = answer.headers["mcp-session-id"]
            self.server_info = answer.json()["result"]
            assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def request(self, method, **params):
        self.ids += 1
        return {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}

    def headers(self, **more):
        headers = {"Accept": BOTH, "Content-Type": "application/json"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LATEST_BEGUN}
        return headers | {name.replace("_", "-"): value for name, value in more.items()}

    def post(self, message, **headers):
        return self.server.post("/mcp", message, key=self.key, headers=self.headers(**headers), timeout=120)

    def ask(self, method, **params):
        answer = self.post(self.request(method, **params))
        assert answer.status == 200, answer
        return answer.json()

    def bash(self, command):
        return self.ask("tools/call", name="bash", arguments={"command": command})["result"]["structuredContent"]

    def events(self, message):
        return [e.json() for e in self.server.events("/mcp", "POST", body=message, key=self.key, headers=self.headers(),
                                                     timeout=120)]


class Modern(Client):
    """A client of 2026-07-28: every request says what it needs."""

    def __init__(self, server, key=True):
        super().__init__(server, key, begin=False)

    def request(self, method, **params):
        return super().request(method, **params, _meta=META)

    def post(self, message, **headers):
        params = message.get("params", {})
        name = {"tools/call": params.get("name"), "resources/read": params.get("uri")}.get(message["method"])
        given = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": message["method"], **({"Mcp_Name": name} if name else {})}
        return super().post(message, **{k: v for k, v in {**given, **headers}.items() if v is not None})


def code_of(answer):
    assert answer.headers["content-type"] == "application/json", answer
    return answer.json()["error"]["code"]


def test_session_lives_from_initialize_to_delete(server):
    client = Client(server)
    assert client.server_info["serverInfo"]["name"] == "hutch"
    assert client.server_info["protocolVersion"] == LATEST_BEGUN
    names = [t["name"] for t in client.ask("tools/list")["result"]["tools"]]
    assert {"bash", "read_file", "write_file"} <= set(names) and not {"git_push", "git_clone"} & set(names)
    assert client.bash("echo hello >a.txt; cat a.txt")["output"] == "hello\n"
    read = client.ask("resources/read", uri="file:///workspace/a.txt")["result"]["contents"]
    assert read[0]["text"] == "hello\n"
    assert client.ask("nonsense")["error"]["code"] == -32601
    assert server.delete("/mcp", headers=client.headers()).status == 204
    wait_for(lambda: server.get(f"/v1/jobs/{client.session}").json()["state"] == "cancelled", "its job has ended")
    assert client.post(client.request("ping")).status == 404
    assert server.delete("/mcp", headers=client.headers()).status == 404


def test_two_clients_have_two_boxes(server):
    one, two = Client(server), Client(server)
    one.bash("echo mine >/tmp/mine")
    assert two.bash("ls /tmp/mine 2>&1")["exit_code"] != 0
    assert one.bash("cat /tmp/mine")["output"] == "mine\n"
    assert one.session != two.session


def test_session_of_another_user_does_not_exist(server):
    client = Client(server)
    other = Client(server, key=server.new_key("other", user="mallory"), begin=False)
    other.session = client.session
    assert other.post(other.request("tools/list")).status == 404
    assert server.delete("/mcp", key=other.key, headers=other.headers()).status == 404
    assert server.get("/mcp", key=other.key, headers=other.headers()).status == 404
    assert server.post("/mcp", {}, key=None).status == 401
    assert server.post("/mcp", {}, key=server.new_key("reader", role="read-only")).status == 403
    assert client.bash("true")["exit_code"] == 0


def test_calls_run_beside_each_other_and_find_their_request(server):
    client = Client(server)
    client.bash("echo one >a.txt")
    requests = [client.request("tools/call", name="read_file", arguments={"path": "a.txt"}) for _ in range(20)]
    answers = [Beside(lambda r=r: client.post(r).json()) for r in requests]
    assert [a.join()["id"] for a in answers] == [r["id"] for r in requests]
    assert all("one" in a.result["result"]["content"][0]["text"] for a in answers)


def test_ids_may_be_of_any_kind_and_used_again(server):
    client = Client(server)
    for given in (0, "text", "1.0", -5, "1.0", 1 << 50):
        answer = client.post({"jsonrpc": "2.0", "id": given, "method": "ping"}).json()
        assert answer == {"jsonrpc": "2.0", "id": given, "result": {}}


def test_progress_comes_as_events(server):
    client = Client(server)
    request = client.request("tools/call", name="bash", arguments={"command": "for i in 1 2 3; do echo step $i; sleep 0.6; done"},
                             _meta={"progressToken": "mine"})
    *told, answer = client.events(request)
    assert told and all(m["method"] == "notifications/progress" and m["params"]["progressToken"] == "mine" for m in told)
    assert answer["id"] == request["id"] and answer["result"]["structuredContent"]["exit_code"] == 0


def test_clients_that_accept_one_kind_of_answer(server):
    client = Client(server)
    answer = client.post(client.request("ping"), Accept="text/event-stream")
    assert answer.headers["content-type"].startswith("text/event-stream") and b"data: {" in answer.body
    request = client.request("tools/call", name="bash", arguments={"command": "echo a; sleep 1"}, _meta={"progressToken": 1})
    answer = client.post(request, Accept="application/json")
    assert answer.json()["id"] == request["id"]
    assert client.post(client.request("ping"), Accept="text/html").status == 406


def test_cancelled_request_is_not_answered(server):
    client = Client(server)
    request = client.request("tools/call", name="bash", arguments={"command": "sleep 1000"}, _meta={"progressToken": 1})
    stream = server.events("/mcp", "POST", body=request, headers=client.headers(), timeout=120)
    assert next(stream).json()["method"] == "notifications/progress"
    client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}})
    assert all("result" not in e.json() for e in stream)
    assert client.bash("pgrep sleep || echo none")["output"] == "none\n"


def test_client_that_leaves_cancels_its_request(server):
    client = Client(server)
    request = client.request("tools/call", name="bash", arguments={"command": "sleep 1000"}, _meta={"progressToken": 1})
    stream = server.events("/mcp", "POST", body=request, headers=client.headers(), timeout=120)
    next(stream)
    stream.close()
    assert client.bash("pgrep sleep || echo none")["output"] == "none\n"


def test_listening_ends_with_the_session(server):
    client = Client(server)
    listener = Beside(lambda: list(server.events("/mcp", headers=client.headers(), timeout=120)))
    client.bash("true")
    assert listener.is_alive()
    server.delete("/mcp", headers=client.headers())
    assert listener.join() == []


@pytest.mark.parametrize("message, status, code", [
    (b"nonsense", 400, -32700), (b"[]", 400, -32000), ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, 400, -32000)])
def test_wrong_beginnings(server, message, status, code):
    answer = server.post("/mcp", message, headers={"Accept": BOTH, "Content-Type": "application/json"})
    assert (answer.status, code_of(answer)) == (status, code)
    assert server.get("/v1/jobs?kind=mcp").json()["jobs"] == []


def test_wrong_requests_of_a_session(server):
    client = Client(server)
    assert client.post(b"{").status == 400
    assert client.post({"jsonrpc": "1.0", "id": 1, "method": "ping"}).json()["error"]["code"] == -32600
    assert code_of(client.post(client.request("ping"), MCP_Protocol_Version="1999-01-01")) == -32022
    assert client.post(client.request("ping"), Origin="https://evil.example").status == 403
    assert client.post(client.request("ping"), Origin=server.url).status == 200
    assert client.post(client.request("ping"), Mcp_Session_Id="0" * 20).status == 404
    assert client.post(client.request("ping"), Mcp_Session_Id="../../etc/passwd").status == 404
    assert server.get("/mcp", headers={"Accept": "text/event-stream"}).status == 400
    assert client.ask("ping")["result"] == {}


def test_batches_of_their_revision(server):
    client = Client(server, begin=False)
    begin = client.request("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "t", "version": "1"})
    client.session = client.post(begin).headers["mcp-session-id"]
    batch = [client.request("ping"), client.request("tools/call", name="bash", arguments={"command": "echo batch"}),
             {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    answer = client.post(batch, MCP_Protocol_Version="2025-03-26").json()
    assert sorted(m["id"] for m in answer) == [2, 3]
    assert client.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}], MCP_Protocol_Version="2025-03-26").status == 202


def test_large_messages(server):
    client = Client(server)
    text = "x" * (3 << 20)
    written = client.ask("tools/call", name="write_file", arguments={"path": "big.txt", "content": text})
    assert not written["result"]["isError"]
    assert client.ask("resources/read", uri="file:///workspace/big.txt")["result"]["contents"][0]["text"] == text


def test_session_survives_its_worker(server):
    client = Client(server)
    client.bash("echo stays >/tmp/stays")
    kill_workers(server)
    wait_for(lambda: server.get(f"/v1/jobs/{client.session}").json()["attempt"] == 2, "another worker has it")
    assert client.bash("cat /tmp/stays")["output"] == "stays\n"


def test_requests_without_a_session_share_the_box_of_their_key(server):
    one, two = Modern(server), Modern(server)
    assert one.ask("server/discover")["result"]["supportedVersions"][0] == STATELESS
    one.bash("echo shared >/tmp/shared")
    assert two.bash("cat /tmp/shared")["output"] == "shared\n"
    other = Modern(server, key=server.new_key("other", user="other"))
    assert other.bash("ls /tmp/shared 2>&1")["exit_code"] != 0
    assert len(server.get("/v1/jobs?kind=mcp").json()["jobs"]) == 2
    answer = one.post(one.request("tools/list"))
    assert "mcp-session-id" not in answer.headers
    same = [Beside(lambda c=c: c.post(c.request("tools/call", name="bash", arguments={"command": f"echo {c}"}))) for c in (one, two)]
    assert all(s.join().status == 200 for s in same)


@pytest.mark.parametrize("wrong, code, status", [
    ({"Mcp_Method": "tools/list"}, -32020, 400), ({"Mcp_Name": "read_file"}, -32020, 400), ({"Mcp_Name": None}, -32020, 400),
    ({"Mcp_Method": None}, -32020, 400), ({"MCP_Protocol_Version": None}, -32020, 400),
    ({"MCP_Protocol_Version": LATEST_BEGUN}, -32020, 400), ({"Mcp_Name": "=?base64?YmFzaA==?="}, None, 200)])
def test_headers_say_what_the_body_says(server, wrong, code, status):
    client = Modern(server)
    answer = client.post(client.request("tools/call", name="bash", arguments={"command": "true"}), **wrong)
    assert answer.status == status
    assert answer.json().get("error", {}).get("code") == code


def test_unknown_method_without_a_session(server):
    client = Modern(server)
    answer = client.post(client.request("initialize", protocolVersion=STATELESS))
    assert (answer.status, code_of(answer)) == (404, -32601)


# Clients of other projects.


@pytest.fixture(scope="session")
def node():
    if not shutil.which("npm") or not (MODULES / ".fetched").exists():
        pytest.skip("other people's MCP clients were not fetched (scripts/setup-node)")
    own = MODULES / ".bin" / "node"
    return str(own if own.exists() else shutil.which("node"))


@pytest.fixture
def sdk(node, server):
    def run(generation, scenario, **given):
        done = subprocess.run([node, "sdk.mjs", generation, scenario, json.dumps(given), server.url + "/mcp"], text=True,
                              capture_output=True, timeout=240, cwd=HERE, env={"HUTCH_API_KEY": server.key, "PATH": "/usr/bin:/bin"},
                              check=False)
        assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
        result = json.loads(done.stdout)
        assert result["troubles"] == []
        return result

    return run


GENERATIONS = pytest.mark.parametrize("generation", ["1", "2"])


@GENERATIONS
def test_sdk_looks_around_and_calls(sdk, generation):
    seen = sdk(generation, "look")
    assert seen["server"]["name"] == "hutch" and {"bash", "plan"} <= {t["name"] for t in seen["tools"]}
    calls = [["write_file", {"path": "a.txt", "content": "one\n"}], ["read_file", {"path": "a.txt"}], ["bash", {"command": "exit 3"}],
             ["read_file", {"path": "none"}], ["plan", {"items": [{"text": "look", "state": "active"}]}]]
    results = sdk(generation, "calls", calls=calls)["results"]
    assert [r.get("isError", False) for r in results] == [False, False, False, True, False]
    assert results[2]["structuredContent"]["exit_code"] == 3
    missing = -32002 if generation == "1" else -32602
    assert sdk(generation, "failures")["codes"] == [-32602, missing, missing, -32602]


@GENERATIONS
def test_sdk_hears_of_progress_and_aborts(sdk, generation):
    seen = sdk(generation, "progress", command="for i in 1 2 3 4; do echo step $i; sleep 0.6; done")
    assert len(seen["told"]) >= 2 and seen["result"]["structuredContent"]["exit_code"] == 0
    seen = sdk(generation, "abort")
    assert "enough" in seen["failure"] and "none" in seen["after"]["content"][0]["text"]


class KeyProxy(http.server.BaseHTTPRequestHandler):
    """The conformance suite cannot send a key: this adds it, and changes nothing else."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        skip = {"connection", "content-length", "transfer-encoding"}
        headers = {k.title(): v for k, v in self.headers.items() if k.lower() not in skip}
        own, port = f"127.0.0.1:{self.server.server_address[1]}", self.server.target.port
        if headers.get("Host") in (own, own.replace("127.0.0.1", "localhost")):
            headers["Host"] = f"127.0.0.1:{port}"
        if headers.get("Origin") in ("http://" + own, "http://" + own.replace("127.0.0.1", "localhost")):
            headers["Origin"] = f"http://127.0.0.1:{port}"
        response = self.server.target.open(self.command, self.path, body or None, headers=headers, timeout=120)
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            if name.lower() not in skip:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while piece := response.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass
        finally:
            response.close()
            response.connection_of_test.close()

    do_GET = do_POST = do_DELETE = pass_on


@pytest.fixture
def open_server(server):
    """A URL that needs no key."""
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), KeyProxy)
    proxy.daemon_threads, proxy.target = True, server
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{proxy.server_address[1]}/mcp"
    proxy.shutdown()
    proxy.server_close()


def test_conformance(node, open_server, tmp_path):
    """At least the scenarios that pass on stdio (tests/mcp), and those of the transport, which is ours here."""
    from test_mcp_clients import APPLY, NEED_A_TEST_SERVER, NOT_CLAIMED, OF_THE_TRANSPORT
    done = subprocess.run([node, MODULES / ".bin" / "conformance", "server", "--url", open_server, "--suite", "all", "-o", str(tmp_path)],
                          text=True, capture_output=True, timeout=500, check=False)
    outcome = {name: (int(passed), int(failed)) for name, passed, failed in
               re.findall(r"^. ([\w-]+): (\d+) passed, (\d+) failed$", done.stdout, re.M)}
    assert {name: outcome.get(name) for name in APPLY} == {name: (1, 0) for name in APPLY}, done.stdout[-3000:]
    assert outcome["dns-rebinding-protection"][1] == 0 and outcome["server-sse-multiple-streams"][1] == 0, done.stdout[-3000:]
    assert outcome.keys() == APPLY | OF_THE_TRANSPORT | NEED_A_TEST_SERVER | NOT_CLAIMED
