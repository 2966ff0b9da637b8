"""MCP servers that behave badly, or oddly, on stdio: `strange_server.py KIND`. Runs on the host, started by hutch."""
import json
import os
import signal
import sys
import time

kind = sys.argv[1]
EMPTY = {"type": "object"}


def send(message):
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def read():
    line = sys.stdin.readline()
    if not line:
        if kind == "stubborn":
            time.sleep(1000)
        sys.exit(0)
    return json.loads(line)


def complain(words):
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def ask(method, number):
    send({"jsonrpc": "2.0", "id": number, "method": method})
    return read()


# How a call is answered, by kind. Others answer with "fine".
def on_call(request):
    name, arguments = request["params"]["name"], request["params"].get("arguments")
    if kind == "crash":
        complain("an old line\nsomething terrible happened")
        os._exit(7)
    if kind == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "hang":
        complain("thinking hard")
        return
    if kind == "garbage":
        return send('{"jsonrpc": "2.0", "id": ' + str(request["id"]) + ', "result": {"content": [')
    if kind == "no-rpc":
        return send({"hello": "world"})
    if kind == "flood":
        while True:
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 60000}})
    if kind == "chatter":
        while True:
            send("this is no JSON")
    if kind == "pester":
        while True:
            send({"jsonrpc": "2.0", "id": "x" * 10000, "method": "ping"})
    if kind == "giant":
        return answer(request, text("x" * (17 << 20)))
    if kind == "endless-line":
        while True:
            sys.stdout.write("{" + "x" * 65536)
    if kind == "wrong-id":
        for other in (request["id"] + 1000, str(request["id"]), 1.5):
            send({"jsonrpc": "2.0", "id": other, "result": text("not yours")})
        return
    if kind == "twice":
        answer(request, text("first"))
        return answer(request, text("second"))
    if kind == "close":
        os.close(1)
        time.sleep(1000)
    if kind == "slow":
        for i in range(3):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": request["params"]["_meta"]["progressToken"], "progress": i, "total": 3,
                             "message": f"step\x1b {i}"}})
            time.sleep(0.15)
        return answer(request, text("slow but fine"))
    if kind == "error":
        return send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "no\x1b[31m such thing"}})
    if kind == "is-error":
        return answer(request, text("it went wrong", isError=True))
    if kind == "batch":
        return send([{"jsonrpc": "2.0", "method": "notifications/message"},
                     {"jsonrpc": "2.0", "id": request["id"], "result": text("in a batch")}])
    if kind == "asks":
        said = [ask("ping", 1), ask("roots/list", "r"), ask("sampling/createMessage", 3), ask("elicitation/create", 4)]
        return answer(request, text(json.dumps(said)))
    if kind == "changes":
        global tools
        tools = tools + [{"name": "new", "inputSchema": EMPTY}] if len(tools) == 1 else tools[:1]
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return answer(request, text("changed"))
    if kind == "whereabouts":
        return answer(request, {"content": [], "structuredContent": {
            "env": dict(os.environ), "cwd": os.getcwd(), "group": os.getpgrp() == os.getpid(), "argv": sys.argv[2:],
            "fds": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1], "uid": os.getuid(),
            "masked": signal.pthread_sigmask(signal.SIG_BLOCK, []) != set(),
            "pipe": signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN}})
    if kind == "contents":
        return answer(request, CONTENTS[name])
    if kind == "wait":
        if name == "record":
            return answer(request, text(json.dumps(seen)))
        waiting.append(request)
        if len(waiting) == 2:
            for one in reversed(waiting):
                answer(one, text("both " + json.dumps(one["params"]["arguments"], sort_keys=True)))
        return
    answer(request, text("fine " + json.dumps(arguments)))


waiting, seen = [], []
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CONTENTS = {
    "nul": text("a\0b"),
    "image": {"content": [{"type": "image", "mimeType": "image/png", "data": PNG},
                          {"type": "image", "mimeType": "image/png", "data": PNG}]},
    "bad-image": {"content": [{"type": "image", "mimeType": "image/png", "data": "%%%"}]},
    "odd-image": {"content": [{"type": "image", "mimeType": "image/x\x1bodd", "data": PNG}]},
    "audio": {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]},
    "resource": {"content": [{"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "inside"}},
                             {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}}]},
    "link": {"content": [{"type": "resource_link", "uri": "file:///c", "name": "cee", "description": "third"}]},
    "unknown": {"content": [{"type": "hologram"}, {"type": 7}, 9, None]},
    "no-list": {"content": "text"},
    "nothing": {},
    "long": text("x" * (3 << 20)),
    "many": {"content": [{"type": "text", "text": "y" * 1000}] * 5000},
    "long-nul": text("\0" * (1 << 20)),
    "data": {"content": [], "structuredContent": {"n": 5}},
    "bad-data": {"content": [], "structuredContent": {"n": "five"}},
    "no-data": text("only text"),
    "array-data": {"content": [{"type": "text", "text": "t"}], "structuredContent": [1, 2]},
}
N = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def tool(name, **more):
    return {"name": name, "description": f"The tool {name}.", "inputSchema": EMPTY, **more}


def deep(levels):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


tools = [tool("go")]
if kind == "contents":
    tools = [tool(name, **({"outputSchema": N} if name in ("data", "bad-data", "no-data") else {})) for name in CONTENTS]
if kind == "wait":
    tools = [tool("go", annotations={"readOnlyHint": True}), tool("record", annotations={"readOnlyHint": True})]
if kind == "names":
    tools = [tool("good"), tool("good"), tool("bad name"), tool(""), tool("x" * 129), tool("\x1b[31m"), tool("nul\0nul"),
             {"description": "nameless", "inputSchema": EMPTY}, {"name": "schemaless"}, tool("list", inputSchema=[]),
             tool("string", inputSchema={"type": "string"}), tool("deep", inputSchema=deep(60)), 7, None,
             tool("wide", inputSchema={"type": "object", "description": "w" * 300000}),
             tool("sly", title="A\x07 title", description="line\x1b[2J one\nline two\u202e" + "z" * 30000),
             tool("loop", inputSchema={"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}),
             tool("odd-output", outputSchema={"type": "string"})]


def on_list(request):
    cursor = (request.get("params") or {}).get("cursor")
    if kind == "no-tools":
        return answer(request, {"oops": True})
    if kind == "pages":
        at = int(cursor or 0)
        page = {"tools": [tool(f"t{at}")]}
        return answer(request, {**page, "nextCursor": str(at + 1)} if at < 4 else page)
    if kind == "endless-pages":
        at = int(cursor or 0)
        return answer(request, {"tools": [tool(f"t{at}")], "nextCursor": str(at + 1)})
    if kind == "crowd":
        return answer(request, {"tools": [tool(f"t{i}") for i in range(1500)]})
    if kind == "list-hang":
        return None
    return answer(request, {"tools": tools})


def on_initialize(request):
    if kind == "mute":
        complain("nothing to say")
        time.sleep(1000)
    if kind == "refuse":
        return send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "no licence"}})
    version = "1999-12-31" if kind == "future" else request["params"]["protocolVersion"]
    if kind == "old":
        version = "2024-11-05"
    capabilities = {} if kind == "toolless" else {"tools": {"listChanged": True}}
    answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": kind, "version": "1"}})
    if kind == "deaf":
        time.sleep(1000)


def main():
    if kind == "stillborn":
        complain("cannot find my configuration")
        sys.exit(3)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "family" and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if kind == "noise":
        send("Welcome to my server!\n\n  listening on stdio")
    while True:
        request = read()
        seen.append(request)
        method = request.get("method")
        if method == "initialize":
            on_initialize(request)
        elif method == "tools/list":
            on_list(request)
        elif method == "tools/call":
            on_call(request)
        elif method == "notifications/cancelled" and kind == "hang":
            complain("cancelled " + str(request["params"]["requestId"]))


main()
