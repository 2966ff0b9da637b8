"""Arenas: a task made ready, for any number of environments.

What an arena holds is worth sharing: the snapshot that episodes start from, boxes kept ready, the warm test runner, and what
is already known about states. Environments of the same task and options therefore share one, as long as one of them lives.
"""
from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from .. import _library as lib
from .._handle import Handle, make
from .._tools import tools as all_tools

__all__ = ["Arena", "tasks"]

PathLike = Union[str, "os.PathLike[str]"]


def tasks(folder: Optional[PathLike] = None, *, source: Optional[str] = None, repos: Optional[PathLike] = None,
          image: Optional[PathLike] = None) -> List[Dict[str, Any]]:
    """The tasks that came with hutch, those of a folder, or those of a source as Arena has it: name, title, language and more
    of each. What cannot be played here is left out."""
    where = json.dumps(_places(folder, source, repos, image)).encode()
    listed: List[Dict[str, Any]] = json.loads(lib.call_text(lib.library().hutch_tasks, where))
    return listed


@dataclass(frozen=True)
class _Facts:
    """What hutch_arena_info() says."""

    name: str
    title: str
    instruction: str
    actions: Tuple[str, ...]
    features: Tuple[int, ...]
    patches: int
    max_steps: int
    digest: str
    call_price: float
    second_price: float
    calls: Tuple[Dict[str, Any], ...]
    tools: Dict[str, Dict[str, Any]]


class Arena(Handle):
    """A task made ready.

        arena = hutch.gym.Arena("bugfix_1", clock="virtual")
        envs = [hutch.gym.CodingEnv(arena) for _ in range(4)]

    task: a name, or the path of a task's folder. tasks: the folder in which names are looked for. source: where else the task
    comes from ("quixbugs:DIR" and others, as `hutch gym --from`); repos: the folder of the repositories that such tasks name;
    image: the root filesystem of Harbor's tasks, a name or a folder.
    clock: "wall", or "virtual" for seconds that depend on nothing but the actions. cache: whether results that are known are
    used again. pool: boxes kept ready. max_steps: after how many steps an episode is truncated.
    """

    _what = "arena"

    def __init__(self, task: PathLike = "bugfix_1", *, tasks: Optional[PathLike] = None, source: Optional[str] = None,
                 repos: Optional[PathLike] = None, image: Optional[PathLike] = None, clock: str = "wall",
                 cache: bool = True, pool: Optional[int] = None, max_steps: Optional[int] = None) -> None:
        options = _options(tasks, source, repos, image, clock, cache, pool, max_steps)
        library = lib.library()
        name = lib.as_bytes(os.fspath(task), "the task's name")
        ear, mouth = os.pipe()  # Ctrl-C is passed on: the task's tests may be run
        try:
            make(library.hutch_arena_open, name, json.dumps({**options, "cancel": ear}).encode(),
                 free=library.hutch_arena_close, own=self._take, cancel=lambda: os.write(mouth, b"x"))
        finally:
            os.close(ear)
            os.close(mouth)
        with self._use() as arena:
            self._facts = _read_facts(json.loads(lib.call_text(library.hutch_arena_info, arena)))
        self.clock = clock

    def _take(self, pointer: ctypes.c_void_p) -> None:
        self._own(pointer, lib.library().hutch_arena_close)

    @property
    def name(self) -> str:
        return self._facts.name

    @property
    def title(self) -> str:
        return self._facts.title

    @property
    def instruction(self) -> str:
        """What the agent is told."""
        return self._facts.instruction

    @property
    def max_steps(self) -> int:
        """After how many steps an episode is truncated."""
        return self._facts.max_steps

    @property
    def action_names(self) -> Tuple[str, ...]:
        """What the numbers of the discrete view mean: "apply fix-sign", "run tests", … Empty where the task has no patches."""
        return self._facts.actions

    @property
    def action_calls(self) -> Tuple[Dict[str, Any], ...]:
        """The same as calls of tools: {"tool": NAME, …its input}."""
        return self._facts.calls

    @property
    def digest(self) -> str:
        """Two tasks with the same digest play the same."""
        return self._facts.digest

    @property
    def call_price(self) -> float:
        """What the reward is less by for each call,"""
        return self._facts.call_price

    @property
    def second_price(self) -> float:
        """and for each second."""
        return self._facts.second_price

    @property
    def feature_sizes(self) -> Tuple[int, ...]:
        """How many values each feature of the discrete view has."""
        return self._facts.features

    @property
    def patches(self) -> int:
        """How many patches the task has: the first so many actions and features are theirs."""
        return self._facts.patches

    @property
    def tools(self) -> Dict[str, Dict[str, Any]]:
        """The tools of an episode, and the schema of each one's input."""
        return self._facts.tools

    def close(self) -> None:
        """Lets go of the arena; it lives on until its last environment is closed."""
        self._close_handle()

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _places(tasks: Optional[PathLike], source: Optional[str], repos: Optional[PathLike],
            image: Optional[PathLike]) -> Dict[str, Any]:
    """Where tasks come from, as the library takes it."""
    named = None if image is None else os.fspath(image)
    places = {"tasks": None if tasks is None else os.path.abspath(os.fspath(tasks)), "from": source,
              "repos": None if repos is None else os.path.abspath(os.fspath(repos)),
              "image": os.path.abspath(named) if named is not None and "/" in named else named}
    return {name: place for name, place in places.items() if place is not None}


def _options(tasks: Optional[PathLike], source: Optional[str], repos: Optional[PathLike], image: Optional[PathLike],
             clock: str, cache: bool, pool: Optional[int], max_steps: Optional[int]) -> Dict[str, Any]:
    options = {**_places(tasks, source, repos, image), "clock": clock, "cache": bool(cache)}
    if pool is not None:
        options["pool"] = int(pool)
    if max_steps is not None:
        options["max_steps"] = int(max_steps)
    return options


def _read_facts(info: Dict[str, Any]) -> _Facts:
    schemas = {tool.name: tool.input_schema for tool in all_tools()}
    nothing: Dict[str, Any] = {"type": "object", "properties": {}}
    return _Facts(info["name"], info.get("title") or "", info.get("instruction") or "", tuple(info["actions"]),
                  tuple(info["features"]), int(info["patches"]), int(info["max_steps"]),
                  str(info["digest"]), float(info["call_price"]), float(info["second_price"]), tuple(info["calls"]),
                  {name: schemas.get(name, nothing) for name in info["tools"]})


_shared: "weakref.WeakValueDictionary[Tuple[Any, ...], Arena]" = weakref.WeakValueDictionary()
_sharing = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_sharing=threading.Lock()))


def shared_arena(task: PathLike, **options: Any) -> Arena:
    """The arena of that task and those options that this process has, or a new one."""
    name = os.fspath(task)
    name = os.path.abspath(name) if "/" in name else name
    key = (os.getpid(), name, os.environ.get("HUTCH_TASKS"), json.dumps(_options(**options), sort_keys=True))
    with _sharing:
        arena = _shared.get(key)
        if arena is None or arena._is_closed:
            arena = _shared[key] = Arena(name, **options)
        return arena
