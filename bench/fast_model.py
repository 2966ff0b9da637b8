"""A model server that costs next to nothing, so that what is measured is the client: Anthropic's Messages, as a stream.

It does not look into requests: the n-th of a run gets the n-th reply, whose bytes were made before. Times are taken when a
request has come to its end and when its reply has left.
"""
import contextlib
import json
import socket
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(body):
    return f"event: {body['type']}\ndata: {json.dumps(body)}\n\n".encode()


def stream(blocks, stop):
    """The events of an answer; each block is (its start, its deltas)."""
    usage = {"input_tokens": 1000, "output_tokens": 10}
    yield event({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted-1",
                                                      "content": [], "stop_reason": None, "usage": usage}})
    for i, (block, deltas) in enumerate(blocks):
        yield event({"type": "content_block_start", "index": i, "content_block": block})
        for delta in deltas:
            yield event({"type": "content_block_delta", "index": i, "delta": delta})
        yield event({"type": "content_block_stop", "index": i})
    yield event({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
    yield event({"type": "message_stop"})


def says(*pieces):
    return list(stream([({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces])], "end_turn"))


def calls(number, name, **given):
    start = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": json.dumps(given)}]
    return list(stream([({"type": "text", "text": ""}, [{"type": "text_delta", "text": f"Step {number}."}]), (start, deltas)],
                       "tool_use"))


class FastModel:
    """`replies` are lists of events; `pace` is events per second (0: all at once); `watch` is called with each request's number
    before it is answered."""

    def __init__(self, replies, pace=0, watch=None):
        self.replies = [list(r) if pace else [b"".join(r)] for r in replies]
        self.pace, self.watch, self.arrived, self.left = pace, watch, [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(ConnectionError):
            rest = self.take(connection, b"")
            while rest is not None:
                number = len(self.arrived)
                self.arrived.append(time.monotonic())
                if self.watch:
                    self.watch(number)
                self.give(connection, self.replies[min(number, len(self.replies) - 1)])
                self.left.append(time.monotonic())
                rest = self.take(connection, rest)

    @staticmethod
    def take(connection, got):
        """Reads one request; what came behind it, or None at the end."""
        while b"\r\n\r\n" not in got:
            more = connection.recv(1 << 20)
            if not more:
                return None
            got += more
        head, _, body = got.partition(b"\r\n\r\n")
        size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < size:
            more = connection.recv(1 << 20)
            if not more:
                return None
            body += more
        return body[size:]

    def give(self, connection, pieces):
        began = time.monotonic()
        chunks = [b"%x\r\n%s\r\n" % (len(p), p) for p in pieces]
        if not self.pace:
            return connection.sendall(HEAD + b"".join(chunks) + b"0\r\n\r\n")
        connection.sendall(HEAD)
        for i, chunk in enumerate(chunks):
            connection.sendall(chunk)
            ahead = began + i / self.pace - time.monotonic()
            if ahead > 0.001:
                time.sleep(ahead)
        return connection.sendall(b"0\r\n\r\n")

    def gaps(self):
        """Seconds between a reply's end and the next request's."""
        return [later - before for before, later in zip(self.left, self.arrived[1:])]
