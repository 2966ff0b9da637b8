"""MCP servers of the configuration: the official ones, and where a server runs."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest

MODULES = Path(__file__).resolve().parent / "node_modules"
NODE = shutil.which("node")


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
    process.communicate(timeout=300)
    assert process.returncode == 130
