"""The classes that environments are derived from where gymnasium is not installed. Their signatures are gymnasium's."""
from __future__ import annotations

import enum
from typing import Any, Dict, Generic, Optional, Tuple, TypeVar

from .spaces import random_generator

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
ArrayType = TypeVar("ArrayType")


class _Common:
    """What both kinds have. The generator of random numbers is seeded by reset(), or by chance when it is first asked for."""

    _np_random: Any = None
    _np_random_seed: Optional[int] = None

    def _seed(self, seed: Any) -> None:
        if seed is not None:
            self._np_random, self._np_random_seed = random_generator(seed)

    @property
    def unwrapped(self) -> Any:
        return self

    @property
    def np_random(self) -> Any:
        if self._np_random is None:
            self._np_random, self._np_random_seed = random_generator()
        return self._np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self._np_random, self._np_random_seed = value, -1

    @property
    def np_random_seed(self) -> int:
        if self._np_random_seed is None:
            self._np_random, self._np_random_seed = random_generator()
        assert self._np_random_seed is not None
        return self._np_random_seed


class Env(_Common, Generic[ObsType, ActType]):
    """gymnasium.Env as far as it says anything."""

    metadata: Dict[str, Any] = {"render_modes": []}
    render_mode: Optional[str] = None
    spec: Any = None
    action_space: Any
    observation_space: Any

    def step(self, action: ActType) -> Tuple[ObsType, float, bool, bool, Dict[str, Any]]:
        raise NotImplementedError

    def reset(self, *, seed: Optional[int] = None,
              options: Optional[Dict[str, Any]] = None) -> Tuple[ObsType, Dict[str, Any]]:
        self._seed(seed)
        return None, {}  # type: ignore[return-value]

    def render(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def has_wrapper_attr(self, name: str) -> bool:
        return hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        return getattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        if force or hasattr(self, name):
            setattr(self, name, value)
            return True
        return False

    def __str__(self) -> str:
        return f"<{type(self).__name__} instance>" if self.spec is None else f"<{type(self).__name__}<{self.spec.id}>>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> Any:
        self.close()
        return False


class VectorEnv(_Common, Generic[ObsType, ActType, ArrayType]):
    """gymnasium.vector.VectorEnv as far as it says anything."""

    metadata: Dict[str, Any] = {}
    spec: Any = None
    render_mode: Optional[str] = None
    closed: bool = False
    observation_space: Any
    action_space: Any
    single_observation_space: Any
    single_action_space: Any
    num_envs: int

    def reset(self, *, seed: Any = None, options: Optional[Dict[str, Any]] = None) -> Tuple[ObsType, Dict[str, Any]]:
        self._seed(seed)
        return None, {}  # type: ignore[return-value]

    def step(self, actions: ActType) -> Tuple[ObsType, ArrayType, ArrayType, ArrayType, Dict[str, Any]]:
        raise NotImplementedError

    def render(self) -> Any:
        raise NotImplementedError

    def close(self, **kwargs: Any) -> None:
        if self.closed:
            return
        self.close_extras(**kwargs)
        self.closed = True

    def close_extras(self, **kwargs: Any) -> None:
        pass

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_envs={self.num_envs})"


class AutoresetMode(enum.Enum):
    """When an environment whose episode has ended begins the next one: see vector.py."""

    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"
