"""CodingEnv: one task as an environment of Gymnasium's kind."""
from __future__ import annotations

import ctypes
import threading
from copy import deepcopy
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from .. import _library as lib
from .._handle import Handle, make
from .._interrupt import interruptible
from .arena import Arena, PathLike, shared_arena
from .base import Env, draw_seed
from .record import Recorder
from .view import Seen, View, printable

__all__ = ["CodingEnv"]


def _interrupt(env: int) -> None:
    lib.library().hutch_env_interrupt(env, None)


class CodingEnv(Handle, Env[Any, Any]):
    """Episodes of one task: a reset is a fork of a box, a step a tool call, the reward the pass rate of the tests at the end
    less a price for every call and second.

        env = hutch.gym.CodingEnv("bugfix_1")
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    actions="discrete" (where the task has patches): an action is a number, an observation the features: for each patch whether
    it is applied, the result of the last test run (0: none since the last change, else 1 + how many passed), for each file
    whether it was read. info["action_names"] says what the numbers mean, info["action_mask"] which patches are not applied yet.

    actions="tools": an action is {"tool": NAME, …input} or the same as JSON text, an observation is text.

    record: a folder to which each episode is written as a trajectory. The other options are Arena's. In either view info["text"] is what a model would read. One thread at a time: a second one
    waits.
    """

    metadata: Dict[str, Any] = {"render_modes": ["human", "ansi"], "render_fps": 4}
    _what = "environment"
    _recorder: Optional[Recorder] = None

    def __init__(self, task: Union[PathLike, Arena] = "bugfix_1", *, actions: Optional[str] = None,
                 render_mode: Optional[str] = None, tasks: Optional[PathLike] = None, source: Optional[str] = None,
                 repos: Optional[PathLike] = None, image: Optional[PathLike] = None, clock: str = "wall",
                 cache: bool = True, pool: Optional[int] = None, max_steps: Optional[int] = None,
                 record: Optional[PathLike] = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode is one of {self.metadata['render_modes']}, not {render_mode!r}")
        if not isinstance(task, Arena):
            task = shared_arena(task, tasks=tasks, source=source, repos=repos, image=image, clock=clock,
                                cache=cache, pool=pool, max_steps=max_steps)
        self._prepare(View(task, actions), render_mode)
        if record is not None:
            self._recorder = Recorder(record, task)
        library = lib.library()
        with task._use() as arena:
            make(library.hutch_env_open, arena, free=library.hutch_env_close, own=self._take)

    def _prepare(self, view: View, render_mode: Optional[str]) -> None:
        self._view = view
        self.render_mode = render_mode
        self.observation_space, self.action_space = view.spaces()
        self._lock = threading.Lock()
        self._frame: List[str] = []

    def _take(self, pointer: ctypes.c_void_p) -> None:
        self._own(pointer, lib.library().hutch_env_close, _interrupt)

    @property
    def arena(self) -> Arena:
        """The task made ready, which other environments may share."""
        return self._view.arena

    def reset(self, *, seed: Optional[int] = None,
              options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        """Begins an episode. The task itself is the same every time; the seed is that of np_random and of what is recorded.
        Without one, each episode's seed is drawn from np_random. There are no options."""
        super().reset(seed=seed)
        episode = draw_seed(self.np_random) if seed is None else seed
        episode &= (1 << 64) - 1
        seen = self._call(lib.library().hutch_env_reset, ctypes.c_uint64(episode))
        if self._recorder is not None:
            self._recorder.begin(episode, seen)
        if self.render_mode is not None:
            self._show("reset", seen)
        return seen.observation, seen.info

    def step(self, action: Any) -> Tuple[Any, float, bool, bool, Dict[str, Any]]:
        """One action. What a tool could not do is an observation; an exception is an action that is none, or a step before
        reset or after the end. KeyboardInterrupt ends what runs, and the episode: the next call is reset()."""
        call = self._view.read(action)
        library = lib.library()
        if call.tool is None:
            seen = self._call(library.hutch_env_act, call.number, known=library.hutch_env_act_known)
        else:
            seen = self._call(library.hutch_env_step, call.tool, call.input, known=library.hutch_env_step_known,
                              wrong=call.wrong)
        if self._recorder is not None:
            self._recorder.step(call, seen)
        if self.render_mode is not None:
            self._show(self._name(action), seen)
        return seen.observation, seen.reward, seen.terminated, seen.truncated, seen.info

    def _call(self, function: Callable[..., int], *arguments: Any, known: Optional[Callable[..., int]] = None,
              wrong: str = "") -> Seen:
        """A reset, or a step, which may take as long as tests do: Ctrl-C ends it (and its episode). Going through another thread for
        that takes as long as a step of which it is known what comes of it, so such a one is made right here."""
        step = lib.CStep()
        with self._use() as env, self._lock:
            if known is None:
                lib.call(function, env, *arguments, ctypes.byref(step))
            elif not lib.call_known(known, env, *arguments, ctypes.byref(step)):
                interruptible(lambda: lib.call(function, env, *arguments, ctypes.byref(step)), lambda: _interrupt(env))
            return self._view.show(step, wrong)

    def _name(self, action: Any) -> str:
        return self.arena.action_names[int(action)] if self._view.discrete else str(action)

    def fork(self) -> CodingEnv:
        """A second environment in the same state: the two go on independently."""
        other = type(self).__new__(type(self))
        other._prepare(self._view, self.render_mode)
        other.spec = self.spec
        other._np_random, other._np_random_seed = deepcopy(self._np_random), self._np_random_seed
        other._frame = list(self._frame)
        library = lib.library()
        with self._use() as env, self._lock:
            make(library.hutch_env_fork, env, free=library.hutch_env_close, own=other._take)
        if self._recorder is not None:
            other._recorder = self._recorder.fork()
        return other

    def render(self) -> Optional[str]:
        """With "ansi": the last action and what came of it, as text. With "human" every step prints that by itself."""
        return "\n".join(self._frame) if self.render_mode == "ansi" else None

    def _show(self, action: str, seen: Seen) -> None:
        ended = " terminated" if seen.terminated else " truncated" if seen.truncated else ""
        self._frame = [printable(f"> {action}"), printable(str(seen.info["text"])).rstrip("\n"),
                       f"reward {seen.reward:.4f}, calls {seen.info.get('calls', 0)}{ended}"]
        if self.render_mode == "human":
            print("\n".join(self._frame), flush=True)

    def close(self) -> None:
        """Ends the episode and its box; a step that another thread is in gets HutchError (ECANCELED). Closing twice is fine."""
        self._close_handle()
        if self._recorder is not None:
            self._recorder.close()
