"""`hutch mcp` by hand-made messages: the framing, every kind of error, negotiation, the end."""
import json
import os
import signal
import subprocess

import pytest

from peer import LATEST_BEGUN, PATIENCE, STATELESS, VERSIONS

PARSE, INVALID, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
LIMIT = 16 << 20
META = {"io.modelcontextprotocol/protocolVersion": STATELESS, "io.modelcontextprotocol/clientCapabilities": {}}
PLAN = {"name": "plan", "arguments": {"items": [{"text": "look", "state": "active"}]}}


# The beginning.


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version(connect, version):
    server = connect()
    begun = server.initialize(version)
    assert begun["protocolVersion"] == version
    assert begun["serverInfo"]["name"] == "hutch" and "hutch://diff" in begun["instructions"]
    assert set(begun["capabilities"]) == {"tools", "resources", "logging"} | (
        {"completions"} if version >= "2025-03-26" else set())
    tool = next(t for t in server.result("tools/list")["tools"] if t["name"] == "plan")
    assert set(tool) == ({"name", "description", "inputSchema"} | ({"annotations"} if version >= "2025-03-26" else set())
                         | ({"title", "outputSchema"} if version >= "2025-06-18" else set()))
    result = server.result("tools/call", PLAN)
    assert result["content"] == [{"type": "text", "text": "[>] look\n"}]
    assert ("structuredContent" in result) == (version >= "2025-06-18")


@pytest.mark.parametrize("asked", ["2024-10-07", "1999-01-01", "", "2025-11-25x", STATELESS, "2030-01-01"])
def test_other_versions_are_negotiated_down(connect, asked):
    server = connect()
    assert server.initialize(asked)["protocolVersion"] == LATEST_BEGUN
    assert server.result("tools/list")["tools"]


def test_nothing_but_ping_before_initialize(connect):
    server = connect()
    assert server.is_alive()
    for method in ["tools/list", "tools/call", "resources/list", "logging/setLevel"]:
        code, text = server.error(method, {})
        assert code == INVALID and "initialize" in text
    for params in [None, {}, {"protocolVersion": 1}]:
        assert server.error("initialize", params)[0] == BAD_PARAMS
    assert server.error("tools/list")[0] == INVALID
    server.initialize()
    assert server.result("tools/list")["tools"]


def test_stateless(connect):
    """Revision 2026-07-28: no initialize, every request says what it is, every result says that it is whole."""
    server = connect()
    found = server.result("server/discover", {"_meta": META})
    assert found["supportedVersions"] == [STATELESS, *reversed(VERSIONS)]
    assert set(found["capabilities"]) == {"tools", "resources", "completions"}
    for method, more in [("server/discover", {}), ("tools/list", {}), ("tools/call", PLAN), ("resources/list", {}),
                         ("resources/templates/list", {}), ("resources/read", {"uri": "hutch://diff"})]:
        result = server.result(method, {**more, "_meta": META})
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "hutch"
        assert ("ttlMs" in result and result["cacheScope"] == "private") == (method != "tools/call")
    for method in ["ping", "initialize", "logging/setLevel", "subscriptions/listen"]:
        assert server.error(method, {"_meta": META})[0] == NO_METHOD
    assert server.error("resources/read", {"uri": "file:///workspace/none", "_meta": META})[0] == BAD_PARAMS
    assert server.error("tools/list", {"_meta": {k: v for k, v in META.items() if "Version" in k}})[0] == BAD_PARAMS


def test_stateless_version_is_not_supported(connect):
    server = connect()
    for version in ["2027-01-01", "", LATEST_BEGUN]:
        answer = server.ask("tools/list", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": version}})
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": [STATELESS, *reversed(VERSIONS)], "requested": version}
    server.initialize()
    assert "resultType" not in server.result("tools/list")
    assert server.result("tools/list", {"_meta": META})["resultType"] == "complete"
    assert server.error("server/discover")[0] == NO_METHOD


# What is not a message.


@pytest.mark.parametrize("garbage", [
    b"{", b"nonsense", b"{}{}", b"\xff\xfe", b'{"a":"\xff"}', b"\0", b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    b'{"id":1,"id":1}', b"[" * 3000, b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', b"'", b"\x1b[0m", b'"\\ud800"',
    b'{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}', b'{"a\\u0000":1}'])
def test_garbage_is_a_parse_error(any_server, garbage):
    any_server.send_bytes(garbage + b"\n")
    answer = any_server.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE)
    assert any_server.is_alive()


@pytest.mark.parametrize("value, id", [
    ({}, None), (1, None), ("x", None), (None, None), (True, None), ([], None), ([1, 2], None),
    ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 1), ({"id": 7, "method": "ping"}, 7),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None), ({"jsonrpc": "2.0", "id": [], "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None), ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": "a", "method": 1}, "a"), ({"jsonrpc": "2.0", "id": "a"}, "a"),
    ({"jsonrpc": "2.0", "id": 3, "method": "ping", "params": 1}, 3),
    ({"jsonrpc": "2.0", "id": 3, "result": {}, "error": {}}, 3), ({"jsonrpc": "2.0", "method": None}, None)])
def test_invalid_requests(any_server, value, id):
    any_server.send(value)
    answer = any_server.receive()
    assert (answer["id"], answer["error"]["code"]) == (id, INVALID)
    assert any_server.is_alive()


def test_oversized_message(any_server):
    """One byte too long; what comes behind it is read as if nothing had been."""
    head = b'{"jsonrpc":"2.0","id":"big","method":"ping","params":{"x":"'
    tail = b'"}}'
    whole = head + b"x" * (LIMIT - len(head) - len(tail)) + tail
    any_server.send_bytes(whole + b"\n")
    assert any_server.receive() == {"jsonrpc": "2.0", "id": "big", "result": {}}
    any_server.send_bytes(b" " + whole + b"\n")
    answer = any_server.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID) and "16 MiB" in answer["error"]["message"]
    any_server.send_bytes((whole + b"x" * 100) * 3 + b"\n")
    assert any_server.receive()["error"]["code"] == INVALID
    assert any_server.is_alive()


def test_too_many_values(any_server):
    any_server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[' + b"{}," * (1 << 20) + b"1]}}\n")
    answer = any_server.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID) and "values" in answer["error"]["message"]
    assert any_server.is_alive()


def test_any_split_of_the_bytes(any_server):
    text = json.dumps({"jsonrpc": "2.0", "id": "ä€😀", "method": "ping"}, ensure_ascii=False).encode() + b"\n"
    for i in range(len(text)):
        any_server.send_bytes(text[i:i + 1])
    assert any_server.receive()["id"] == "ä€😀"
    many = b"\r\n \n\t\n" + b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\r\n' % i for i in range(1000))
    for at in range(0, len(many), 997):
        any_server.send_bytes(many[at:at + 997])
    assert [any_server.receive()["id"] for _ in range(1000)] == list(range(1000))


def test_last_line_without_an_end(connect):
    server = connect()
    server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert server.close() == (0, "")
    assert server.rest() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_everything_at_once_on_a_pipe(connect):
    """As `printf … | hutch mcp`: every request is answered although the input has ended."""
    server = connect()
    server.send(*[{"jsonrpc": "2.0", "id": i, **m} for i, m in enumerate([
        {"method": "initialize", "params": {"protocolVersion": LATEST_BEGUN}}, {"method": "tools/list"},
        {"method": "tools/call", "params": PLAN}, {"method": "resources/read", "params": {"uri": "hutch://diff"}}])])
    assert server.close() == (0, "")
    assert {m["id"] for m in server.rest() if "result" in m} == {0, 1, 2, 3}


def test_ids_come_back_as_they_are(any_server):
    for id in ["", "1", 1, 0, -5, 2**53, "x" * 100000, "\n\u2028\"", 1.5]:
        any_server.start("ping", id=id)
        assert any_server.receive() == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_what_is_not_for_the_server_is_ignored(any_server):
    any_server.send({"jsonrpc": "2.0", "id": 5, "result": {}}, {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": ""}},
                    {"jsonrpc": "2.0", "error": {}}, {"jsonrpc": "2.0", "method": "notifications/nonsense"},
                    {"jsonrpc": "2.0", "method": "tools/list"}, {"jsonrpc": "2.0", "method": "notifications/cancelled"},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": 1}}})
    id = any_server.start("ping")
    assert any_server.receive()["id"] == id


# Methods and their params.


def test_unknown_methods(any_server):
    for method in ["", "nonsense", "tools", "tools/", "tools/list ", "Ping", "prompts/list", "notifications/initialized",
                   "resources/subscribe", "x" * 100000]:
        assert any_server.error(method)[0] == NO_METHOD
    assert any_server.is_alive()


@pytest.mark.parametrize("method, params", [
    ("ping", []), ("tools/list", [1]), ("tools/list", {"cursor": 1}), ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": "100000"}), ("tools/list", {"cursor": "-1"}), ("resources/list", {"cursor": "no"}),
    ("tools/call", None), ("tools/call", {}), ("tools/call", {"name": 1}), ("tools/call", {"name": "none"}),
    ("tools/call", {"name": ""}), ("tools/call", {"name": "plan", "arguments": []}),
    ("tools/call", {"name": "plan", "arguments": None}), ("tools/call", {"name": "plan", "arguments": "x"}),
    ("tools/call", {"name": "pl\0an"}), ("tools/call", {"name": "plan", "arguments": {"items": [{"text": "\0", "state": "done"}]}}),
    ("resources/read", None), ("resources/read", {"uri": 1}), ("logging/setLevel", {}), ("logging/setLevel", {"level": "loud"}),
    ("completion/complete", {}), ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"},
                                                          "argument": {"name": "x", "value": ""}})])
def test_bad_params(any_server, method, params):
    assert any_server.error(method, params)[0] == BAD_PARAMS
    assert any_server.is_alive()


def test_logging_levels(any_server):
    for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]:
        assert any_server.result("logging/setLevel", {"level": level}) == {}


def test_input_is_checked_by_the_schema(server):
    """A mistake of the model's is told to the model, with the place of the mistake."""
    for arguments, place in [({"items": 1}, "input.items"), ({"items": [{"text": "a"}]}, "input.items[0]"),
                             ({"items": [{"text": "a", "state": "x"}]}, "input.items[0].state"), ({"more": 1}, "more")]:
        result = server.result("tools/call", {"name": "plan", "arguments": arguments})
        assert result["isError"] is True and place in result["content"][0]["text"]


def test_calls_are_carried_out_in_order(server):
    """Calls that may change something, all given at once: each sees what those before it did, and no other."""
    ids = [server.start_call("plan", items=[{"text": str(i), "state": "done"}]) for i in range(40)]
    last = server.start_call("plan")
    answers = server.wait(*ids, last)
    assert [a["result"]["content"][0]["text"] for a in answers] == [f"[x] {i}\n" for i in [*range(40), 39]]


def test_hints(any_server):
    hints = {t["name"]: t["annotations"] for t in any_server.result("tools/list")["tools"]}
    assert hints["plan"] == {"title": "Plan", "readOnlyHint": False, "destructiveHint": False, "idempotentHint": True,
                             "openWorldHint": False}


# Batches.


def test_batch(connect):
    server = connect()
    server.initialize("2025-03-26")
    server.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
                 {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": PLAN},
                 {"jsonrpc": "2.0", "id": 3, "method": "none"}, 17, {"jsonrpc": "2.0", "id": 4, "method": "tools/list"},
                 {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": LATEST_BEGUN}}, []])
    answers = server.receive()
    by = {a["id"]: a for a in answers if a["id"] is not None}
    assert set(by) == {1, 2, 3, 4, 5} and len(answers) == 7
    assert by[1]["result"] == {} and by[2]["result"]["content"] and by[4]["result"]["tools"]
    assert by[3]["error"]["code"] == NO_METHOD and by[5]["error"]["code"] == INVALID
    assert [a["error"]["code"] for a in answers if a["id"] is None] == [INVALID, INVALID]
    server.send([{"jsonrpc": "2.0", "method": "notifications/x"}] * 3)  # nothing to answer
    server.send([])
    answer = server.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID)
    assert server.is_alive()


@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_batches_are_part_of_one_version(connect, version):
    server = connect()
    if version:
        server.initialize(version)
    server.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    answer = server.receive()
    if version == "2025-03-26":
        assert answer == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    else:
        assert (answer["id"], answer["error"]["code"]) == (None, INVALID) and "2025-03-26" in answer["error"]["message"]
    assert server.is_alive()


# The end.


def test_end_of_input(server):
    assert server.result("tools/list")["tools"]
    assert server.close() == (0, "")
    assert server.rest() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals(server, number):
    server.result("tools/list")
    os.kill(server.process.pid, number)
    assert server.finish() == (0, "")


@pytest.fixture
def bare(box):
    """A server whose output nobody reads unless the test does; its box is up."""
    process = subprocess.Popen([*box.caller.prefix, str(box.program), "mcp", "-w", str(box.workspace)], env=box.env,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LATEST_BEGUN}}
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    assert b"hutch" in process.stdout.read(4096)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_client_that_goes_away(bare):
    """Nobody can read any more: the server ends although its input is still open."""
    bare.stdout.close()
    assert bare.wait(PATIENCE) == 0


def test_client_that_does_not_read(bare):
    """A full pipe does not keep the server from ending at a signal."""
    os.set_blocking(bare.stdin.fileno(), False)
    line = b'{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}\n'
    while bare.stdin.write(line) == len(line):
        pass
    bare.terminate()
    assert bare.wait(PATIENCE) == 0


def test_wrong_usage(make_box):
    box = make_box("user")
    for args, text in [(["x"], "too many"), (["--apply", "--mode", "direct"], "--apply"), (["--nonsense"], "nonsense")]:
        done = box.hutch("mcp", *args, input="")
        assert done.returncode == 2 and text in done.stderr and done.stdout == ""
    done = box.hutch("mcp", "-w", "/nonexistent", input="")
    assert done.returncode == 125 and "/nonexistent" in done.stderr and done.stdout == ""
    done = box.hutch("mcp", "--box", "nope", input="")
    assert done.returncode != 0 and "nope" in done.stderr and done.stdout == ""
