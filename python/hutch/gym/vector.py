"""CodingVectorEnv: many environments of one task at once, on threads of the library.

Two ways to use it. In step with gymnasium.vector.VectorEnv: step(actions) gives every environment an action and waits for all.
As EnvPool does it: send(actions, env_ids) returns at once, recv(min) gives what is done, in the order in which it was done, so
that a slow environment holds up nobody.

An episode's end is followed by a reset. With NEXT_STEP, the default, the environment's next action is not carried out but
begins an episode, with reward 0. With SAME_STEP the step that ends an episode already returns the next one's first observation,
and the last one's is in infos["final_obs"]. With DISABLED it is for the caller to reset, with options={"reset_mask": …}.
"""
from __future__ import annotations

import ctypes
import errno
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

from .. import _library as lib
from .._handle import Handle, make
from ..errors import HutchError
from .arena import Arena, PathLike, shared_arena
from .base import (AutoresetMode, VectorEnv, batch_infos, batch_space, booleans, draw_seed, floats, integers, numbers,
                   random_generator)
from .record import Recorder
from .view import Call, Seen, View

__all__ = ["CodingVectorEnv"]

Batch = Tuple[Any, Any, Any, Any, Dict[str, Any]]
_SLICE_MS = 100  # how long a wait may last before Python hears a signal


class CodingVectorEnv(Handle, VectorEnv[Any, Any, Any]):
    """num_envs environments of one task.

        envs = hutch.gym.CodingVectorEnv("bugfix_1", num_envs=64)
        observations, infos = envs.reset(seed=1)
        observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

    threads: 0 for as many as processors. The other options are those of CodingEnv and Arena. An environment that cannot go on
    is truncated, infos["error"] says why, and its next action begins an episode; the others are not touched.
    """

    metadata: Dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
    _what = "vector environment"
    _recorders: Sequence[Recorder] = ()

    def __init__(self, task: Union[PathLike, Arena] = "bugfix_1", num_envs: int = 1, *, threads: int = 0,
                 autoreset_mode: Any = AutoresetMode.NEXT_STEP, actions: Optional[str] = None,
                 render_mode: Optional[str] = None, tasks: Optional[PathLike] = None, source: Optional[str] = None,
                 repos: Optional[PathLike] = None, image: Optional[PathLike] = None, clock: str = "wall",
                 cache: bool = True, pool: Optional[int] = None, max_steps: Optional[int] = None,
                 record: Optional[PathLike] = None) -> None:
        if render_mode is not None:
            raise ValueError("a vector environment does not render")
        if not isinstance(task, Arena):
            task = shared_arena(task, tasks=tasks, source=source, repos=repos, image=image, clock=clock,
                                cache=cache, pool=pool, max_steps=max_steps)
        self.num_envs = int(num_envs)
        self.autoreset_mode = autoreset_mode if isinstance(autoreset_mode, AutoresetMode) else AutoresetMode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self._view = View(task, actions)
        self.single_observation_space, self.single_action_space = self._view.spaces()
        library = lib.library()
        with task._use() as arena:
            make(library.hutch_vector_open, arena, self.num_envs, int(threads), 0, free=library.hutch_vector_close,
                 own=self._take)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seeds = [random_generator()[0] for _ in range(self.num_envs)]
        self._ended: Set[int] = set()  # by their last step
        self._begun: Set[int] = set()  # have had a reset
        self._busy: Dict[int, Call] = {}
        if record is not None:
            self._recorders = [Recorder(record, task) for _ in range(self.num_envs)]
        self._drawn = [0] * self.num_envs  # the seeds of the episodes under way
        self._kept: Dict[int, Seen] = {}  # received by a step_wait() that was interrupted
        self._last = [self._view.nothing() for _ in range(self.num_envs)]

    def _take(self, pointer: ctypes.c_void_p) -> None:
        self._own(pointer, lib.library().hutch_vector_close)

    @property
    def arena(self) -> Arena:
        """The task made ready, which other environments may share."""
        return self._view.arena

    # ---- all together, as Gymnasium has it ----

    def reset(self, *, seed: Union[int, Sequence[Optional[int]], None] = None,
              options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        """Begins an episode in every environment, or with options={"reset_mask": …} in some. A seed n means n, n+1, …; a list
        one for each. What is under way is ended, and dropped."""
        self._drain()
        seeds = self._spread(seed)
        chosen = self._chosen(options)
        self._begin(chosen, seeds)
        seen = self._collect(chosen)
        return self._observations(), batch_infos({env: seen[env].info for env in chosen}, self.num_envs)

    def step(self, actions: Any) -> Batch:
        """One action for each environment; waits for all of them."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """The first half of step()."""
        self._refuse_busy()
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended:
            raise HutchError(errno.EINVAL, f"environment {min(self._ended)} has ended its episode: reset it first")
        self.send(actions)

    def step_wait(self, timeout: Optional[float] = None) -> Batch:
        """The second half. After a timeout (TimeoutError) it can be called again."""
        seen = self._collect(range(self.num_envs), timeout)
        infos = {env: one.info for env, one in seen.items()}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._restart([env for env, one in seen.items() if one.terminated or one.truncated], infos)
        order = [seen[env] for env in range(self.num_envs)]
        return (self._observations(), floats([one.reward for one in order]), booleans([one.terminated for one in order]),
                booleans([one.truncated for one in order]), batch_infos(infos, self.num_envs))

    # ---- each on its own, as EnvPool has it ----

    def async_reset(self, seed: Union[int, Sequence[Optional[int]], None] = None) -> None:
        """Begins an episode in every environment; their first observations come from recv()."""
        self._drain()
        self._begin(range(self.num_envs), self._spread(seed))

    def send(self, actions: Any, env_ids: Optional[Iterable[int]] = None) -> None:
        """Gives each of these environments (all, by default) an action, and returns at once."""
        envs = list(range(self.num_envs)) if env_ids is None else [int(env) for env in env_ids]
        given = list(actions)
        if len(given) != len(envs):
            raise ValueError(f"{len(given)} actions for {len(envs)} environments")
        calls = {env: self._view.read(action) for env, action in zip(envs, given)}
        if len(calls) != len(envs):
            raise ValueError("an environment is named twice")
        for env in envs:
            if not 0 <= env < self.num_envs:
                raise ValueError(f"there is no environment {env}: they are 0 to {self.num_envs - 1}")
            if env not in self._begun:
                raise HutchError(errno.EINVAL, f"environment {env} was never reset")
        self._give([self._request(env, call) for env, call in calls.items()], calls)

    def recv(self, min: int = 1, max: Optional[int] = None, timeout: Optional[float] = None) -> Batch:
        """Waits for at least `min` results (fewer, if fewer are under way) and gives at most `max`, in the order in which they
        were done. infos["env_id"] says which environments they are of; all arrays are as long as that. After `timeout` seconds
        it gives what there is."""
        done = self._take_done(min, self.num_envs if max is None else max, timeout)
        seen = [one for _, one in done]
        infos = batch_infos({place: one.info for place, one in enumerate(seen)}, len(done))
        infos["env_id"], infos["_env_id"] = numbers([env for env, _ in done]), booleans([True] * len(done))
        return (self._stack([one.observation for one in seen]), floats([one.reward for one in seen]),
                booleans([one.terminated for one in seen]), booleans([one.truncated for one in seen]), infos)

    @property
    def pending(self) -> int:
        """How many environments are at work, or done and not received."""
        return len(self._busy)

    def render(self) -> None:
        return None

    def close_extras(self, **kwargs: Any) -> None:
        """Ends all environments, also those at work. A recv() or step() that another thread is in gets HutchError (EBADF)."""
        self._close_handle()
        for recorder in self._recorders:
            recorder.close()

    # ---- between here and the library ----

    def _spread(self, seed: Union[int, Sequence[Optional[int]], None]) -> List[Optional[int]]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            self._np_random, self._np_random_seed = random_generator(seed)
            return [seed + env for env in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments")
        return [None if one is None else int(one) for one in seed]

    def _chosen(self, options: Optional[Dict[str, Any]]) -> List[int]:
        chosen = (options or {}).get("reset_mask")
        if chosen is None:
            return list(range(self.num_envs))
        if len(chosen) != self.num_envs or not any(chosen):
            raise ValueError(f"reset_mask has {self.num_envs} truth values, and one of them is true")
        return [env for env in range(self.num_envs) if chosen[env]]

    def _begin(self, envs: Iterable[int], seeds: Sequence[Optional[int]]) -> None:
        requests = []
        for env in envs:
            seed = seeds[env]
            if seed is not None:
                self._seeds[env], _ = random_generator(seed)
            requests.append(self._reset_request(env, seed))
        self._give(requests, {request.env: Call() for request in requests})

    def _reset_request(self, env: int, seed: Optional[int] = None) -> lib.CAction:
        self._drawn[env] = draw_seed(self._seeds[env]) if seed is None else seed & (1 << 64) - 1
        return lib.CAction(env=env, reset=1, seed=self._drawn[env])

    def _request(self, env: int, call: Call) -> lib.CAction:
        if env in self._ended:
            return self._reset_request(env)
        return lib.CAction(env=env, action=call.number, tool=call.tool, input=call.input if call.tool else None)

    def _give(self, requests: List[lib.CAction], calls: Dict[int, Call]) -> None:
        array = (lib.CAction * len(requests))(*requests)
        with self._use() as vector:
            lib.call(lib.library().hutch_vector_send, vector, array, len(requests))
        self._busy.update(calls)
        self._begun.update(calls)

    def _take_done(self, least: int, most: int, timeout: Optional[float] = None) -> List[Tuple[int, Seen]]:
        """Waits in slices, so that Ctrl-C is heard. What was received is never lost: it is complete when this is interrupted."""
        least, most = min(least, len(self._busy)), min(most, len(self._busy))
        deadline = None if timeout is None else time.monotonic() + timeout
        done: List[Tuple[int, Seen]] = []
        while most:
            left = _SLICE_MS if deadline is None else max(0, min(_SLICE_MS, int(1000 * (deadline - time.monotonic()))))
            done += self._recv(max(least - len(done), 0), most - len(done), left)
            if len(done) >= least or (deadline is not None and time.monotonic() >= deadline):
                break
        return done

    def _recv(self, least: int, most: int, wait_ms: int) -> List[Tuple[int, Seen]]:
        steps = (lib.CStep * most)()
        with self._use() as vector:
            count = lib.call(lib.library().hutch_vector_recv, vector, least, most, wait_ms, steps)
            done = [(int(steps[place].env), self._note(steps[place])) for place in range(count)]
        for _, one in done:
            if isinstance(one, HutchError):
                raise one
        return [(env, one) for env, one in done if isinstance(one, Seen)]

    def _note(self, step: lib.CStep) -> Union[Seen, HutchError]:
        env = int(step.env)
        call = self._busy.pop(env)
        seen = self._broken(step) if step.code < 0 else self._view.show(step, "" if step.reset else call.wrong)
        if isinstance(seen, HutchError) or seen.terminated or seen.truncated:
            self._ended.add(env)
        else:
            self._ended.discard(env)
        self._last[env] = self._view.nothing() if isinstance(seen, HutchError) else seen.observation
        if self._recorders and isinstance(seen, Seen):
            self._record(env, call, seen, bool(step.reset))
        return seen

    def _record(self, env: int, call: Call, seen: Seen, reset: bool) -> None:
        if reset:
            self._recorders[env].begin(self._drawn[env], seen)
        else:
            self._recorders[env].step(call, seen)

    def _broken(self, step: lib.CStep) -> Union[Seen, HutchError]:
        """A step that the environment could not make ends its episode. Where not even a reset works, that is an exception: going
        on would try it forever."""
        why = (step.observation or b"").decode("utf-8", "replace")
        if step.reset:
            return HutchError(-step.code, f"environment {step.env} cannot be reset: {why}")
        info = self._view.info({}, [0] * len(self.arena.feature_sizes), why)
        return Seen(self._view.nothing(), 0.0, False, True, {**info, "error": why})

    def _collect(self, envs: Iterable[int], timeout: Optional[float] = None) -> Dict[int, Seen]:
        """The results of exactly these, which are all that is under way."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._busy:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._kept.update(self._take_done(1, len(self._busy), left))
            if self._busy and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{len(self._busy)} environments are still at work")
        seen, self._kept = self._kept, {}
        missing = set(envs) - set(seen)
        if missing:
            raise HutchError(errno.EINVAL, f"environment {min(missing)} was given nothing to do")
        return seen

    def _restart(self, ended: List[int], infos: Dict[int, Dict[str, Any]]) -> None:
        """SAME_STEP: what ended begins again at once."""
        if not ended:
            return
        last = {env: self._last[env] for env in ended}
        self._begin(ended, [None] * self.num_envs)
        for env, fresh in self._collect(ended).items():
            infos[env] = {**fresh.info, "final_obs": last[env], "final_info": infos[env]}

    def _drain(self) -> None:
        self._kept = {}
        if self._busy:
            with self._use() as vector:
                lib.call(lib.library().hutch_vector_interrupt, vector)
        while self._busy:
            self._take_done(len(self._busy), len(self._busy))

    def _refuse_busy(self) -> None:
        if self._busy:
            raise HutchError(errno.EBUSY, f"{len(self._busy)} environments are still at work: recv() or step_wait() first")

    def _observations(self) -> Any:
        return self._stack(self._last)

    def _stack(self, observations: List[Any]) -> Any:
        if not self._view.discrete:
            return tuple(observations)
        if observations and not isinstance(observations[0], tuple):
            return integers(observations)
        return tuple(observations)
