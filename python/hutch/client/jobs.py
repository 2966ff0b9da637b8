"""Jobs of a server."""
from __future__ import annotations

import errno
import os
import subprocess
import tarfile
import tempfile
import time
import uuid
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import HutchError
from ._http import Event, ServerError, Transport, quote

ENDED = ("completed", "failed", "cancelled")
Seconds = Union[int, float, str]  # 30, 0.5, "10m"
PathLike = Union[str, "os.PathLike[str]"]


class JobFailed(HutchError):
    """A job that failed or was cancelled, where `check=True` asked for an exception. `job` has all of it."""

    def __init__(self, job: Job) -> None:
        super().__init__(errno.EIO, f"job {job.id} {job.state}: {job.error or job.exit_reason or 'no reason given'}")
        self.job = job


class Upload(NamedTuple):
    """An archive on the server, for the workspace of a job. It is removed after a day if no job names it."""

    id: str
    type: str
    size: int


class JobFile(NamedTuple):
    """An artifact of a job."""

    path: str
    size: int


class Job:
    """One job, as the server described it last: `data` has everything, `refresh` reads it again."""

    def __init__(self, transport: Transport, data: Dict[str, Any]) -> None:
        self._transport = transport
        self.data = data

    def __repr__(self) -> str:
        return f"<hutch.client.Job {self.id} {self.state} {self.title!r}>"

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def state(self) -> str:
        """`scheduled`, `running`, `completed`, `failed` or `cancelled`."""
        return str(self.data["state"])

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def title(self) -> str:
        return str(self.data.get("title") or "")

    @property
    def result(self) -> Any:
        """Of steps: a list with one {tool, failed, text, data, seconds} per step."""
        if "result" not in self.data:
            self.refresh()
        return self.data["result"]

    @property
    def error(self) -> Optional[str]:
        return self.data.get("error")

    @property
    def exit_reason(self) -> Optional[str]:
        return self.data.get("exit_reason")

    def refresh(self) -> Job:
        """Reads the job again."""
        self.data = self._transport.json("GET", self._path())
        return self

    def wait(self, timeout: Optional[float] = None, *, check: bool = False) -> Job:
        """Waits until the job has ended. TimeoutError after `timeout` seconds; `check`: JobFailed unless it completed."""
        if not self.ended:
            for _ in self.events(timeout=timeout):
                pass
            self.refresh()
        if check and self.state != "completed":
            raise JobFailed(self)
        return self

    def events(self, after: int = 0, *, follow: bool = True, timeout: Optional[float] = None) -> Iterator[Dict[str, Any]]:
        """The events behind number `after`. With `follow` until the job ends, across restarts of the server."""
        if follow:
            end = None if timeout is None else time.monotonic() + timeout
            for event in self._transport.events(self._path("events"), after=after, end=end):
                yield event.data
            return
        while True:
            page = self._transport.json("GET", self._path("events"), query={"after": after})
            yield from page["events"]
            if not page["events"]:
                return
            after = page["next"]

    def log(self) -> str:
        """agent.log: a line per action. Empty before the first."""
        return self._file("log").decode("utf-8", "replace")

    def memory(self) -> Any:
        """memory.json: actions and results; None before the first."""
        try:
            return self._transport.json("GET", self._path("memory"))
        except ServerError as error:
            if error.status == 404 and not self._is_gone():
                return None
            raise

    def diff(self) -> str:
        """The changes of the workspace in git's format; empty if there are none (yet)."""
        return self._file("diff").decode("utf-8", "surrogateescape")

    def files(self) -> List[JobFile]:
        """The artifacts."""
        listed = self._transport.json("GET", self._path("files"))
        return [JobFile(one["path"], one["size"]) for one in listed["files"]]

    def read(self, path: str) -> bytes:
        """The content of an artifact."""
        return self._transport.get(self._path("files/" + quote(path, slashes=True)))

    def download(self, path: str, to: PathLike) -> None:
        """Writes an artifact to a file here."""
        self._transport.download(self._path("files/" + quote(path, slashes=True)), to)

    def cancel(self) -> bool:
        """Cancels the job, whose processes are killed at once. False: it has ended in another way."""
        return bool(self._act("cancel")["done"])

    def remove(self) -> None:
        """Removes the job, which must have ended, with its files."""
        outcome = self._act("remove")
        if not outcome["done"]:
            raise HutchError(errno.EBUSY, outcome["error"])

    def repeat(self) -> Job:
        """A new job with the same content."""
        return Job(self._transport, self._transport.json("POST", self._path("repeat")))

    # --- inside ---

    def _path(self, below: str = "") -> str:
        return f"/v1/jobs/{quote(self.id)}" + ("/" + below if below else "")

    def _act(self, action: str) -> Mapping[str, Any]:
        answer = self._transport.json("POST", "/v1/jobs/actions", value={"action": action, "jobs": [self.id]},
                                      repeat=action == "cancel")
        outcome: Mapping[str, Any] = answer["results"][0]
        return outcome

    def _file(self, name: str) -> bytes:
        try:
            return self._transport.get(self._path(name))
        except ServerError as error:
            if error.status == 404 and not self._is_gone():
                return b""
            raise

    def _is_gone(self) -> bool:
        self.refresh()  # raises ServerError 404
        return False


class Jobs:
    """The part of a client that submits and reads jobs."""

    transport: Transport

    def submit(self, steps: Optional[Sequence[Union[str, Mapping[str, Any]]]] = None, *,
               goal: Union[str, Mapping[str, Any], None] = None, title: Optional[str] = None,
               workspace: Union[PathLike, Upload, Job, Mapping[str, Any], None] = None,
               box: Optional[Mapping[str, Any]] = None, artifacts: Sequence[str] = (),
               memory_from: Union[str, Job, None] = None, after: Sequence[Union[str, Job]] = (),
               priority: Optional[int] = None, max_attempts: Optional[int] = None, timeout: Optional[Seconds] = None,
               not_before: Optional[str] = None, keep: Optional[Seconds] = None,
               labels: Optional[Mapping[str, str]] = None, idempotency_key: Optional[str] = None) -> Job:
        """Submits a job: a list of steps, each {"tool": …, …} or a command as a string, or a goal for the agent.

        A workspace is a folder or an archive here (see `upload`), the URL of a git repository, an Upload, or a job, whose
        result it then begins with. The job is durable on the server when this returns. A submission that has to be repeated
        because a connection broke is still one job."""
        body: Dict[str, Any] = {
            "title": title, "goal": goal, "steps": None if steps is None else [_step(one) for one in steps],
            "workspace": self._workspace(workspace), "box": None if box is None else dict(box),
            "artifacts": list(artifacts) or None, "memory_from": _id(memory_from) if memory_from else None,
            "after": [_id(one) for one in after] or None, "priority": priority, "max_attempts": max_attempts,
            "timeout": time_text(timeout), "not_before": not_before, "keep": time_text(keep),
            "labels": None if labels is None else dict(labels)}
        data = self.transport.json("POST", "/v1/jobs", value={k: v for k, v in body.items() if v is not None},
                                   headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())})
        return Job(self.transport, data)

    def job(self, id: str) -> Job:
        """A job by its ID."""
        return Job(self.transport, self.transport.json("GET", f"/v1/jobs/{quote(id)}"))

    def jobs(self, *, state: Optional[str] = None, kind: Optional[str] = None, search: Optional[str] = None,
             label: Optional[str] = None, user: Optional[str] = None, limit: Optional[int] = None) -> Iterator[Job]:
        """The jobs, the newest first; at most `limit`. Several states are separated by commas."""
        before, left = None, limit
        while left is None or left > 0:
            page = self.transport.json("GET", "/v1/jobs", query={
                "state": state, "kind": kind, "search": search, "label": label, "user": user, "before": before,
                "limit": 100 if left is None else min(left, 100)})
            for data in page["jobs"]:
                yield Job(self.transport, data)
            before = page["next"]
            left = None if left is None else left - len(page["jobs"])
            if not before:
                return

    def upload(self, path: PathLike, *, everything: bool = False) -> Upload:
        """Uploads a tar or zip file, or a folder. Of a git repository that is what git does not ignore, without `.git`; and
        all files of any other folder, or with `everything`."""
        if not os.path.isdir(path):
            with open(path, "rb") as archive:
                return self._upload(archive)
        with tempfile.TemporaryFile() as packed:
            pack_folder(Path(path), packed, everything)
            return self._upload(packed)

    def _upload(self, archive: IO[bytes]) -> Upload:
        size = archive.seek(0, os.SEEK_END)
        answer = self.transport.json("POST", "/v1/uploads", body=archive, repeat=True, headers={
            "Content-Type": "application/octet-stream", "Content-Length": str(size)})
        return Upload(answer["id"], answer["type"], answer["size"])

    def _workspace(self, given: Union[PathLike, Upload, Job, Mapping[str, Any], None]) -> Optional[Mapping[str, Any]]:
        if given is None or isinstance(given, Mapping):
            return given
        if isinstance(given, Upload):
            return {"upload": given.id}
        if isinstance(given, Job):
            return {"job": given.id}
        if isinstance(given, str) and "://" in given:
            return {"git": given}
        return {"upload": self.upload(given).id}


def pack_folder(folder: Path, out: IO[bytes], everything: bool) -> None:
    """Writes a tar of a folder."""
    names = None if everything else _git_names(folder)
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names or sorted(os.listdir(folder)):
            if os.path.lexists(folder / name):
                tar.add(folder / name, arcname=name, filter=_without_git if names else _plain)


def _plain(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    """Files, folders and links, without their owners."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def _without_git(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    """The same for files of submodules, too, which git lists as a folder."""
    return None if os.path.basename(member.name) == ".git" else _plain(member)


def _git_names(folder: Path) -> Optional[List[str]]:
    """What git does not ignore; None or empty: not a repository (or ignored as a whole), or no git. The repository's settings
    run no program."""
    try:
        done = subprocess.run(["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others",
                               "--exclude-standard", "--deduplicate"], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return [os.fsdecode(name).rstrip("/") for name in done.stdout.split(b"\0") if name] if done.returncode == 0 else None


def _step(step: Union[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return {"tool": "shell", "command": step} if isinstance(step, str) else step


def _id(job: Union[str, Job]) -> str:
    return job if isinstance(job, str) else job.id


def time_text(value: Optional[Seconds]) -> Optional[str]:
    """A time as the server takes it."""
    return value if value is None or isinstance(value, str) else f"{round(value * 1000)}ms"
