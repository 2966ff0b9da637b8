"""A `hutch serve` that a test starts as root or as an ordinary user, and clients for it: requests, events, WebSockets, and
raw bytes for what no client would send. Ports and folders are its own."""
import base64
import http.client
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path

import harness

WAIT = 90  # seconds; a loaded machine takes long


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def problem(self):
        """The last part of a problem's type."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        problem = self.json()
        assert problem["status"] == self.status and problem["title"] and problem["request_id"]
        return problem["type"].removeprefix("urn:hutch:problem:")

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


class Event:
    def __init__(self, id, type, data):
        self.id, self.type, self.data = id, type, data

    def json(self):
        return json.loads(self.data)


class Closed(Exception):
    """The WebSocket was closed with this code; 1006 without one."""

    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class WebSocket:
    def __init__(self, sock, rest=b""):
        self.sock, self.buffer = sock, rest

    def _read(self, n):
        while len(self.buffer) < n:
            data = self.sock.recv(65536)
            if not data:
                raise Closed(1006, "the connection ended")
            self.buffer += data
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def frame(self, opcode, data, final=True):
        """Sends one frame. 1: text, 2: binary, 8: close, 9: ping."""
        head = bytes([(0x80 if final else 0) | opcode])
        n = len(data)
        size = (bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536
                else b"\xff" + struct.pack(">Q", n))
        mask = os.urandom(4)
        key = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
        self.sock.sendall(head + size + mask + masked)

    def send(self, data):
        if isinstance(data, bytes):
            self.frame(2, data)
        else:
            self.frame(1, (data if isinstance(data, str) else json.dumps(data)).encode())

    def receive(self):
        """The next message: text as str, binary as bytes. Raises Closed."""
        parts, kind = [], None
        while True:
            first, size = self._read(2)
            n = size & 0x7F
            if n == 126:
                n, = struct.unpack(">H", self._read(2))
            elif n == 127:
                n, = struct.unpack(">Q", self._read(8))
            data, opcode = self._read(n), first & 15
            if opcode == 8:
                raise Closed(struct.unpack(">H", data[:2])[0] if data else 1005, data[2:].decode())
            if opcode == 9:
                self.frame(10, data)
            elif opcode != 10:
                kind = kind or opcode
                parts.append(data)
                if first & 0x80:
                    whole = b"".join(parts)
                    return whole.decode() if kind == 1 else whole

    def json(self):
        return json.loads(self.receive())

    def close(self, code=1000):
        try:
            self.frame(8, struct.pack(">H", code))
        except OSError:
            pass
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server:
    """Starts at once. `options` are those of `hutch serve`; the key is the one that the first start prints."""

    def __init__(self, box, *options, workers=0, data=None, env=None, listen="127.0.0.1:0", **popen):
        self.box, self.options, self.env, self.listen, self.popen = box, options, env or {}, listen, popen
        self.workers = workers
        self.data = Path(data or box.caller.folder(box.scratch, "data"))
        self.key = self.env.get("AGENT_API_KEY")
        self.process, self.log, self.context = None, [], None
        self.start()

    def start(self):
        command = [*self.box.caller.prefix, str(self.box.program), "serve", "--json", "--data", str(self.data), "--listen",
                   self.listen, "--workers", str(self.workers), *map(str, self.options)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**self.box.env, **self.env}, cwd="/", **self.popen)
        self.reader = threading.Thread(target=self._read_log, args=[self.process.stderr], daemon=True)
        self.reader.start()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(WAIT)
            self.reader.join(WAIT)
            self.process.stdout.close()
            raise RuntimeError("the server did not start: " + "\n".join(self.log))
        ready = json.loads(line)
        self.url, self.key = ready["url"], ready["key"] or self.key
        scheme, self.host, port = re.fullmatch(r"(https?)://(.*):(\d+)", ready["url"]).groups()
        self.tls, self.port = scheme == "https", int(port)

    def _read_log(self, stream):
        with stream:
            for line in stream:
                self.log.append(line.decode(errors="replace").rstrip("\n"))

    def requests_logged(self):
        """The lines of the log that are about requests."""
        lines = [json.loads(line) for line in list(self.log) if line.startswith("{")]
        return [line for line in lines if "method" in line]

    def stop(self):
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self):
        return self._end(signal.SIGKILL)

    def _end(self, which):
        if self.process.poll() is None:
            self.process.send_signal(which)
        status = self.process.wait(WAIT)
        self.reader.join(WAIT)
        self.process.stdout.close()
        return status

    def restart(self):
        """At the same address, with the same folder."""
        if self.process.poll() is None:
            self.kill()
        self.listen = f"127.0.0.1:{self.port}"
        self.start()

    # Clients.

    def connect(self, timeout=WAIT):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout)
        return self.context.wrap_socket(sock, server_hostname="localhost") if self.tls else sock

    def headers(self, key, more):
        key = self.key if key is True else key
        return {**({"X-API-Key": key} if key else {}), **(more or {})}

    def open(self, method, path, body=None, key=True, headers=None, timeout=WAIT):
        """The answer's beginning: an http.client response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.sock = self.connect(timeout)
        if body is not None and not isinstance(body, (bytes, str)) and not hasattr(body, "read"):
            body = json.dumps(body)
        connection.request(method, path, body, self.headers(key, headers))
        response = connection.getresponse()
        response.connection_of_test = connection  # lives as long
        return response

    def request(self, method, path, body=None, key=True, headers=None, timeout=WAIT):
        response = self.open(method, path, body, key, headers, timeout)
        try:
            return Answer(response, response.read())
        finally:
            response.close()
            response.connection_of_test.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, {} if body is None else body, **more)

    def put(self, path, body, **more):
        return self.request("PUT", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def events(self, path, method="GET", **more):
        """Server-sent events until the stream ends; comments are left out."""
        response = self.open(method, path, **more)
        try:
            if response.status != 200:
                raise AssertionError(repr(Answer(response, response.read())))
            fields = {}
            for line in response:
                line = line.decode().rstrip("\r\n")
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = fields[name] + "\n" + value if name == "data" and name in fields else value
                elif not line and "data" in fields:
                    yield Event(fields.get("id"), fields.get("event", "message"), fields["data"])
                    fields = {}
        finally:
            response.close()
            response.connection_of_test.close()

    def websocket(self, path, key=True, headers=None, timeout=WAIT):
        """A WebSocket; an Answer if the server refused the upgrade."""
        sock = self.connect(timeout)
        lines = {"Host": f"127.0.0.1:{self.port}", "Upgrade": "websocket", "Connection": "Upgrade",
                 "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
                 **self.headers(key, headers)}
        head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        sock.sendall(head.encode() + b"\r\n")
        response = http.client.HTTPResponse(sock)
        # http.client would read on behind the headers of an answer 101: they are read here.
        data = b""
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                raise Closed(1006, "the connection ended in the handshake")
            data += piece
        if data.startswith(b"HTTP/1.1 101"):
            response.close()
            return WebSocket(sock, data.split(b"\r\n\r\n", 1)[1])
        response.fp = _Replay(data, sock)
        response.begin()
        try:
            return Answer(response, response.read())
        finally:
            response.close()
            sock.close()

    def raw(self, data, timeout=WAIT, shut=False):
        """Sends bytes as they are; everything that comes back until the server closes (or nothing comes for a second after
        an answer)."""
        with self.connect(timeout) as sock:
            try:
                sock.sendall(data)
                if shut:
                    sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has answered and closed already
            answer = b""
            try:
                while True:
                    piece = sock.recv(65536)
                    if not piece:
                        return answer
                    answer += piece
                    sock.settimeout(2)
            except (TimeoutError, ConnectionResetError):
                return answer

    def new_key(self, name, role="user", user=None):
        done = self.box.hutch("key", "new", name, "--role", role, "--data", self.data, *(["--user", user] if user else []))
        assert done.returncode == 0, done
        return done.stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class _Replay:
    """A file that begins with bytes that were read already."""

    def __init__(self, data, sock):
        self.data, self.file = data, sock.makefile("rb")

    def readline(self, limit=-1):
        at = self.data.find(b"\n") + 1
        if at:
            line, self.data = self.data[:at], self.data[at:]
            return line
        line, self.data = self.data, b""
        return line + self.file.readline(limit)

    def read(self, n=-1):
        if n is None or n < 0:
            data, self.data = self.data, b""
            return data + self.file.read()
        data, self.data = self.data[:n], self.data[n:]
        return data + (self.file.read(n - len(data)) if len(data) < n else b"")

    def readinto(self, view):
        data = self.read(len(view))
        view[:len(data)] = data
        return len(data)

    def flush(self):
        pass

    def close(self):
        self.file.close()


def make_certificate(folder, name="localhost", stem="tls"):
    """(certificate, key), signed by itself."""
    cert, key = Path(folder, stem + ".crt"), Path(folder, stem + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=" + name, "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", str(key),
                    "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def trust(cert):
    context = ssl.create_default_context(cafile=str(cert))
    context.check_hostname = False
    return context


wait_until = harness.wait_until
