"""What the environments are derived from: gymnasium's classes where gymnasium (1.0 or newer) is installed, else classes of
the same shape (own.py, spaces.py). Type checkers see the latter: the signatures are the same.
"""
from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from . import spaces as own_spaces

try:
    import gymnasium
    import numpy

    HAVE_GYMNASIUM = int(str(getattr(gymnasium, "__version__", 0)).partition(".")[0]) >= 1
except ImportError:
    HAVE_GYMNASIUM = False


def random_generator(seed: Optional[int] = None) -> Tuple[Any, int]:
    """A generator of random numbers: numpy's where gymnasium is used, else Python's."""
    if HAVE_GYMNASIUM:
        from gymnasium.utils import seeding

        rng, used = seeding.np_random(seed)
        return rng, int(used)
    return own_spaces.random_generator(seed)


def draw_seed(rng: Any) -> int:
    """A seed for something else."""
    return rng.getrandbits(63) if isinstance(rng, random.Random) else int(rng.integers(0, 1 << 63))


if TYPE_CHECKING or not HAVE_GYMNASIUM:
    from .own import AutoresetMode, Env, VectorEnv
    from .spaces import Discrete, MultiDiscrete, Space, Text, batch_space
else:
    from gymnasium import Env
    from gymnasium.spaces import Discrete, MultiDiscrete, Space, Text
    from gymnasium.vector import VectorEnv
    from gymnasium.vector.utils import batch_space

    try:
        from gymnasium.vector import AutoresetMode
    except ImportError:  # 1.0
        from .own import AutoresetMode

__all__ = ["AutoresetMode", "Discrete", "Env", "HAVE_GYMNASIUM", "MultiDiscrete", "Space", "Text", "VectorEnv", "batch_infos",
           "batch_space", "booleans", "draw_seed", "floats", "integers", "mask", "numbers", "random_generator"]


# Arrays: numpy's where gymnasium is used, since its users and its spaces expect them; else tuples of the same numbers.

def integers(values: Sequence[Any]) -> Any:
    """Features: hashable without numpy, an int64 array with it."""
    if HAVE_GYMNASIUM:
        return numpy.array(values, dtype=numpy.int64)
    return tuple(values)


def mask(values: Sequence[int]) -> Any:
    """0 and 1 as Discrete.sample() takes them."""
    return numpy.array(values, dtype=numpy.int8) if HAVE_GYMNASIUM else tuple(values)


def floats(values: List[float]) -> Any:
    return numpy.array(values, dtype=numpy.float64) if HAVE_GYMNASIUM else values


def booleans(values: List[bool]) -> Any:
    return numpy.array(values, dtype=numpy.bool_) if HAVE_GYMNASIUM else values


def batch_infos(infos: Dict[int, Dict[str, Any]], size: int) -> Dict[str, Any]:
    """The infos of several environments as one, the way gymnasium has it: for each key what every environment says (0, False
    or None where one does not have it), and under `_key` which of them have it."""
    batch: Dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos.values() for key in info):
        having = {place: info[key] for place, info in infos.items() if key in info}
        batch[key] = _batch_values(having, size)
        batch["_" + key] = booleans([place in having for place in range(size)])
    return batch


def _batch_values(values: Dict[int, Any], size: int) -> Any:
    kinds = {type(value) for value in values.values()}
    if kinds == {dict}:
        return batch_infos(values, size)
    if kinds == {bool}:
        return booleans([values.get(place, False) for place in range(size)])
    if kinds == {int}:
        return numbers([values.get(place, 0) for place in range(size)])
    if float in kinds and kinds <= {float, int, type(None)}:
        row = [values.get(place, 0.0) for place in range(size)]
        return floats([float("nan") if value is None else float(value) for value in row])
    if HAVE_GYMNASIUM and kinds == {numpy.ndarray} and len({value.shape for value in values.values()}) == 1:
        return _rows(values, size)
    return _objects([values.get(place) for place in range(size)])


def numbers(values: List[int]) -> Any:
    return numpy.array(values, dtype=numpy.int64) if HAVE_GYMNASIUM else values


def _rows(values: Dict[int, Any], size: int) -> Any:
    some = next(iter(values.values()))
    array = numpy.zeros((size, *some.shape), dtype=some.dtype)
    for place, value in values.items():
        array[place] = value
    return array


def _objects(values: List[Any]) -> Any:
    if not HAVE_GYMNASIUM:
        return values
    array = numpy.full(len(values), None, dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array
