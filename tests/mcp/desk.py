"""A caller with configured MCP servers, and the door to several calls."""
import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Desk:
    """A caller with a workspace, a configuration and servers it can reach."""

    def __init__(self, box):
        self.box = box
        self.config = box.caller.folder(box.scratch, "config")
        box.env["XDG_CONFIG_HOME"] = str(self.config)
        box.env["XDG_STATE_HOME"] = str(box.caller.folder(box.scratch, "state"))
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

    def trust(self, *args):
        """`hutch trust`, of the workspace if nothing else is said."""
        done = self.box.hutch("trust", *(args or [self.box.workspace]))
        assert done.returncode == 0, done

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
