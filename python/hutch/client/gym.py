"""The gym of a server: episodes that its workers play."""
from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..errors import HutchError
from ._http import ServerError, Transport, quote

Action = Union[int, Mapping[str, Any]]  # of the discrete view, or {"tool": NAME, …its input}
STEP_TIMEOUT = 1200.0  # seconds: a step may run tests
LIST_MAX = 256  # items in a request


class GymStep(NamedTuple):
    """What a step, or a reset (step 0), gave."""

    env: str
    step: int
    observation: Dict[str, Any]  # text, failed, data
    reward: float
    pass_rate: Optional[float]
    terminated: bool
    truncated: bool
    info: Dict[str, Any]
    features: Tuple[int, ...]  # of the discrete view; empty where the task has none

    @property
    def text(self) -> str:
        """What a model would read."""
        return str(self.observation.get("text") or "")

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


class GymEnv:
    """One environment: it plays episodes one after the other. It ends with `close`, or when the client is idle for long."""

    def __init__(self, task: GymTask, id: Optional[str], clock: str) -> None:
        self.task, self.id, self.clock = task, id, clock

    def __repr__(self) -> str:
        return f"<hutch.client.GymEnv {self.task.name} {self.id or 'not reset yet'}>"

    def reset(self, seed: Optional[int] = None) -> GymStep:
        """Begins an episode. An environment whose worker was lost is made anew."""
        try:
            step = self.task._post("reset", self.task.reset_item(self, seed))
        except ServerError as error:
            if error.type != "no-environment" or self.id is None:
                raise
            self.id = None
            step = self.task._post("reset", self.task.reset_item(self, seed))
        self.id = step.env
        return step

    def step(self, action: Action) -> GymStep:
        """One action. What a tool could not do is an observation, not an exception."""
        return self.task._post("step", self.task.step_item(self, action))

    def fork(self) -> GymEnv:
        """A second environment in the same state."""
        copy = self.task._json("POST", "fork", value={"env": self._name()})
        return GymEnv(self.task, str(copy["env"]), self.clock)

    def state(self) -> Dict[str, Any]:
        """The sums of the episode: calls, seconds, pass_rate, return, over, seed."""
        state: Dict[str, Any] = self.task._json("GET", "state", query={"env": self._name()})
        return state

    def close(self) -> None:
        if self.id is not None:
            name, self.id = self.id, None
            try:
                self.task._json("POST", "close", value={"env": name})
            except ServerError as error:
                if error.status != 404:
                    raise

    def __enter__(self) -> GymEnv:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def _name(self) -> str:
        if self.id is None:
            raise HutchError(22, "the environment was not reset; call reset first")
        return self.id


class GymTask:
    """A task of a server.

        task = client.gym("bugfix_1")
        with task.env(clock="virtual") as env:
            step = env.reset(seed=7)
            while not step.done:
                step = env.step({"tool": "submit"})

    For many episodes at once, `play` takes a list of what several environments are to do."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport, self.name = transport, name
        self._data: Optional[Dict[str, Any]] = None

    def __repr__(self) -> str:
        return f"<hutch.client.GymTask {self.name}>"

    @property
    def data(self) -> Dict[str, Any]:
        """What the server says of the task: title, instruction, actions, calls, features, tools, max_steps, …"""
        if self._data is None:
            self._data = self._json("GET")
        return self._data

    @property
    def instruction(self) -> str:
        return str(self.data["instruction"])

    @property
    def actions(self) -> Tuple[str, ...]:
        """What the numbers of the discrete view mean; empty where the task has no patches."""
        return tuple(self.data["actions"])

    @property
    def feature_sizes(self) -> Tuple[int, ...]:
        """How many values each feature of the discrete view has."""
        return tuple(self.data["features"])

    def env(self, id: Optional[str] = None, *, clock: str = "wall") -> GymEnv:
        """A new environment, made by its first reset; or the one with that ID."""
        if clock not in ("wall", "virtual"):
            raise ValueError(f"clock: must be wall or virtual, not {clock!r}")
        return GymEnv(self, id, clock)

    def envs(self) -> List[str]:
        """The IDs of the environments that there are."""
        try:
            return list(self._json("GET", "state")["environments"])
        except ServerError as error:
            if error.status == 404:
                return []
            raise

    def reset_item(self, env: GymEnv, seed: Optional[int] = None) -> Dict[str, Any]:
        """For `play`: begin an episode."""
        item: Dict[str, Any] = {"options": {"clock": env.clock}}
        if env.id is not None:
            item["env"] = env.id
        if seed is not None:
            item["seed"] = int(seed)
        return item

    def step_item(self, env: GymEnv, action: Action) -> Dict[str, Any]:
        """For `play`: one action."""
        return {"env": env._name(), "action": int(action) if not isinstance(action, Mapping) else dict(action)}

    def reset(self, envs: Sequence[GymEnv], seeds: Optional[Iterable[Optional[int]]] = None) -> List[Union[GymStep, ServerError]]:
        """Begins an episode in each of these environments, in one request (or several, if there are very many)."""
        given: List[Optional[int]] = [None] * len(envs) if seeds is None else list(seeds)
        if len(given) != len(envs):
            raise ValueError(f"{len(given)} seeds for {len(envs)} environments")
        answers = self.play([{**self.reset_item(env, seed), "reset": True} for env, seed in zip(envs, given)])
        for env, answer in zip(envs, answers):
            if isinstance(answer, GymStep):
                env.id = answer.env
        return answers

    def step(self, actions: Iterable[Tuple[GymEnv, Action]]) -> List[Union[GymStep, ServerError]]:
        """An action in each of these environments, which must differ."""
        return self.play([self.step_item(env, action) for env, action in actions])

    def play(self, items: Sequence[Mapping[str, Any]]) -> List[Union[GymStep, ServerError]]:
        """Steps, and resets (with reset: True), in different environments; played at the same time and answered in this
        order. What failed is an exception in its place."""
        answers: List[Union[GymStep, ServerError]] = []
        for at in range(0, len(items), LIST_MAX):
            answer = self._json("POST", "step", value={"steps": [dict(item) for item in items[at:at + LIST_MAX]]})
            answers += [_read(one) for one in answer["results"]]
        return answers

    def close(self) -> None:
        """Ends all environments of the task."""
        try:
            self._json("POST", "close", value={})
        except ServerError as error:
            if error.status != 404:
                raise

    # --- inside ---

    def _json(self, method: str, below: str = "", **more: Any) -> Any:
        path = f"/v1/gym/{quote(self.name)}" + ("/" + below if below else "")
        return self._transport.json(method, path, timeout=STEP_TIMEOUT, **more)

    def _post(self, below: str, value: Mapping[str, Any]) -> GymStep:
        answer = _read(self._json("POST", below, value=value))
        assert isinstance(answer, GymStep)
        return answer


def _read(answer: Mapping[str, Any]) -> Union[GymStep, ServerError]:
    if "error" in answer:
        return ServerError(int(answer["error"]["status"]), answer["error"])
    return GymStep(answer["env"], answer["step"], answer["observation"], answer["reward"], answer["pass_rate"],
                   answer["terminated"], answer["truncated"], answer["info"], tuple(answer.get("features") or ()))


class Gym:
    """The part of a client that plays."""

    transport: Transport

    def gym(self, task: str) -> GymTask:
        """A task by its name."""
        return GymTask(self.transport, task)

    def gym_tasks(self) -> List[Dict[str, Any]]:
        """The tasks that the server has: name, title, language, instruction, max_steps, patches, …"""
        return list(self.transport.json("GET", "/v1/gym")["tasks"])
