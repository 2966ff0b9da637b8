"""Boxes of a server."""
from __future__ import annotations

import errno
import json
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..box import Change, Result, ToolResult
from ..errors import HutchError
from ._http import ServerError, ServerUnreachable, Transport, quote
from ._websocket import WebSocket, WebSocketClosed
from .jobs import Jobs, PathLike, Seconds, time_text

CALL_TIMEOUT = 1200.0  # seconds: a command may take long


class ServerSnapshot(NamedTuple):
    """The files of a box, frozen."""

    id: str
    name: Optional[str]
    created_at: str


class Terminal:
    """A terminal in a box. It stays when the connection ends: `box.terminal(id=…)` attaches again, and gets its last megabyte
    first."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        first = json.loads(socket.receive(60.0))
        self.id = str(first["terminal"]["id"])
        self.exit: Optional[Dict[str, Any]] = None  # how its program ended

    def send(self, data: Union[str, bytes]) -> None:
        """What a person would type."""
        self._socket.send(data.encode() if isinstance(data, str) else data)

    def receive(self, timeout: Optional[float] = None) -> bytes:
        """What it printed; empty once it has ended. TimeoutError after `timeout` seconds."""
        try:
            while True:
                message = self._socket.receive(timeout)
                if isinstance(message, bytes):
                    return message
                self.exit = json.loads(message).get("exit", self.exit)
        except WebSocketClosed as closed:
            if closed.code == 1000:
                return b""
            raise

    def resize(self, cols: int, rows: int) -> None:
        self._socket.send(json.dumps({"resize": {"cols": cols, "rows": rows}}))

    def close(self) -> None:
        """Detaches from it."""
        self._socket.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ServerBox:
    """One box, as the server described it last. It ends with `close`, or when it was not used for its `ttl`."""

    def __init__(self, transport: Transport, data: Dict[str, Any]) -> None:
        self._transport = transport
        self.data = data

    def __repr__(self) -> str:
        return f"<hutch.client.ServerBox {self.id} {self.state}>"

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def state(self) -> str:
        """`scheduled`, `running`, or how it ended."""
        return str(self.data["state"])

    def refresh(self) -> ServerBox:
        self.data = self._json("GET")
        return self

    def live(self) -> Dict[str, Any]:
        """The limits, commands and terminals that it has now."""
        live: Dict[str, Any] = self._json("GET", "live")
        return live

    def set(self, **options: Any) -> Dict[str, Any]:
        """Changes net, memory, cpus, pids or timeout."""
        live: Dict[str, Any] = self._json("PATCH", value=options)
        return live

    # --- commands ---

    def exec(self, command: Union[str, Sequence[str]], *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
             stdin: Optional[str] = None, timeout: Optional[Seconds] = None, check: bool = False) -> Result:
        """Runs a command: a string for the shell, or a list of words. `check`: CommandFailed unless it ended with status 0."""
        result = Result._from(self._json("POST", "exec", value=_command(command, cwd, env, stdin, timeout)))
        return result.check() if check else result

    def stream(self, command: Union[str, Sequence[str]], *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
               stdin: Optional[str] = None, timeout: Optional[Seconds] = None) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """The same as events: ("output", {…}) while it runs, then ("result", {…})."""
        for event in self._transport.post_events(self._path("exec"), value={
                **_command(command, cwd, env, stdin, timeout), "stream": True}, timeout=CALL_TIMEOUT):
            if event.type == "error":
                raise ServerError(502, event.data)
            yield event.type, event.data
            if event.type == "result":
                return
        raise ServerUnreachable(errno.EPIPE, "the connection broke before the command ended")

    def tool(self, name: str, **input: Any) -> ToolResult:
        """Calls a tool of the table."""
        answer = self._json("POST", f"tools/{quote(name)}", value=input)
        return ToolResult(str(answer.get("text") or ""), answer.get("data"), bool(answer.get("failed")), answer.get("image"))

    def terminal(self, *, id: Optional[str] = None, command: Optional[str] = None, cwd: Optional[str] = None, cols: int = 80,
                 rows: int = 24, term: Optional[str] = None) -> Terminal:
        """A new terminal, or the one with that ID."""
        return Terminal(WebSocket(self._transport, self._path("terminal"), {
            "id": id, "command": command, "cwd": cwd, "cols": cols, "rows": rows, "term": term}))

    # --- files ---

    def read(self, path: str) -> bytes:
        """The content of a file in the workspace."""
        return self._transport.get(self._path("files/" + quote(path, slashes=True)), timeout=CALL_TIMEOUT)

    def write(self, path: str, data: Union[str, bytes], *, executable: bool = False) -> None:
        """Writes a file in one step."""
        self._transport.json("PUT", self._path("files/" + quote(path, slashes=True)), timeout=CALL_TIMEOUT,
                             body=data.encode() if isinstance(data, str) else data,
                             query={"executable": "true"} if executable else None)

    def list(self, folder: str = "") -> Dict[str, Any]:
        """What lies in a folder of the workspace."""
        path = quote(folder.rstrip("/"), slashes=True)
        listed: Dict[str, Any] = self._json("GET", f"files/{path}/" if path else "files")
        return listed

    def download(self, path: str, to: PathLike) -> None:
        """Writes a file of the workspace to a file here."""
        self._transport.download(self._path("files/" + quote(path, slashes=True)), to)

    def download_tar(self, to: PathLike, folder: str = "") -> None:
        """Writes a folder, or the whole workspace, to a tar here."""
        path = quote(folder.rstrip("/"), slashes=True)
        self._transport.download(self._path(f"files/{path}" if path else "files"), to, query={"format": "tar"})

    def diff(self, *, stat: bool = False) -> bytes:
        """The changes in git's format."""
        return self._transport.get(self._path("diff"), query={"stat": "true"} if stat else None, timeout=CALL_TIMEOUT)

    def changes(self) -> List[Change]:
        return [Change(one["path"], one["kind"]) for one in self._json("GET", "changes")["changes"]]

    # --- snapshots and forks ---

    def snapshot(self, name: Optional[str] = None) -> ServerSnapshot:
        return _snapshot(self._json("POST", "snapshots", value={} if name is None else {"name": name}))

    def snapshots(self) -> List[ServerSnapshot]:
        return [_snapshot(one) for one in self._json("GET", "snapshots")["snapshots"]]

    def restore(self, snapshot: Union[str, ServerSnapshot] = "s0") -> None:
        """Puts the files back; "s0" is the box's beginning."""
        self._json("POST", "restore", value={"snapshot": _snapshot_id(snapshot)})

    def fork(self, count: int = 1, *, snapshot: Union[str, ServerSnapshot, None] = None) -> List[ServerBox]:
        """New boxes with the same files."""
        value: Dict[str, Any] = {"count": count}
        if snapshot is not None:
            value["snapshot"] = _snapshot_id(snapshot)
        return [ServerBox(self._transport, one) for one in self._json("POST", "fork", value=value)["boxes"]]

    def close(self) -> None:
        """Ends the box."""
        try:
            self._json("DELETE")
        except ServerError as error:
            if error.status != 404:
                raise

    def __enter__(self) -> ServerBox:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    # --- inside ---

    def _path(self, below: str = "") -> str:
        return f"/v1/boxes/{quote(self.id)}" + ("/" + below if below else "")

    def _json(self, method: str, below: str = "", **more: Any) -> Any:
        return self._transport.json(method, self._path(below), timeout=CALL_TIMEOUT, **more)


class Boxes:
    """The boxes of a server."""

    def __init__(self, client: Jobs) -> None:
        self._client, self._transport = client, client.transport

    def new(self, *, title: Optional[str] = None, workspace: Any = None, ttl: Optional[Seconds] = None,
            labels: Optional[Mapping[str, str]] = None, **box: Any) -> ServerBox:
        """Opens a box. The workspace is given as to `Client.submit`; other options are those of `hutch run` (net, memory, …)."""
        body = {"title": title, "workspace": self._client._workspace(workspace), "ttl": time_text(ttl),
                "labels": None if labels is None else dict(labels), "box": box or None}
        data = self._transport.json("POST", "/v1/boxes", value={k: v for k, v in body.items() if v is not None},
                                    timeout=CALL_TIMEOUT)
        opened = ServerBox(self._transport, data)
        if opened.state in ("failed", "cancelled"):
            raise HutchError(5, f"box {opened.id} {opened.state}: {data.get('error') or 'no reason given'}")
        return opened

    def get(self, id: str) -> ServerBox:
        return ServerBox(self._transport, self._transport.json("GET", f"/v1/boxes/{quote(id)}"))

    def list(self, *, state: Optional[str] = None, label: Optional[str] = None) -> Iterator[ServerBox]:
        """The boxes, the newest first."""
        before = None
        while True:
            page = self._transport.json("GET", "/v1/boxes", query={"state": state, "label": label, "before": before, "limit": 100})
            for data in page["boxes"]:
                yield ServerBox(self._transport, data)
            before = page["next"]
            if not before:
                return


def _command(command: Union[str, Sequence[str]], cwd: Optional[str], env: Optional[Mapping[str, str]], stdin: Optional[str],
             timeout: Optional[Seconds]) -> Dict[str, Any]:
    given = {"command": command if isinstance(command, str) else list(command), "cwd": cwd,
             "env": None if env is None else dict(env), "stdin": stdin, "timeout": time_text(timeout)}
    return {name: value for name, value in given.items() if value is not None}


def _snapshot(data: Mapping[str, Any]) -> ServerSnapshot:
    return ServerSnapshot(data["id"], data.get("name"), data["created_at"])


def _snapshot_id(snapshot: Union[str, ServerSnapshot]) -> str:
    return snapshot if isinstance(snapshot, str) else snapshot.id
