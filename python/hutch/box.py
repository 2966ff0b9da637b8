"""Boxes: a sandbox with a workspace, commands and tools that run in it, snapshots and forks of it."""
from __future__ import annotations

import base64
import ctypes
import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from . import _library as lib
from ._handle import Handle, make
from ._interrupt import interruptible
from .errors import CommandFailed

__all__ = ["ApplyReport", "Box", "Change", "Result", "Snapshot", "ToolResult"]

Size = Union[int, str]  # bytes, or "512M"
Time = Union[int, float, str]  # seconds, or "250ms"
PathLike = Union[str, "os.PathLike[str]"]
Command = Union[str, Sequence[str]]
B = TypeVar("B", bound="Box")


@dataclass(frozen=True)
class Result:
    """How a command ended: the result object of `hutch run --json`.

    stdout and stderr are text in which bytes that are not UTF-8 are replaced; raw_stdout and raw_stderr are the bytes
    themselves. stdout_bytes and stderr_bytes say how many there were in all, when more came than the box keeps.
    """

    exit_code: int
    signal: Optional[str]
    timed_out: bool
    killed_by: Optional[str]
    raw_stdout: bytes = field(repr=False)
    raw_stderr: bytes = field(repr=False)
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool
    duration_ms: float
    cpu_ms: float
    max_rss: int
    stdout: str = field(default="", compare=False)
    stderr: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        """Whether the command ended with status 0."""
        return self.exit_code == 0

    def check(self) -> Result:
        """This result, or CommandFailed where the command did not end with status 0."""
        if self.ok:
            return self
        how = f"was stopped by the limit {self.killed_by}" if self.killed_by else f"ended with status {self.exit_code}"
        last = self.stderr.strip().rpartition("\n")[2]
        raise CommandFailed(0, f"the command {how}" + (f": {last}" if last else ""), self)

    @classmethod
    def _from(cls, data: Mapping[str, Any]) -> Result:
        out, err = _stream(data, "stdout"), _stream(data, "stderr")
        return cls(
            exit_code=int(data["exit_code"]), signal=data.get("signal"), timed_out=bool(data.get("timed_out")),
            killed_by=data.get("killed_by"), raw_stdout=out, raw_stderr=err,
            stdout_bytes=int(data.get("stdout_bytes", len(out))), stderr_bytes=int(data.get("stderr_bytes", len(err))),
            truncated=bool(data.get("truncated")), duration_ms=data.get("duration_ms", 0), cpu_ms=data.get("cpu_ms", 0),
            max_rss=int(data.get("max_rss") or 0), stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"))


def _stream(data: Mapping[str, Any], name: str) -> bytes:
    encoded = data.get(name + "_base64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return str(data.get(name) or "").encode("utf-8")


@dataclass(frozen=True)
class ToolResult:
    """What a tool answered: `text` as a model reads it, `data` the same as an object, `failed` whether it reports an error,
    `image` {"type", "data"} where there is one."""

    text: str
    data: Any
    failed: bool
    image: Optional[Dict[str, Any]] = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Change:
    """One path that differs from the workspace that the box was opened on; `kind` is added, modified or deleted."""

    path: str
    kind: str


@dataclass(frozen=True)
class ApplyReport:
    """What apply() did to the workspace: how many changes it wrote, which paths it left alone because they had changed there
    meanwhile, and which it refused to write; of each {"path", "why"}. And lines about commits that were delivered (docs/git.md)."""

    applied: int
    conflicts: List[Dict[str, str]]
    refused: List[Dict[str, str]]
    notes: List[str]


class Box(Handle):
    """A box: an isolated computer whose /workspace shows a folder of this machine.

        with hutch.Box(workspace="project") as box:
            print(box.exec("make test").stdout)
            print(box.diff().decode())

    The options are those of `hutch run`; a workspace of None is an empty one. By default the folder itself is never written
    to: changes stay in the box until apply(). Any number of threads may use one box at the same time. Every tool of the table
    is a method, too: box.read_file("README.md"), box.bash("make"), …; `hutch.tools()` lists them.
    """

    _what = "box"

    def __init__(self, workspace: Optional[PathLike] = os.curdir, *, mode: Optional[str] = None, net: Optional[str] = None,
                 memory: Optional[Size] = None, pids: Optional[int] = None, files: Optional[int] = None,
                 disk: Optional[Size] = None, cpus: Optional[float] = None, timeout: Optional[Time] = None,
                 cpu_time: Optional[Time] = None, output: Optional[Size] = None, env: Optional[Mapping[str, str]] = None,
                 ro: Optional[Iterable[PathLike]] = None, rw: Optional[Iterable[PathLike]] = None,
                 image: Optional[PathLike] = None) -> None:
        options = _given(
            mode=mode, net=net, memory=memory, pids=pids, files=files, disk=disk, cpus=cpus, timeout=timeout,
            cpu_time=cpu_time, output=output, env=None if env is None else dict(env), ro=_paths(ro), rw=_paths(rw),
            image=_path(image))
        options["workspace"] = _path(workspace)
        library = lib.library()
        make(library.hutch_box_open, _json(options), free=library.hutch_box_close, own=self._take)

    def _take(self, pointer: ctypes.c_void_p) -> None:
        library = lib.library()
        self._own(pointer, library.hutch_box_close, _interrupt)

    @classmethod
    def _forked(cls: Type[B], create: Callable[..., int], source: int) -> B:
        box = cls.__new__(cls)
        make(create, source, free=lib.library().hutch_box_close, own=box._take)
        return box

    def close(self) -> None:
        """Ends the box and all that runs in it. What was not applied is gone. Closing twice is fine."""
        self._close_handle()

    @property
    def closed(self) -> bool:
        return self._is_closed

    def __enter__(self: B) -> B:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' closed' if self.closed else ''}>"

    def exec(self, command: Command, *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
             timeout: Optional[Time] = None, cpu_time: Optional[Time] = None,
             stdin: Union[str, bytes, None] = None, check: bool = False) -> Result:
        """Runs one command to its end: a list of words, or a string for the shell. With `check` a status other than 0 is an
        exception. Ctrl-C ends the command, and leaves the box as it is."""
        options = _given(cwd=cwd, env=None if env is None else dict(env), timeout=timeout, cpu_time=cpu_time,
                         **_stdin(stdin))
        words = command if isinstance(command, str) else [str(word) for word in command]
        text = self._long(lib.library().hutch_box_exec, _json(words), _json(options))
        result = Result._from(json.loads(text))
        return result.check() if check else result

    def tool(self, tool_name: str, /, **input: Any) -> ToolResult:
        """Calls a tool of the table. A tool that fails says so in its result; an exception means that the call could not be
        made at all."""
        text = self._long(lib.library().hutch_box_tool, lib.as_bytes(tool_name, "the tool's name"), _json(input))
        answer = json.loads(text)
        return ToolResult(answer.get("text") or "", answer.get("data"), bool(answer.get("failed")), answer.get("image"))

    def _long(self, function: Callable[..., int], *arguments: bytes) -> bytes:
        """A call that may take long and that can be cancelled."""
        with self._use() as box:
            return interruptible(lambda: lib.call_text(function, box, *arguments), lambda: _interrupt(box))

    def changes(self) -> List[Change]:
        """What differs from the workspace, sorted by path."""
        with self._use() as box:
            listed = json.loads(lib.call_text(lib.library().hutch_box_changes, box))
        return [Change(one["path"], one["kind"]) for one in listed]

    def diff(self) -> bytes:
        """The same as a git diff. Bytes, because files are."""
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        with self._use() as box:
            try:
                lib.call(lib.library().hutch_box_diff, box, ctypes.byref(text), ctypes.byref(size))
                return ctypes.string_at(text, size.value) if text else b""
            finally:
                if text:
                    lib.library().hutch_free(text)

    def apply(self) -> ApplyReport:
        """Writes the changes to the workspace. What was changed there meanwhile is a conflict, and left alone."""
        with self._use() as box:
            report = json.loads(lib.call_text(lib.library().hutch_box_apply, box))
        return ApplyReport(int(report["applied"]), report["conflicts"], report["refused"], report["notes"])

    def snapshot(self) -> Snapshot:
        """The state of the box's files now, to fork boxes from. Processes are not part of it."""
        library = lib.library()
        shot = Snapshot.__new__(Snapshot)
        with self._use() as box:
            make(library.hutch_box_snapshot, box, free=library.hutch_snapshot_free, own=shot._take)
        return shot

    def fork(self: B) -> B:
        """A second box that starts from the files of this one."""
        with self._use() as box:
            return self._forked(lib.library().hutch_box_fork, box)

    def __getattr__(self, name: str) -> Callable[..., ToolResult]:
        """A tool's method, when the table was not known at import."""
        if not name.startswith("_"):
            from ._tools import add_methods

            if name in add_methods(Box):
                method: Callable[..., ToolResult] = getattr(self, name)
                return method
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}, and there is no tool of that name")


class Snapshot(Handle):
    """The frozen files of a box. Boxes forked from it start with them, and do not see each other."""

    _what = "snapshot"

    def __init__(self) -> None:
        raise TypeError("a snapshot is made by Box.snapshot()")

    def _take(self, pointer: ctypes.c_void_p) -> None:
        self._own(pointer, lib.library().hutch_snapshot_free)

    def fork(self) -> Box:
        with self._use() as snapshot:
            return Box._forked(lib.library().hutch_snapshot_fork, snapshot)

    def close(self) -> None:
        """Lets go of the files. Boxes forked from it are not touched."""
        self._close_handle()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _interrupt(box: int) -> None:
    """Ends what runs in the box."""
    lib.library().hutch_box_interrupt(box, None)


def _given(**options: Any) -> Dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value).encode("ascii")
    except TypeError as why:
        raise TypeError(f"this cannot be said in JSON: {why}") from None


def _path(path: Optional[PathLike]) -> Optional[str]:
    return None if path is None else os.path.abspath(os.fspath(path))


def _paths(paths: Optional[Iterable[PathLike]]) -> Optional[List[str]]:
    if paths is None:
        return None
    if isinstance(paths, str):
        raise TypeError("ro and rw are lists of folders")
    return [os.fspath(path) for path in paths]


def _stdin(data: Union[str, bytes, None]) -> Dict[str, str]:
    if data is None:
        return {}
    if isinstance(data, str):
        return {"stdin": data}
    try:
        return {"stdin": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"stdin_base64": base64.b64encode(data).decode("ascii")}
