"""A client of `hutch mcp` that says exactly what a test wants, byte by byte if need be."""
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
PATIENCE = 30
LATEST_BEGUN = "2025-11-25"
STATELESS = "2026-07-28"
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", LATEST_BEGUN]


class Peer:
    """One `hutch mcp`, with its input and output."""

    def __init__(self, box, *options, workspace=True, env=None):
        where = ["-w", str(box.workspace)] if workspace else []
        command = [*box.caller.prefix, str(box.program), "mcp", *where, *map(str, options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**box.env, **(env or {})}, cwd="/")
        self.ids = itertools.count(1)
        self.incoming = queue.Queue()
        self.seen = []  # what came while something else was waited for
        self.stderr = b""
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._read, self._read_errors)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.incoming.put(line)
        self.incoming.put(None)

    def _read_errors(self):
        self.stderr = self.process.stderr.read()

    # Sending.

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages):
        self.send_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def start(self, method, params=None, id=None):
        """Sends a request and does not wait; returns its id."""
        id = next(self.ids) if id is None else id
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})})
        return id

    def start_call(self, tool, meta=None, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})})

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    # Receiving.

    def receive(self):
        """The next message, whatever it is."""
        try:
            line = self.incoming.get(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail(f"no message within {PATIENCE}s; so far: {self.seen[-5:]}")
        if line is None:
            pytest.fail(f"the server ended: {self.stderr!r}")
        assert line.endswith(b"\n"), line[-100:]
        return json.loads(line)

    def wait(self, *ids):
        """The answers to these requests, in that order. All else is put to `seen`."""
        answers = {message["id"]: message for message in self.seen if message.get("id") in ids}
        while len(answers) < len(ids):
            message = self.receive()
            self.seen.append(message)
            if isinstance(message, dict) and "method" not in message and message.get("id") in ids:
                answers[message["id"]] = message
        return [answers[id] for id in ids]

    def ask(self, method, params=None):
        """The whole answer to a request."""
        return self.wait(self.start(method, params))[0]

    def result(self, method, params=None):
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        """(code, message) of a request that must fail."""
        answer = self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]["code"], answer["error"]["message"]

    def call(self, tool, **arguments):
        """The result of a tool."""
        return self.wait(self.start_call(tool, **arguments))[0]["result"]

    def text(self, tool, **arguments):
        result = self.call(tool, **arguments)
        assert not result["isError"], result
        return result["content"][0]["text"]

    def notifications(self, method):
        return [m["params"] for m in self.seen if isinstance(m, dict) and m.get("method") == method]

    # The beginning and the end.

    def initialize(self, version=LATEST_BEGUN):
        result = self.result("initialize", {"protocolVersion": version, "capabilities": {},
                                            "clientInfo": {"name": "test", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def is_alive(self):
        return self.result("ping") == {}

    def close(self):
        """Ends the input and waits; (exit status, what came on stderr)."""
        self.process.stdin.close()
        return self.finish()

    def finish(self):
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail("the server does not end")
        for thread in self.threads:
            thread.join(PATIENCE)
        return self.process.returncode, self.stderr.decode()

    def rest(self):
        """What else came, after the end."""
        lines = []
        while (line := self.incoming.get(timeout=PATIENCE)) is not None:
            lines.append(json.loads(line))
        return lines

    def end(self):
        """For fixtures: no process stays, however the test went."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        for thread in self.threads:
            thread.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
