"""Environments on a server: the discrete view of a task that a worker plays. The classes are Gymnasium's, as those of this
package that play here."""
from __future__ import annotations

import operator
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ..client import Client, ServerError
from ..client.gym import GymEnv, GymStep, GymTask
from ..errors import HutchError
from .base import (AutoresetMode, Discrete, Env, MultiDiscrete, VectorEnv, batch_infos, batch_space, booleans, draw_seed, floats,
                   integers, mask, random_generator)

__all__ = ["RemoteEnv", "RemoteVectorEnv"]


class _View:
    """Spaces and infos of a task."""

    def __init__(self, client: Client, task: str) -> None:
        self.task: GymTask = client.gym(task)
        self.names, self.patches = self.task.actions, int(self.task.data["patches"])
        if not self.names or not self.task.data["expected"]:
            raise ValueError(f"the task {task} has no discrete view: play it with Client.gym()")

    def spaces(self) -> Tuple[Any, Any]:
        return MultiDiscrete(list(self.task.feature_sizes)), Discrete(len(self.names))

    def action(self, action: Any) -> int:
        number = operator.index(action)
        if not 0 <= number < len(self.names):
            raise ValueError(f"there is no action {number}: they are 0 to {len(self.names) - 1}")
        return number

    def info(self, step: GymStep) -> Dict[str, Any]:
        known = [0 if place < self.patches and step.features[place] else 1 for place in range(len(self.names))]
        return {**step.info, "text": step.text, "failed": bool(step.observation.get("failed")),
                "data": step.observation.get("data"), "action_names": self.names, "action_mask": mask(known)}


class RemoteEnv(Env[Any, Any]):
    """One environment of a task.

        env = hutch.gym.RemoteEnv(hutch.Client(), "bugfix_1")
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    Observations and actions are those of CodingEnv with actions="discrete". HutchError: the server, or its worker, is gone; then
    reset() begins anew."""

    metadata: Dict[str, Any] = {"render_modes": []}

    def __init__(self, client: Client, task: str = "bugfix_1", *, clock: str = "wall") -> None:
        self._view = _View(client, task)
        self.observation_space, self.action_space = self._view.spaces()
        self._env = self._view.task.env(clock=clock)

    def reset(self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        super().reset(seed=seed)
        step = self._env.reset(draw_seed(self.np_random) if seed is None else seed)
        return integers(step.features), self._view.info(step)

    def step(self, action: Any) -> Tuple[Any, float, bool, bool, Dict[str, Any]]:
        step = self._env.step(self._view.action(action))
        return integers(step.features), step.reward, step.terminated, step.truncated, self._view.info(step)

    def render(self) -> None:
        return None

    def close(self) -> None:
        self._env.close()


class RemoteVectorEnv(VectorEnv[Any, Any, Any]):
    """num_envs environments of a task; a step of all is one request. The action after an episode's end begins the next episode
    (Gymnasium's NEXT_STEP mode). What a lost worker held begins anew, too: it is truncated, and infos["error"] says why."""

    metadata: Dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, client: Client, task: str = "bugfix_1", num_envs: int = 1, *, clock: str = "wall") -> None:
        self._view = _View(client, task)
        self.num_envs = int(num_envs)
        self.single_observation_space, self.single_action_space = self._view.spaces()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._envs = [self._view.task.env(clock=clock) for _ in range(self.num_envs)]
        self._seeds = [random_generator()[0] for _ in range(self.num_envs)]
        self._ended: List[bool] = [True] * self.num_envs

    def reset(self, *, seed: Union[int, Sequence[Optional[int]], None] = None,
              options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        """Begins an episode in every environment. A seed n means n, n+1, …; a list has one for each."""
        if isinstance(seed, int):
            self._np_random, self._np_random_seed = random_generator(seed)
            seed = [seed + place for place in range(self.num_envs)]
        seeds = list(seed) if seed is not None else [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        for place, given in enumerate(seeds):
            if given is not None:
                self._seeds[place] = random_generator(given)[0]
        observations, _, _, _, infos = self._play([self._begin(place, given) for place, given in enumerate(seeds)])
        if any(self._ended):
            raise HutchError(5, f"the environments cannot be reset: {infos['error'][self._ended.index(True)]}")
        return observations, infos

    def step(self, actions: Any) -> Tuple[Any, Any, Any, Any, Dict[str, Any]]:
        given = list(actions)
        if len(given) != self.num_envs:
            raise ValueError(f"{len(given)} actions for {self.num_envs} environments")
        return self._play([self._begin(place) if self._ended[place]
                           else self._view.task.step_item(self._envs[place], self._view.action(action))
                           for place, action in enumerate(given)])

    def render(self) -> None:
        return None

    def close_extras(self, **kwargs: Any) -> None:
        for env in self._envs:
            env.close()

    def _begin(self, place: int, seed: Optional[int] = None) -> Dict[str, Any]:
        drawn = draw_seed(self._seeds[place]) if seed is None else seed
        return {**self._view.task.reset_item(self._envs[place], drawn), "reset": True}

    def _play(self, items: List[Dict[str, Any]]) -> Tuple[Any, Any, Any, Any, Dict[str, Any]]:
        steps = [self._note(env, answer) for env, answer in zip(self._envs, self._view.task.play(items))]
        self._ended = [step.done for step in steps]
        return (integers([step.features for step in steps]), floats([step.reward for step in steps]),
                booleans([step.terminated for step in steps]), booleans([step.truncated for step in steps]),
                batch_infos({place: self._view.info(step) for place, step in enumerate(steps)}, self.num_envs))

    def _note(self, env: GymEnv, answer: Union[GymStep, ServerError]) -> GymStep:
        if isinstance(answer, GymStep):
            env.id = answer.env
            return answer
        if answer.type == "no-environment":
            env.id = None
        nothing = (0,) * len(self._view.task.feature_sizes)
        return GymStep(env.id or "", 0, {"text": str(answer), "failed": True}, 0.0, None, False, True, {"error": str(answer)}, nothing)
