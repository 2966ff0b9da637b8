"""MCP servers of the configuration: the official ones, and some that behave badly."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
NODE = shutil.which("node")


class Desk:
    """A caller with a workspace, a configuration and servers it can reach."""

    def __init__(self, box):
        self.box = box
        self.config = box.caller.folder(box.scratch, "config")
        box.env["XDG_CONFIG_HOME"] = str(self.config)
        self.box.caller.own(self._made(self.config / "hutch"))
        self.file = self.config / "hutch" / "config.json"
        self.script = box.workspace.parent / "strange_server.py"
        shutil.copy(HERE / "strange_server.py", self.script)
        self.script.chmod(0o755)

    @staticmethod
    def _made(path):
        path.mkdir()
        return path

    def configure(self, **config):
        self.file.write_text(json.dumps(config))
        self.box.caller.own(self.file)

    def strange(self, kind, *args, **more):
        """Makes the strange server of that kind the only one, named `s`."""
        self.configure(mcpServers={"s": {"command": "/usr/bin/python3", "args": [str(self.script), kind, *args],
                                         "timeout": 20, **more}})

    def tool(self, name, data=None, opts=(), **more):
        done = self.box.hutch("tool", "--json", "-w", self.box.workspace, *opts, name, json.dumps(data or {}), **more)
        assert done.stdout, done
        return json.loads(done.stdout)

    def list(self, opts=(), **more):
        done = self.box.hutch("tool", "--list", "--json", "-w", self.box.workspace, *opts, **more)
        assert done.returncode == 0, done
        return {t["name"]: t for t in json.loads(done.stdout)}, done.stderr

    def door(self):
        return Door(self.box)


class Door:
    """`hutch mcp`, for what needs several calls in one session."""

    def __init__(self, box):
        self.process = subprocess.Popen([*box.caller.prefix, str(box.program), "mcp", "-w", str(box.workspace)], env=box.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        self.last, self.answers, self.news = 0, {}, []
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method, params):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        return self.last

    def end(self, number):
        while number not in self.answers:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            message = json.loads(line)
            if "method" in message:
                self.news.append(message)
            else:
                self.answers[message["id"]] = message
        return self.answers.pop(number)

    def ask(self, method, params):
        return self.end(self.begin(method, params))

    def call(self, name, arguments=None, **more):
        answer = self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})
        if "error" in answer:
            return True, answer["error"]["message"]
        result = answer["result"]
        return bool(result.get("isError")), "".join(c.get("text", "") for c in result["content"])


@pytest.fixture
def desk(box):
    return Desk(box)


@pytest.fixture
def users(make_box):
    """For what does not depend on who asks."""
    return Desk(make_box("user"))


@pytest.fixture(scope="session")
def modules(scratch):
    """The official servers, where every caller can read them."""
    if not NODE or not (MODULES / "@modelcontextprotocol" / "server-everything").is_dir():
        pytest.skip("no node, or scripts/setup-node did not fetch tests/mcp/node_modules")
    if MODULES.stat().st_mode & 0o005 and all(p.stat().st_mode & 0o001 for p in MODULES.parents):
        return MODULES
    copy = Path(tempfile.mkdtemp(prefix="node-", dir=scratch)) / "node_modules"
    copy.parent.chmod(0o755)
    if subprocess.run(["cp", "-rl", str(MODULES), str(copy)], check=False, capture_output=True).returncode != 0:
        subprocess.run(["cp", "-r", str(MODULES), copy.parent], check=True)  # another filesystem: no links
    return copy


def everything(modules, *args):
    return [str(modules / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"), *args]


# --- the official servers ---------------------------------------------------------------------------------------------

def test_server_everything_on_stdio(desk, modules):
    desk.configure(mcpServers={"everything": {"command": "node", "args": everything(modules, "stdio")}})
    check_everything(desk)


def check_everything(desk):
    tools, said = desk.list()
    assert {"everything.echo", "everything.get-sum", "everything.get-structured-content", "plan"} <= set(tools) and said == ""
    assert tools["everything.echo"]["host_side"]
    assert desk.tool("everything.echo", {"message": "h\u00e9llo"})["text"] == "Echo: h\u00e9llo"
    assert "is 5" in desk.tool("everything.get-sum", {"a": 2, "b": 3})["text"]
    weather = desk.tool("everything.get-structured-content", {"location": "Chicago"})
    assert set(weather["data"]) == {"temperature", "conditions", "humidity"} and not weather["failed"]
    image = desk.tool("everything.get-tiny-image")
    assert image["image"]["mime"] == "image/png" and image["image"]["base64"].startswith("iVBORw0KGgo")
    assert "demo://resource" in desk.tool("everything.get-resource-links", {"count": 2})["text"]
    assert "[resource demo://" in desk.tool("everything.get-resource-reference", {"resourceType": "Text", "resourceId": 1})["text"]
    assert "Error" in desk.tool("everything.get-annotated-message", {"messageType": "error"})["text"]
    bad = desk.box.hutch("tool", "-w", desk.box.workspace, "everything.get-sum", '{"a": 1}')
    assert bad.returncode == 1 and "input.b: is missing" in bad.stderr
    with desk.door() as door:
        failed, text = door.call("everything.trigger-long-running-operation", {"duration": 1, "steps": 4}, _meta={"progressToken": "p"})
        assert not failed and "completed" in text
        assert any(n["method"] == "notifications/progress" and n["params"]["progressToken"] == "p" for n in door.news)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_server_everything_by_streamable_http(desk, modules):
    port = free_port()
    with tempfile.TemporaryFile("w+") as out:
        server = subprocess.Popen([NODE, *everything(modules, "streamableHttp")], env={**os.environ, "PORT": str(port)},
                                  stdout=out, stderr=subprocess.PIPE, text=True)
        try:
            for line in server.stderr:
                if "listening" in line:
                    break
            desk.configure(mcpServers={"everything": {"url": f"http://127.0.0.1:{port}/mcp"}})
            check_everything(desk)
        finally:
            server.kill()
            server.communicate()
        out.seek(0)
        log = out.read()
    assert log.count("Received session termination request") >= 9, "sessions are ended, not left"
    assert "Establishing new SSE stream" in log


def test_server_filesystem(desk, modules):
    desk.box.put("a.txt", "line one\nline two\n")
    program = modules / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    desk.configure(mcpServers={"fs": {"command": "node", "args": [str(program), str(desk.box.workspace)]}})
    tools, said = desk.list()
    assert tools["fs.read_text_file"]["reads_only"] and not tools["fs.write_file"]["reads_only"] and said == ""
    here = str(desk.box.workspace)
    assert desk.tool("fs.read_text_file", {"path": here + "/a.txt"})["data"]["content"] == "line one\nline two\n"
    assert not desk.tool("fs.write_file", {"path": here + "/b.txt", "content": "new"})["failed"]
    assert (desk.box.workspace / "b.txt").read_text() == "new", "it works on the host"
    outside = desk.tool("fs.read_text_file", {"path": "/etc/passwd"})
    assert outside["failed"] and "denied" in outside["text"]


# --- where a server runs ----------------------------------------------------------------------------------------------

def test_environment_and_whereabouts(desk):
    desk.strange("whereabouts", "a b", "${FROM_OUTSIDE}", "${UNSET:-a default}", env={"MY_VAR": "v-${FROM_OUTSIDE}"})
    data = desk.tool("s.go", env={"SECRET": "hidden", "FROM_OUTSIDE": "out", "LANG": "C.UTF-8"})["data"]
    assert data["argv"] == ["a b", "out", "a default"]
    assert data["env"]["MY_VAR"] == "v-out" and data["env"]["LANG"] == "C.UTF-8" and data["env"]["PATH"]
    assert "SECRET" not in data["env"] and "FROM_OUTSIDE" not in data["env"]
    assert data["cwd"] == str(desk.box.caller.home), "not the workspace: programs believe what lies where they start"
    assert data["group"] and data["fds"] == [0, 1, 2] and data["uid"] == desk.box.caller.uid
    assert not data["masked"]


def test_cwd_can_be_set(users):
    users.strange("whereabouts", cwd="/usr")
    assert users.tool("s.go")["data"]["cwd"] == "/usr"
    users.strange("whereabouts", cwd="/no/such/folder")
    assert "cannot enter its folder /no/such/folder" in users.tool("s.go")["text"]


def test_a_variable_that_is_not_set_is_told(users):
    users.strange("ok", env={"TOKEN": "${NO_SUCH_TOKEN}"})
    text = users.tool("s.go")["text"]
    assert "mcpServers.s.env: the variable ${NO_SUCH_TOKEN} is not set" in text


@pytest.mark.parametrize("command,said", [
    ("no-such-program-at-all", "there is no program 'no-such-program-at-all' in the PATH"),
    ("/no/such/program", "cannot start /no/such/program: No such file"),
    ("/etc/passwd", "cannot start /etc/passwd: Permission denied"),
])
def test_a_program_that_cannot_be_started(users, command, said):
    users.configure(mcpServers={"s": {"command": command}, "t": {"command": "/usr/bin/python3", "args": [str(users.script), "ok"]}})
    assert said in users.tool("s.go")["text"]
    tools, stderr = users.list()
    assert "t.go" in tools and said in stderr, "one that fails hides no other"


def test_a_server_is_not_started_for_other_tools(users):
    users.strange("stillborn")
    assert not users.tool("plan", {"items": []})["failed"]
    done = users.box.hutch("tool", "-w", users.box.workspace, "plan")
    assert done.returncode == 0 and done.stderr == ""


def test_disabled_and_wanted(users):
    users.strange("names", disabled=True)
    assert "disabled" in users.tool("s.good")["text"]
    assert users.list()[1] == ""
    users.strange("pages", tools=["t1", "t3", "t9"])
    tools, stderr = users.list()
    assert [t for t in tools if t.startswith("s.")] == ["s.t1", "s.t3"] and "'t9'" in stderr
    assert "no tool 't2'" in users.tool("s.t2")["text"]


def test_a_server_that_is_killed_takes_nothing_along(desk):
    """hutch killed in the middle of a call: the server ends with it (nothing_left_running sees that)."""
    desk.strange("hang")
    process = subprocess.Popen([*desk.box.caller.prefix, str(desk.box.program), "tool", "-w", str(desk.box.workspace), "s.go"],
                               env=desk.box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    def server():
        return [p for p in harness.descendants(process.pid) if "strange_server" in harness.describe(p)]
    harness.wait_until(server, what="the server runs")
    process.kill()
    process.communicate()


def test_interrupted(desk):
    desk.strange("hang")
    process = subprocess.Popen([*desk.box.caller.prefix, str(desk.box.program), "tool", "-w", str(desk.box.workspace), "s.go"],
                               env=desk.box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.wait_until(lambda: [p for p in harness.descendants(process.pid) if "strange_server" in harness.describe(p)])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


# --- what a server may do wrong ---------------------------------------------------------------------------------------

WRONG = [
    ("stillborn", {}, "ended (exit status 3); it said: cannot find my configuration"),
    ("mute", {"timeout": 0.5}, "did not answer within 0.5 seconds; it said: nothing to say"),
    ("refuse", {}, "answered with an error: no licence (code -32000)"),
    ("future", {}, "speaks protocol '1999-12-31'"),
    ("list-hang", {"timeout": 0.5}, "did not answer within 0.5 seconds"),
    ("no-tools", {}, "answered tools/list without tools"),
]


@pytest.mark.parametrize("kind,more,said", WRONG, ids=[w[0] for w in WRONG])
def test_a_start_that_fails(users, kind, more, said):
    users.strange(kind, **more)
    result = users.tool("s.go")
    assert result["failed"] and said in result["text"]
    tools, stderr = users.list()
    assert "plan" in tools and said in stderr and len(stderr.splitlines()) == 1


CALLS = [
    ("crash", {}, "ended (exit status 7); it said: something terrible happened"),
    ("segfault", {}, "was ended by SIGSEGV"),
    ("hang", {"timeout": 0.5}, "did not answer within 0.5 seconds; it said: thinking hard"),
    ("garbage", {}, "sent a malformed message: not JSON"),
    ("no-rpc", {}, "sent a malformed message: 'jsonrpc' must be"),
    ("flood", {}, "sent more than 67108864 bytes that answer nothing"),
    ("chatter", {}, "wrote more than 1000 lines that are no JSON"),
    ("pester", {}, "asks and does not read the answers"),
    ("giant", {}, "a message of more than 16777216 bytes"),
    ("endless-line", {}, "a message of more than 16777216 bytes"),
    ("wrong-id", {"timeout": 0.5}, "did not answer within 0.5 seconds"),
    ("close", {}, "closed its output"),
    ("error", {}, "answered with an error: no[31m such thing (code -32602)"),
    ("is-error", {}, "it went wrong"),
]


@pytest.mark.parametrize("kind,more,said", CALLS, ids=[c[0] for c in CALLS])
def test_a_call_that_fails(users, kind, more, said):
    users.strange(kind, **more)
    result = users.tool("s.go", timeout=60)
    assert result["failed"] and said in result["text"], result["text"][:500]


GOOD = [("noise", "fine {}"), ("twice", "first"), ("batch", "in a batch"), ("old", "fine {}"), ("stubborn", "fine {}"),
        ("family", "fine {}")]


@pytest.mark.parametrize("kind,said", GOOD, ids=[g[0] for g in GOOD])
def test_oddities_that_are_let_be(desk, kind, said):
    desk.strange(kind)
    assert desk.tool("s.go")["text"] == said


def test_one_that_does_not_read(users):
    users.strange("deaf", timeout=0.5)
    assert "did not answer within 0.5 seconds" in users.tool("s.go")["text"]


def test_one_without_tools(users):
    users.strange("toolless")
    tools, stderr = users.list()
    assert not [t for t in tools if t.startswith("s.")] and stderr == ""
    assert "has no tool 'go'" in users.tool("s.go")["text"]


def test_a_server_that_crashes_is_started_again_but_not_for_ever(users):
    users.strange("crash")
    with users.door() as door:
        for _ in range(4):
            failed, text = door.call("s.go")
            assert failed and "something terrible happened" in text
        failed, text = door.call("s.go")
        assert failed and "ended 4 times; it is not started again" in text
        failed, _ = door.call("plan", {})
        assert not failed, "hutch goes on"


def test_a_hung_call_is_cancelled_and_the_server_goes_on(users):
    users.strange("wait", timeout=20)
    with users.door() as door:
        number = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 1}})
        door.call("s.record")
        door.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        def told():
            return [m for m in json.loads(door.call("s.record")[1]) if m["method"] == "notifications/cancelled"]
        cancelled = harness.wait_until(told, what="the server is told")
        calls = [m for m in json.loads(door.call("s.record")[1]) if m.get("params", {}).get("name") == "go"]
        assert cancelled[0]["params"]["requestId"] == calls[0]["id"]


def test_calls_at_once_over_one_connection(users):
    """The server answers both when both are there, in the other order."""
    users.strange("wait")
    with users.door() as door:
        door.call("s.record")
        one = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 1}})
        two = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 2}})
        texts = [door.end(n)["result"]["content"][0]["text"] for n in (one, two)]
    assert texts == ['both {"a": 1}', 'both {"a": 2}']


def test_progress_is_passed_on_clean(users):
    users.strange("slow")
    with users.door() as door:
        assert door.call("s.go", _meta={"progressToken": 5}) == (False, "slow but fine")
        said = [n["params"].get("message") for n in door.news if n["method"] == "notifications/progress"]
    assert said and set(said) <= {"step 0", "step 1", "step 2"}


def test_what_a_server_asks_is_refused(users):
    users.strange("asks")
    said = json.loads(users.tool("s.go")["text"])
    assert said[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert [s["error"]["code"] for s in said[1:]] == [-32601] * 3 and [s["id"] for s in said] == [1, "r", 3, 4]


def test_tools_that_come_and_go(users):
    users.strange("changes")
    with users.door() as door:
        assert door.call("s.new")[0]
        assert door.call("s.go") == (False, "changed")
        assert door.call("s.new") == (False, "changed")
        names = [t["name"] for t in door.ask("tools/list", {})["result"]["tools"]]
        assert "s.go" in names and "s.new" not in names


def test_pages(users):
    users.strange("pages")
    assert [t for t in users.list()[0] if t.startswith("s.")] == [f"s.t{i}" for i in range(5)]
    users.strange("endless-pages")
    tools, stderr = users.list()
    assert len([t for t in tools if t.startswith("s.")]) == 100 and "behind 100 pages" in stderr
    users.strange("crowd")
    tools, stderr = users.list()
    assert len([t for t in tools if t.startswith("s.")]) == 1000 and "more than 1000 tools" in stderr


def test_names_and_schemas_are_judged(users):
    users.strange("names")
    tools, stderr = users.list()
    assert {t for t in tools if t.startswith("s.")} == {"s.good", "s.sly", "s.loop", "s.odd-output"}
    assert "a second tool 'good'" in stderr and "\x1b" not in stderr
    for name in ("schemaless", "list", "string", "deep", "wide"):
        assert f"'{name}'" in stderr, name
    sly = tools["s.sly"]
    assert sly["title"] == "A title" and sly["description"].startswith("line[2J one\nline twozz")
    assert len(sly["description"].encode()) <= (16 << 10) + 3
    assert "output_schema" not in tools["s.odd-output"]
    assert "too deep" in users.tool("s.loop", {"a": 1})["text"]


def test_contents(users):
    users.strange("contents")
    with users.door() as door:
        def text(name):
            return door.call("s." + name)
        assert text("nul") == (False, "a\u2400b")
        assert "image image/png" in text("bad-image")[1] and "\x1b" not in text("odd-image")[1]
        assert "[audio audio/wav, 4 bytes of base64, not shown]" in text("audio")[1]
        assert text("resource")[1] == "[resource file:///a text/plain]\ninside\n[resource file:///b , 4 bytes of base64, not shown]\n"
        assert text("link")[1] == "[link to resource file:///c: cee - third]\n"
        assert "hologram" in text("unknown")[1]
        assert text("no-list")[0] and "no list" in text("no-list")[1]
        assert text("nothing")[0] is False
        for name in ("long", "many", "long-nul"):
            failed, said = text(name)
            assert not failed and "left out" in said and len(said.encode()) <= 1 << 20, name
        assert text("bad-data")[0] and "output.n: must be of type integer" in text("bad-data")[1]
        assert text("no-data")[0]
    result = users.tool("s.data")
    assert result["data"] == {"n": 5} and json.loads(result["text"]) == {"n": 5}
    result = users.tool("s.image")
    assert result["image"]["base64"].startswith("iVBOR") and "not shown" in result["text"]
    assert users.tool("s.array-data")["data"] is None


# --- the configuration ------------------------------------------------------------------------------------------------

BROKEN = [
    ("{", "line 1, column 1"),
    ("", "line 1"),
    ("[]", "config: must be of type object"),
    ('{\n "mcpServers": {,}\n}', "line 2, column 17"),
    ('{"a": 1, "a": 2}', "duplicate object key"),
    ('{"mcpServers": []}', "config.mcpServers: must be of type object"),
    ('{"mcpServers": {"a": {}}}', 'config.mcpServers.a: needs "command"'),
    ('{"mcpServers": {"a": {"command": "x", "url": "https://x"}}}', "not both"),
    ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "config.mcpServers.a.args: must be of type array"),
    ('{"mcpServers": {"a": {"command": "x", "args": [1]}}}', "config.mcpServers.a.args[0]: must be of type string"),
    ('{"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}', "config.mcpServers.a.env.K: must be of type string"),
    ('{"mcpServers": {"a": {"command": "x", "timeout": -1}}}', "config.mcpServers.a.timeout:"),
    ('{"mcpServers": {"a b": {"command": "x"}}}', "config.mcpServers.a b:"),
    ('{"mcpServers": {"a": {"url": "https://x/sse", "type": "sse"}}}', "config.mcpServers.a.type: the old transport"),
    ('{"trusted": "/here"}', "config.trusted: must be of type array"),
    ('{"trusted": ["here"]}', "config.trusted[0]:"),
    ("\xff\xfe", "line 1"),
]


@pytest.mark.parametrize("text,said", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_configuration_is_one_clear_line(users, text, said):
    users.file.write_bytes(text.encode("latin-1"))
    users.box.caller.own(users.file)
    done = users.box.hutch("tool", "--list", "-w", users.box.workspace)
    assert done.returncode == 125 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"hutch: {users.file}: ") and said in done.stderr, done.stderr
    assert users.file.read_bytes() == text.encode("latin-1")


def test_unknown_members_are_let_be(users):
    users.configure(model="a/b", other={"deep": [1]}, mcpServers={})
    assert users.list()[1] == ""


@pytest.mark.parametrize("make,said", [
    (lambda f: f.mkdir(), "is no regular file"),
    (lambda f: os.mkfifo(f), "is no regular file"),
    (lambda f: (f.write_text("{}"), f.chmod(0o666)), "can be written by everybody"),
    (lambda f: f.write_bytes(b" " * ((1 << 20) + 1)), "is larger than 1048576 bytes"),
], ids=["folder", "fifo", "world-writable", "large"])
def test_a_configuration_that_is_not_believed(users, make, said):
    make(users.file)
    users.box.caller.own(users.file)
    done = users.box.hutch("tool", "--list", "-w", users.box.workspace)
    assert done.returncode == 125 and said in done.stderr, done


def test_somebody_elses_configuration(users):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    users.configure()
    os.chown(users.file, 12345, 12345)
    done = users.box.hutch("tool", "--list", "-w", users.box.workspace)
    assert done.returncode == 125 and "belongs to somebody else" in done.stderr


def plant(desk, config, proof="planted"):
    """A workspace whose configuration would start a program on the host."""
    folder = desk.box.workspace / ".hutch"
    folder.mkdir(exist_ok=True)
    desk.box.caller.own(folder)
    target = folder / "config.json"
    target.write_text(config if isinstance(config, str) else json.dumps(config))
    desk.box.caller.own(target)


def evil(desk):
    mark = desk.box.workspace.parent / f"{desk.box.workspace.name}-planted"
    return mark, {"mcpServers": {"evil": {"command": "/bin/sh", "args": ["-c", f"touch {mark}; sleep 1"]}}}


def test_a_workspace_starts_nothing_on_the_host(desk):
    mark, config = evil(desk)
    plant(desk, config)
    tools, stderr = desk.list()
    assert "not started (evil)" in stderr and f'"trusted": ["{desk.box.workspace}"]' in stderr and str(desk.file) in stderr
    assert len(stderr.splitlines()) == 1
    result = desk.tool("evil.go")
    assert result["failed"] and "not started" in result["text"]
    assert not mark.exists()


def test_a_trusted_workspace_does(desk):
    plant(desk, {"mcpServers": {"s": {"command": "/usr/bin/python3", "args": [str(desk.script), "ok"]}}})
    desk.configure(trusted=[str(desk.box.workspace)])
    assert desk.tool("s.go")["text"] == "fine {}"
    tools, stderr = desk.list()
    assert "s.go" in tools and stderr == ""


def test_trust_is_not_for_the_folder_above_or_beside(users):
    mark, config = evil(users)
    plant(users, config)
    users.configure(trusted=[str(users.box.workspace.parent), str(users.box.workspace) + "x", "/"])
    assert "not started" in users.list()[1] and not mark.exists()


def test_trust_is_for_what_was_there_before_the_box(users):
    """Code in the box of a trusted workspace writes itself a server; it must not be started."""
    mark, config = evil(users)
    users.configure(trusted=[str(users.box.workspace)])
    script = f"mkdir -p .hutch/tools; cat > .hutch/config.json <<'END'\n{json.dumps(config)}\nEND\n"
    tools = users.box.workspace / ".hutch"
    tools.mkdir()
    (tools / "tools").mkdir()
    (tools / "tools" / "w.json").write_text(json.dumps({"name": "w", "description": "d", "input_schema": {"type": "object"}}))
    (tools / "tools" / "w").write_text("#!/bin/sh\n" + script + "cat .hutch/config.json\n")
    (tools / "tools" / "w").chmod(0o755)
    for path in (tools, *tools.rglob("*")):
        users.box.caller.own(path)
    with users.door() as door:
        failed, text = door.call("w")
        assert not failed and "evil" in text
        names = [t["name"] for t in door.ask("tools/list", {})["result"]["tools"]]
        assert not any(n.startswith("evil") for n in names)
        door.ask("tools/call", {"name": "evil.go", "arguments": {}})
    assert not mark.exists()


def test_trust_does_not_reach_into_a_box_that_stays(users):
    mark, config = evil(users)
    plant(users, config)
    users.configure(trusted=[str(users.box.workspace)])
    box_id = users.box.hutch("box", "new", "-w", users.box.workspace).stdout.strip()
    try:
        done = users.box.hutch("tool", "--list", "--box", box_id)
        assert "not fresh" in done.stderr and not mark.exists()
        assert "not fresh" in users.box.hutch("tool", "--box", box_id, "evil.go").stderr and not mark.exists()
    finally:
        users.box.hutch("box", "rm", box_id)


def test_a_broken_workspace_configuration_is_told_and_ends_nothing(users):
    for text in ("{", json.dumps({"mcpServers": 5}), '{"mcpServers": {"\\u001b[31m": {"command": "x"}}}'):
        plant(users, text)
        tools, stderr = users.list()
        assert "plan" in tools and "the workspace's .hutch/config.json: " in stderr and "\x1b" not in stderr
    (users.box.workspace / ".hutch" / "config.json").unlink()
    os.mkfifo(users.box.workspace / ".hutch" / "config.json")
    assert "the workspace's .hutch/config.json: " in users.list()[1]
    (users.box.workspace / ".hutch" / "config.json").unlink()
    (users.box.workspace / ".hutch" / "config.json").symlink_to("/etc/passwd")
    assert "the workspace's .hutch/config.json: " in users.list()[1]
    (users.box.workspace / ".hutch" / "config.json").unlink()
    plant(users, " " * ((1 << 20) + 1))
    assert "is larger than" in users.list()[1]
