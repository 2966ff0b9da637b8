"""A small HTTP server with faults, for what is about connections: each request is answered by the next play.

A play is a function of (connection, request) that writes raw bytes; it returns True to keep the connection open.
"""
import json
import socket
import threading


class Request:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.path = lines[0].split(" ")[1]
        self.headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
        self.body = body

    def json(self):
        return json.loads(self.body)


class Faulty:
    """Answers with the plays in order; the last one again and again. `requests` and `connections` are counted."""

    def __init__(self, *plays, tls=None):
        self.plays, self.requests, self.connections, self.tls = list(plays), [], 0, tls
        self.lock = threading.Lock()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for conn in self.open:
                conn.close()

    def _accept(self):
        while not self.done.is_set():
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.connections += 1
                self.open.add(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _next(self, request):
        with self.lock:
            self.requests.append(request)
            return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]

    def _serve(self, conn):
        try:
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
            while (request := read_request(conn)) and self._next(request)(conn, request):
                pass
        except OSError:
            pass
        with self.lock:
            self.open.discard(conn)
        try:
            conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        conn.close()


def read_request(conn):
    data = b""
    while b"\r\n\r\n" not in data:
        more = conn.recv(65536)
        if not more:
            return None
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    length = int(next((line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0))
    while len(body) < length:
        more = conn.recv(65536)
        if not more:
            return None
        body += more
    return Request(head, body)


def event(name, **data):
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def opening():
    return event("message_start", message={"id": "m", "type": "message", "role": "assistant", "model": "fake-1", "content": [],
                                           "usage": {"input_tokens": 7, "output_tokens": 1}}) + \
        event("content_block_start", index=0, content_block={"type": "text", "text": ""})


def text(*pieces):
    return b"".join(event("content_block_delta", index=0, delta={"type": "text_delta", "text": p}) for p in pieces)


def closing(stop="end_turn"):
    return event("content_block_stop", index=0) + \
        event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 5}) + \
        event("message_stop")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def head(status=200, kind="text/event-stream", *more):
    lines = [f"HTTP/1.1 {status} X", *([f"Content-Type: {kind}"] if kind else []), *more]
    return "\r\n".join(lines).encode() + b"\r\n"


def whole(data, status=200, kind="text/event-stream", *more):
    """An answer with its length, that leaves the connection usable."""
    if isinstance(data, dict):
        data = json.dumps(data).encode()

    def play(conn, _):
        conn.sendall(head(status, kind, f"Content-Length: {len(data)}", *more) + b"\r\n" + data)
        return True
    return play


def chunked(*pieces, end=True, kind="text/event-stream"):
    """Pieces as chunks; without an end the connection breaks off behind them."""
    def play(conn, _):
        conn.sendall(head(200, kind, "Transfer-Encoding: chunked") + b"\r\n")
        for piece in pieces:
            conn.sendall(chunk(piece))
        if end:
            conn.sendall(b"0\r\n\r\n")
        return end
    return play


def answer(*pieces):
    return chunked(opening(), *(text(p) for p in pieces), closing())


def drop(conn, _):
    """Not a byte."""
    return False


def raw(data):
    def play(conn, _):
        conn.sendall(data)
        return False
    return play


def stalling(hold, *pieces):
    """Sends pieces, then is silent until the event `hold` is set."""
    def play(conn, _):
        conn.sendall(head(200, "text/event-stream", "Transfer-Encoding: chunked") + b"\r\n")
        for piece in pieces:
            conn.sendall(chunk(piece))
        hold.wait(60)
        return False
    return play
