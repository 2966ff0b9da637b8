"""A client of a hutch server (`hutch serve`), with nothing but Python's standard library.

    from hutch import Client

    with Client() as client:                      # HUTCH_SERVER, HUTCH_API_KEY
        job = client.submit(["ls -la", {"tool": "python", "code": "print(6 * 7)"}])
        print(job.wait().state, job.result[1]["text"])
"""
from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Dict, Optional, Type

from ._http import Event, ServerError, ServerUnreachable, Transport
from .boxes import Boxes, ServerBox, ServerSnapshot, Terminal
from .gym import Gym, GymEnv, GymStep, GymTask
from .jobs import Job, JobFailed, JobFile, Jobs, Upload
from .sessions import Session, Sessions

__all__ = ["Boxes", "Client", "Event", "GymEnv", "GymStep", "GymTask", "Job", "JobFailed", "JobFile", "ServerBox", "ServerError",
           "ServerSnapshot", "ServerUnreachable", "Session", "Sessions", "Terminal", "Transport", "Upload"]


class Client(Jobs, Gym):
    """A server, and who asks it. `server` is http://…, https://… or unix:PATH (default: HUTCH_SERVER, else
    http://127.0.0.1:8642); `key` defaults to HUTCH_API_KEY. Any thread may use it.

    Requests that the server may receive twice are repeated while it cannot be reached, for `patience` seconds."""

    def __init__(self, server: Optional[str] = None, key: Optional[str] = None, *, timeout: float = 60.0,
                 patience: float = 60.0, context: Optional[ssl.SSLContext] = None) -> None:
        self.transport = Transport(server, key, timeout=timeout, patience=patience, context=context)
        self.boxes, self.sessions = Boxes(self), Sessions(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Jobs of this client can still be used; they connect again."""
        self.transport.close()

    def me(self) -> Dict[str, Any]:
        """Who the key belongs to: `user`, `role`, `limits`."""
        answer: Dict[str, Any] = self.transport.json("GET", "/v1/me")
        return answer
