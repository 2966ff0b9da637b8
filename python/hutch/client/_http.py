"""Requests to a hutch server over TCP, TLS or a unix socket: connections that are kept, retries, problems as exceptions,
server-sent events that reconnect.

A request that the server may receive twice (a GET, PUT or DELETE, or a POST with an idempotency key) is repeated while the
server cannot be reached, for `patience` seconds.
"""
from __future__ import annotations

import errno
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
from contextlib import contextmanager
from typing import IO, Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple, Union

from ..errors import HutchError

DEFAULT_SERVER = "http://127.0.0.1:8642"
TRANSIENT = (429, 502, 503, 504)
BACKOFF_MAX = 5.0  # seconds between two attempts
LINE_MAX = 4 << 20  # of an event
CHUNK = 1 << 20
SILENCE = 60.0  # seconds: the server sends a comment every 15 s, so a longer silence is a dead connection

Body = Union[bytes, IO[bytes], None]


class ServerError(HutchError):
    """The server's answer to a request was a problem: `status` and `type` are stable, `detail` is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        self.type = str(problem.get("type") or "").rsplit(":", 1)[-1]
        self.title = str(problem.get("title") or http.client.responses.get(status, "error"))
        self.detail = str(problem.get("detail") or self.title)
        self.request_id: Optional[str] = problem.get("request_id")
        code = {400: errno.EINVAL, 401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 409: errno.EBUSY,
                413: errno.EFBIG, 422: errno.EINVAL, 429: errno.EAGAIN, 507: errno.ENOSPC}.get(status, errno.EIO)
        super().__init__(code, self.detail)


class ServerUnreachable(HutchError):
    """The server could not be reached, or broke the connection, for longer than the client's patience."""


class Event(NamedTuple):
    """One server-sent event: `id` is None if it has none."""

    id: Optional[str]
    type: str
    data: Dict[str, Any]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Transport:
    """What the parts of a client share. Any thread may use it."""

    def __init__(self, server: Optional[str] = None, key: Optional[str] = None, *, timeout: float = 60.0, patience: float = 60.0,
                 context: Optional[ssl.SSLContext] = None) -> None:
        self.server = (server or os.environ.get("HUTCH_SERVER") or DEFAULT_SERVER).rstrip("/")
        self.timeout, self.patience = timeout, patience
        self._key = key if key is not None else os.environ.get("HUTCH_API_KEY") or None
        self._context = context
        self._free: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._url = urllib.parse.urlsplit(self.server)
        if self._url.scheme not in ("http", "https", "unix") or not (self._url.hostname or self._url.scheme == "unix"):
            raise ValueError(f"server: {self.server!r} must start with http://, https:// or unix:")
        if self._key and not self._key.isprintable():
            raise ValueError("key: it has characters that no key has")

    def close(self) -> None:
        """Closes the connections that are kept. The transport can still be used."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    # --- one request ---

    def connect(self, timeout: Optional[float] = None) -> http.client.HTTPConnection:
        """A new connection, not connected yet."""
        seconds = self.timeout if timeout is None else timeout
        if self._url.scheme == "unix":
            return _UnixConnection(self.server[len("unix:"):], seconds)
        host = self._url.hostname or ""
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, self._url.port, timeout=seconds)
        if self._context is None:
            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, self._url.port, timeout=seconds, context=self._context)

    def headers(self, more: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """The headers of every request."""
        headers = {"Accept": "application/json", "User-Agent": "hutch-python"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        headers.update(more or {})
        return headers

    def target(self, path: str, query: Optional[Mapping[str, Any]] = None) -> str:
        """A path and its query as the request line has them. The parts of the path are quoted already (`quote`)."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        prefix = "" if self._url.scheme == "unix" else self._url.path
        return prefix + path + ("?" + urllib.parse.urlencode(given) if given else "")

    @contextmanager
    def open(self, method: str, path: str, **more: Any) -> Iterator[http.client.HTTPResponse]:
        """Sends a request, as often as it takes, and yields the answer, whose status is below 400.

        Arguments: `query`, `value` (sent as JSON) or `body` (bytes, or a file), `headers`; `repeat`: may the server receive
        it twice (default: as the method promises)?"""
        with self._exchange(method, path, **more) as (_, response):
            yield response

    @contextmanager
    def _exchange(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, value: Any = None,
                  body: Body = None, headers: Optional[Mapping[str, str]] = None, repeat: Optional[bool] = None,
                  timeout: Optional[float] = None) -> Iterator[Tuple[http.client.HTTPConnection, http.client.HTTPResponse]]:
        sent = self.headers(headers)
        if value is not None:
            body = json.dumps(value).encode()
            sent["Content-Type"] = "application/json"
        if repeat is None:
            repeat = method != "POST" or "Idempotency-Key" in sent
        end, attempt = time.monotonic() + self.patience, 0
        while True:
            connection = self._take(timeout) if repeat else self.connect(timeout)
            try:
                if body is not None and not isinstance(body, bytes):
                    body.seek(0)
                try:
                    connection.request(method, self.target(path, query), body=body, headers=sent)
                except (BrokenPipeError, ConnectionResetError):
                    if body is None or connection.sock is None:
                        raise
                    # The server may have answered before it had the whole body: that it is too large, say.
                response = connection.getresponse()
                if response.status < 400:
                    break
                problem: Union[ServerError, ServerUnreachable] = problem_of(response)
                connection.close()
            except (OSError, http.client.HTTPException) as failure:
                connection.close()
                problem = ServerUnreachable(getattr(failure, "errno", None) or errno.EIO, self._unreachable(failure))
                if isinstance(failure, ssl.SSLCertVerificationError):
                    raise problem from failure
            except BaseException:
                connection.close()
                raise
            transient = isinstance(problem, ServerUnreachable) or problem.status in TRANSIENT
            delay = max(min(BACKOFF_MAX, 0.1 * 2 ** min(attempt, 10)) * (0.5 + random.random() / 2), _retry_after(problem))
            if not (repeat and transient) or time.monotonic() + delay > end:
                raise problem
            time.sleep(delay)
            attempt += 1
        try:
            yield connection, response
        finally:
            self._give(connection, response)

    def json(self, method: str, path: str, **more: Any) -> Any:
        """The answer to a request as JSON; None if it is empty. Arguments are those of `open`."""
        with self.open(method, path, **more) as response:
            text = self.read(response)
        return json.loads(text) if text else None

    def get(self, path: str, **more: Any) -> bytes:
        """What a GET answers with."""
        with self.open("GET", path, **more) as response:
            return self.read(response)

    def download(self, path: str, to: Union[str, os.PathLike[str]], **more: Any) -> None:
        """Writes what a GET answers with to a file."""
        with self.open("GET", path, **more) as response, open(to, "wb") as out:
            left = response.length
            while True:
                piece = self.read(response, CHUNK)
                left = None if left is None else left - len(piece)
                if not piece and left:
                    raise ServerUnreachable(errno.EIO, f"the answer of the server {self.server} broke off")
                if not piece:
                    return
                out.write(piece)

    def read(self, response: http.client.HTTPResponse, n: Optional[int] = None) -> bytes:
        """The whole body, or the next n bytes of it."""
        try:
            return response.read(n)
        except (OSError, http.client.HTTPException) as failure:
            raise ServerUnreachable(errno.EIO, self._unreachable(failure)) from failure

    # --- events ---

    def events(self, path: str, *, after: int = 0, query: Optional[Mapping[str, Any]] = None,
               end: Optional[float] = None) -> Iterator[Event]:
        """The events of a stream, over as many connections as it takes, until the server has no more (204). `end` is a time
        of the monotonic clock: TimeoutError."""
        last = str(after)
        while True:
            left = SILENCE if end is None else max(0.001, min(SILENCE, end - time.monotonic()))
            began = time.monotonic()
            with self._exchange("GET", path, query=query, timeout=left, headers={
                    "Accept": "text/event-stream", "Last-Event-ID": last}) as (connection, response):
                if response.status == 204:
                    return
                for event in _read_events(connection, response, end):
                    last = event.id or last
                    yield event
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("the job did not end in time")
            if time.monotonic() - began < 0.2:
                time.sleep(0.2)

    def post_events(self, path: str, *, value: Any, timeout: Optional[float] = None) -> Iterator[Event]:
        """The events that a POST answers with."""
        with self._exchange("POST", path, value=value, timeout=timeout, headers={
                "Accept": "text/event-stream"}) as (connection, response):
            yield from _read_events(connection, response, None)

    # --- inside ---

    def _take(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        with self._lock:
            connection = self._free.pop() if self._free else None
        if connection is None:
            return self.connect(timeout)
        if connection.sock is not None:
            connection.sock.settimeout(self.timeout if timeout is None else timeout)
        return connection

    def _give(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        """A connection whose answer was read to its end can be used again."""
        if response.isclosed() and connection.sock is not None:
            with self._lock:
                self._free.append(connection)
        else:
            response.close()
            connection.close()

    def _unreachable(self, failure: BaseException) -> str:
        why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        return f"cannot reach the server {self.server}: {why}"


def quote(part: str, *, slashes: bool = False) -> str:
    """A part of a path (with its slashes, if they separate folders)."""
    return urllib.parse.quote(part, safe="/" if slashes else "")


def problem_of(response: http.client.HTTPResponse) -> ServerError:
    """The problem that an answer is."""
    text = response.read(CHUNK)
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the server answered with status {response.status} ({response.reason})"}
    if "retry_after" not in problem and response.headers.get("Retry-After", "").isdigit():
        problem["retry_after"] = int(response.headers["Retry-After"])
    return ServerError(response.status, problem)


def _retry_after(problem: HutchError) -> float:
    seconds = problem.problem.get("retry_after") if isinstance(problem, ServerError) else None
    return min(float(seconds), 30.0) if isinstance(seconds, (int, float)) else 0.0


def _read_events(connection: http.client.HTTPConnection, response: http.client.HTTPResponse,
                 end: Optional[float]) -> Iterator[Event]:
    """The events of one connection; ends where the connection does, however that is, or at the time `end`."""
    fields: Dict[str, str] = {}
    while end is None or time.monotonic() < end:
        try:
            if end is not None and connection.sock is not None:
                connection.sock.settimeout(max(0.001, min(SILENCE, end - time.monotonic())))
            raw = response.readline(LINE_MAX)
        except (OSError, http.client.HTTPException):
            return
        if not raw.endswith(b"\n"):
            return
        name, _, value = raw.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data" and "data" in fields:
            fields["data"] += "\n" + value
        elif name:
            fields[name] = value
        elif not raw.startswith(b":"):
            if "data" in fields:
                yield Event(fields.get("id"), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
