"""The client's side of WebSockets (RFC 6455), over a connection of the transport: whole messages, no extensions."""
from __future__ import annotations

import base64
import errno
import http.client
import os
import socket
import struct
import threading
from typing import Any, Mapping, Optional, Tuple, Union

from ._http import ServerUnreachable, Transport, problem_of

MESSAGE_MAX = 64 << 20  # bytes that the server may send as one message
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class WebSocketClosed(ServerUnreachable):
    """The connection has ended: `code` is the server's (1000: as it should; None: it broke)."""

    def __init__(self, code: Optional[int], why: str) -> None:
        super().__init__(errno.EPIPE, f"the connection was closed{f': {why}' if why else ''}")
        self.code = code


class WebSocket:
    """One thread may receive while another sends."""

    def __init__(self, transport: Transport, path: str, query: Optional[Mapping[str, Any]] = None, *,
                 timeout: Optional[float] = None) -> None:
        connection = transport.connect(timeout)
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}
        try:
            connection.request("GET", transport.target(path, query), headers=transport.headers(headers))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as failure:
            connection.close()
            raise ServerUnreachable(errno.EIO, f"cannot reach the server {transport.server}: {failure}") from failure
        if response.status != 101 or connection.sock is None:
            problem = problem_of(response)
            connection.close()
            raise problem
        self._connection, self._socket = connection, connection.sock
        self._socket.setblocking(False)
        self._pending = bytearray(response.fp.peek())  # of the first messages, perhaps
        self._socket.setblocking(True)
        self._sending = threading.Lock()
        self._closed = False

    def send(self, message: Union[str, bytes]) -> None:
        """A text or a binary message."""
        if isinstance(message, str):
            self._send(_TEXT, message.encode())
        else:
            self._send(_BINARY, bytes(message))

    def receive(self, timeout: Optional[float] = None) -> Union[str, bytes]:
        """The next message. TimeoutError if none begins within `timeout` seconds; WebSocketClosed."""
        parts, kind = b"", 0
        while True:
            final, code, payload = self._frame(timeout if not kind else None)
            if code == _PING:
                self._send(_PONG, payload)
            elif code == _CLOSE:
                number = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None
                self.close()
                raise WebSocketClosed(number, payload[2:].decode("utf-8", "replace"))
            elif code in (_TEXT, _BINARY, _CONTINUED):
                kind = kind or code
                parts += payload
                if len(parts) > MESSAGE_MAX:
                    raise self._broken("a message is too large")
                if final:
                    return parts.decode("utf-8", "replace") if kind == _TEXT else parts

    def close(self, code: int = 1000) -> None:
        """Ends the connection; a receive() of another thread gets WebSocketClosed."""
        if not self._closed:
            try:
                self._send(_CLOSE, struct.pack(">H", code))
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
            self._closed = True
            self._connection.close()

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- frames ---

    def _send(self, code: int, payload: bytes) -> None:
        n, mask = len(payload), os.urandom(4)
        if n < 126:
            head = struct.pack(">BB", 0x80 | code, 0x80 | n)
        elif n < 1 << 16:
            head = struct.pack(">BBH", 0x80 | code, 0x80 | 126, n)
        else:
            head = struct.pack(">BBQ", 0x80 | code, 0x80 | 127, n)
        key = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
        with self._sending:
            try:
                self._socket.sendall(head + mask + masked)
            except OSError as failure:
                raise WebSocketClosed(None, str(failure)) from failure

    def _frame(self, timeout: Optional[float]) -> Tuple[bool, int, bytes]:
        """The next frame. Nothing is taken before it is there as a whole, so a timeout loses nothing."""
        self._fill(2, timeout)
        first, second = self._pending[0], self._pending[1]
        n, head = second & 127, 2
        if n >= 126:
            head += 2 if n == 126 else 8
            self._fill(head, timeout)
            n = int.from_bytes(self._pending[2:head], "big")
        if n > MESSAGE_MAX or second & 128:
            raise self._broken("a message is too large" if n > MESSAGE_MAX else "the server masked a message")
        self._fill(head + n, timeout)
        payload = bytes(self._pending[head:head + n])
        del self._pending[:head + n]
        return bool(first & 128), first & 15, payload

    def _fill(self, n: int, timeout: Optional[float]) -> None:
        while len(self._pending) < n:
            try:
                self._socket.settimeout(timeout)
                data = self._socket.recv(1 << 18)
            except socket.timeout:
                raise TimeoutError("no message came in time") from None
            except OSError as failure:
                raise WebSocketClosed(None, str(failure)) from failure
            if not data:
                raise WebSocketClosed(None, "it broke")
            self._pending += data

    def _broken(self, why: str) -> WebSocketClosed:
        self.close(1002)
        return WebSocketClosed(None, why)
