"""A model server for tests: real HTTP/1.1 with keep-alive and chunked server-sent events, three protocols, faults.

    with ModelServer([Reply(call("bash", command="true")), Reply("Done.")]) as server:
        …  ANTHROPIC_BASE_URL=server.url   OPENAI_BASE_URL=server.url + "/v1"   key: server.key  …
        server.requests[1].result       what the model was told about the call
        server.check()                  no request broke a rule of its protocol; and
        server.check_growth()           each began with the bytes of the one before

The script (model_reply.py) is a list, handed out in order; or a function of the Request that returns a Reply, called
under no lock, so that it may wait. A request that breaks a rule (model_rules.py) is answered with status 400, as a strict
provider would; so is one that a function of the script does not expect (AssertionError). `by_answers` makes a script that depends on nothing but how long the conversation is, for several
conversations at once. What comes after the script's end gets status 404 and is a problem, too.
"""
import hashlib
import http.server
import json
import math
import re
import socket
import struct
import threading
import time

import model_rules
from model_protocols import PROTOCOLS, anthropic_block, request_of, responses_item
from model_reply import Reply, Request, Think

KEY = "key-of-the-tests"
DIMENSIONS = 64


def by_answers(replies):
    """The n-th reply for a conversation with n answers in it."""
    return lambda request: _resolve(replies[request.answers], request) if request.answers < len(replies) else None


def _resolve(reply, request):
    return reply(request) if callable(reply) else reply


def vector(text):
    """A deterministic vector: texts that share words are near each other."""
    sums = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        sums[digest[0] % DIMENSIONS] += 1.0 if digest[1] & 1 else -1.0
    norm = math.sqrt(sum(x * x for x in sums)) or 1.0
    return [x / norm for x in sums]


class Gone(Exception):
    """The connection ends here, by the script or by the client."""


def serialize(event, reply):
    name, body = event
    data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    lines = ([f"event: {name}"] if name else []) + [f"data: {data}"]
    return (reply.eol.join(lines) + reply.eol * 2).encode()


def stream_of(reply, request, protocol):
    """The pieces of a stream, in order."""
    events = list(protocol.events(reply, request))
    if reply.error is not None:
        events = events[:max(1, int(len(events) * reply.error))] + [protocol.error(reply.error_type, "scripted trouble")]
    pieces = []
    for event in events:
        pieces.append(serialize(event, reply))
        if reply.pings:
            pieces.append(f": a comment{reply.eol * 2}".encode())
            if protocol.name == "anthropic":
                pieces.append(serialize(("ping", {"type": "ping"}), reply))
                pieces.append(serialize(("novelty", {"type": "novelty", "x": 1}), reply))
    if reply.split:
        whole = b"".join(pieces)
        pieces = [whole[i:i + reply.split] for i in range(0, len(whole), reply.split)]
    return pieces


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/v1/models":
            return self.answer(200, {"object": "list", "data": [{"id": "scripted-1", "object": "model"}]})
        return self.answer(404, {"error": {"message": f"no {self.path}"}})

    def do_POST(self):
        arrived = time.monotonic()
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
            self.serve(raw, body, arrived)
        except (Gone, OSError):
            self.close_connection = True

    def serve(self, raw, body, arrived):
        server, headers = self.server.owner, {k.lower(): v for k, v in self.headers.items()}
        if self.path == "/v1/embeddings":
            return self.embed(body)
        if self.path == "/v1/messages/count_tokens":
            return self.answer(200, {"input_tokens": max(1, len(raw) // 4)})
        protocol = PROTOCOLS.get(self.path)
        if not protocol:
            return self.answer(404, {"error": {"type": "not_found_error", "message": f"no {self.path}"}})
        request, reply = server.take(protocol, raw, body, headers, arrived)
        if request.problems:
            return self.answer(400, protocol.error("invalid_request_error", "; ".join(request.problems))[1])
        if reply is None:
            return self.answer(404, protocol.error("not_found_error", "the script is at its end")[1])
        request.reply = reply
        try:
            self.give(reply, request, protocol)
        except OSError:
            request.broken = True
            raise

    def embed(self, body):
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.server.owner.embedded += texts
        data = [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(texts)]
        self.answer(200, {"object": "list", "model": body["model"], "data": data,
                          "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    def answer(self, status, body, headers=None):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def give(self, reply, request, protocol):
        if reply.drop == -1:
            self.reset()
        if reply.status != 200:
            headers = {**reply.headers, **({"retry-after": reply.retry_after} if reply.retry_after is not None else {})}
            body = reply.body or protocol.error("overloaded_error" if reply.status == 529 else "api_error", "scripted refusal")[1]
            return self.answer(reply.status, body, headers)
        if reply.whole or not request.body.get("stream"):
            return self.answer(200, protocol.whole(reply, request))
        self.stream(reply, stream_of(reply, request, protocol))

    def stream(self, reply, pieces):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        total, sent = sum(map(len, pieces)), 0
        for piece in pieces:
            if reply.drop is not None and sent >= total * reply.drop:
                self.reset()
            if reply.stall is not None and not reply.reached.is_set() and sent >= total * reply.stall:
                reply.reached.set()
                self.server.owner.wait(reply.released)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            sent += len(piece)
            if reply.pace:
                time.sleep(reply.pace)
        self.wfile.write(b"0\r\n\r\n")

    def reset(self):
        """Ends the connection as a crash would."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


class ModelServer:
    def __init__(self, script=(), key=KEY):
        self.key, self.requests, self.embedded, self.lock, self.closed = key, [], [], threading.Lock(), False
        self.script(script)
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.owner = self
        self.url = f"http://127.0.0.1:{self.listener.server_address[1]}"
        self.thread = threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def script(self, script):
        """What is answered from now on."""
        self.replies = script if callable(script) else list(script)

    def close(self):
        self.closed = True
        for request in self.requests:
            if request.reply:
                request.reply.release()
        self.listener.shutdown()
        self.listener.server_close()

    def wait(self, event):
        while not event.wait(0.2):
            if self.closed:
                raise Gone

    def take(self, protocol, raw, body, headers, arrived):
        """Notes a request and finds what to answer."""
        try:
            request = request_of(protocol, body, raw, headers)
            known = [r.reply for r in self.requests if r.reply]
            request.problems = model_rules.problems(protocol.name, body, headers, self.key, self.thoughts(protocol.name),
                                                    any(r.stop == "pause_turn" for r in known))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            request = Request(protocol.name, body, raw, headers)
            request.problems = [f"not understood: {error!r}"]
        request.arrived = arrived
        with self.lock:
            self.requests.append(request)
            reply = self.replies
            if not callable(reply) and not request.problems:
                reply = self.replies.pop(0) if self.replies else None
        try:
            reply = None if request.problems else _resolve(reply, request)
        except AssertionError as error:
            request.problems = [f"the script did not expect this: {error}"]
            return request, None
        if isinstance(reply, str):
            reply = Reply(reply)
        if reply is None and not request.problems:
            request.problems = [f"the script had nothing to answer after {request.answers} answers"]
            return request, None
        return request, reply

    def thoughts(self, api):
        """Every block of thinking that was sent, in the protocol's form."""
        form = (lambda b: responses_item(0, b)) if api == "responses" else anthropic_block
        blocks = [b for r in self.requests if r.reply for b in r.reply.blocks if isinstance(b, Think)]
        return [form(b) for b in blocks]

    @property
    def left(self):
        """How many replies of a list were not asked for."""
        return len(self.replies)

    def check(self):
        """No request broke a rule; and a list was used up."""
        wrong = [f"request {i} ({r.api}): {p}" for i, r in enumerate(self.requests) for p in r.problems]
        assert not wrong, "\n".join(wrong)
        assert callable(self.replies) or not self.replies, f"{self.left} replies were not asked for"

    def check_growth(self, requests=None):
        """Each request begins with the bytes of the one before it."""
        asked = requests or self.requests
        for i in range(1, len(asked)):
            differs = model_rules.grown(asked[i - 1].raw, asked[i].raw)
            assert not differs, f"request {i} does not go on from the one before: {differs}"
