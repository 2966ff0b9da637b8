"""Sessions of a server: conversations with an agent, each with a box."""
from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Type

from ..box import ToolResult
from ..errors import HutchError
from ._http import ServerError, Transport, quote
from .jobs import Jobs, PathLike, Seconds, time_text

CALL_TIMEOUT = 1200.0  # seconds: an operation may run a command or ask a model


class Session:
    """One session, as the server described it last.

        with client.sessions.new(workspace=".") as session:
            for event in session.send("make the tests pass"):
                print(event)
            print(session.diff())"""

    def __init__(self, transport: Transport, data: Dict[str, Any]) -> None:
        self._transport = transport
        self.data = data

    def __repr__(self) -> str:
        return f"<hutch.client.Session {self.id} {self.data.get('state')}>"

    @property
    def id(self) -> str:
        return str(self.data["id"])

    def refresh(self) -> Session:
        self.data = self._json("GET")
        return self

    def send(self, text: str, *, queue: bool = False) -> Iterator[Dict[str, Any]]:
        """Sends a message and yields the events of the turn, which ends with `done` or `error`. `queue`: wait for its turn while
        another message is answered."""
        value: Dict[str, Any] = {"text": text}
        if queue:
            value["queue"] = True
        for event in self._transport.post_events(self._path("messages"), value=value, timeout=CALL_TIMEOUT):
            yield event.data

    def ask(self, text: str) -> str:
        """Sends a message and returns what the agent said, once it is done."""
        said = []
        for event in self.send(text):
            if event.get("type") == "text":
                said.append(str(event.get("text") or ""))
            elif event.get("type") == "error" and not event.get("retrying"):
                raise HutchError(5, str(event.get("text") or "the turn failed"))
        return "".join(said)

    def messages(self) -> Iterator[Dict[str, Any]]:
        """The conversation so far."""
        start: Optional[int] = 0
        while start is not None:
            page = self._json("GET", "messages", query={"from": start})
            yield from page["items"]
            start = page["next"]

    def events(self, after: int = 0) -> Iterator[Dict[str, Any]]:
        """The events behind number `after`, until the session ends, across restarts of the server."""
        for event in self._transport.events(self._path("events"), after=after):
            yield event.data

    def state(self) -> Dict[str, Any]:
        """model, turns, usage, plan, busy, waiting, …"""
        state: Dict[str, Any] = self._json("GET", "state")
        return state

    def changes(self) -> Dict[str, Any]:
        """What was not applied yet: {"changes", "added", "deleted", "commits"}."""
        changes: Dict[str, Any] = self._json("GET", "changes")
        return changes

    def diff(self) -> str:
        """The same as a patch in git's format."""
        return self._transport.get(self._path("diff"), timeout=CALL_TIMEOUT).decode("utf-8", "surrogateescape")

    def undo(self, turns: int = 1) -> Dict[str, Any]:
        """Undoes the last turns with their files."""
        undone: Dict[str, Any] = self._json("POST", "undo", value={"turns": turns})
        return undone

    def fork(self, turn: Optional[int] = None, *, title: Optional[str] = None) -> Session:
        """A second session from the end of a turn (the last one)."""
        value = {name: given for name, given in (("turn", turn), ("title", title)) if given is not None}
        return Session(self._transport, self._json("POST", "fork", value=value))

    def apply(self, paths: Optional[Sequence[str]] = None, *, on_conflict: Optional[str] = None) -> Dict[str, Any]:
        """Applies the changes to the session's workspace on the server. `on_conflict`: report, mine, theirs or markers."""
        return self._apply("apply", paths, on_conflict)

    def sync(self, paths: Optional[Sequence[str]] = None, *, on_conflict: Optional[str] = None) -> Dict[str, Any]:
        """Brings what a fork applied to the workspace into the box."""
        return self._apply("sync", paths, on_conflict)

    def download_workspace(self, to: PathLike) -> None:
        """Writes the workspace, with what was applied, to a tar here."""
        self._transport.download(self._path("workspace"), to)

    def cancel(self) -> bool:
        """Interrupts what runs. False: nothing did."""
        return bool(self._json("POST", "cancel", value={})["cancelled"])

    def set_model(self, model: str) -> Dict[str, Any]:
        """Changes the model (PROVIDER/NAME)."""
        state: Dict[str, Any] = self._json("POST", "model", value={"model": model})
        return state

    def compact(self) -> Dict[str, Any]:
        """Summarises the conversation to make room."""
        state: Dict[str, Any] = self._json("POST", "compact", value={})
        return state

    def tools(self) -> List[Dict[str, Any]]:
        return list(self._json("GET", "tools")["tools"])

    def tool(self, name: str, **input: Any) -> ToolResult:
        """Calls a tool in the session's box."""
        answer = self._json("POST", f"tools/{quote(name)}", value=input)
        return ToolResult(str(answer.get("text") or ""), answer.get("data"), bool(answer.get("failed")), answer.get("image"))

    def close(self) -> None:
        """Ends the session and removes its box."""
        try:
            self._json("DELETE")
        except ServerError as error:
            if error.status != 404:
                raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    # --- inside ---

    def _path(self, below: str = "") -> str:
        return f"/v1/sessions/{quote(self.id)}" + ("/" + below if below else "")

    def _json(self, method: str, below: str = "", **more: Any) -> Any:
        return self._transport.json(method, self._path(below), timeout=CALL_TIMEOUT, **more)

    def _apply(self, op: str, paths: Optional[Sequence[str]], on_conflict: Optional[str]) -> Dict[str, Any]:
        value: Dict[str, Any] = {} if paths is None else {"paths": list(paths)}
        if on_conflict is not None:
            value["on_conflict"] = on_conflict
        report: Dict[str, Any] = self._json("POST", op, value=value)
        return report


class Sessions:
    """The sessions of a server."""

    def __init__(self, client: Jobs) -> None:
        self._client, self._transport = client, client.transport

    def new(self, *, title: Optional[str] = None, model: Optional[str] = None, system: Optional[str] = None,
            workspace: Any = None, box: Optional[Mapping[str, Any]] = None, max_turns: Optional[int] = None,
            max_tokens: Optional[int] = None, max_cost: Optional[float] = None, ttl: Optional[Seconds] = None,
            labels: Optional[Mapping[str, str]] = None) -> Session:
        """Begins a session. The workspace is given as to `Client.submit`."""
        body = {"title": title, "model": model, "system": system, "workspace": self._client._workspace(workspace),
                "box": None if box is None else dict(box), "max_turns": max_turns, "max_tokens": max_tokens,
                "max_cost": max_cost, "ttl": time_text(ttl), "labels": None if labels is None else dict(labels)}
        data = self._transport.json("POST", "/v1/sessions", value={k: v for k, v in body.items() if v is not None})
        return Session(self._transport, data)

    def get(self, id: str) -> Session:
        return Session(self._transport, self._transport.json("GET", f"/v1/sessions/{quote(id)}"))

    def list(self, *, state: Optional[str] = None, search: Optional[str] = None) -> Iterator[Session]:
        """The sessions, the newest first."""
        before = None
        while True:
            page = self._transport.json("GET", "/v1/sessions",
                                        query={"state": state, "search": search, "before": before, "limit": 100})
            for data in page["sessions"]:
                yield Session(self._transport, data)
            before = page["next"]
            if not before:
                return
