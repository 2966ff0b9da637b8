"""Spaces, for when gymnasium is not installed: the ones that the environments need, with the behaviour of gymnasium.spaces.

What differs: there is no numpy, so an element of Discrete is an int, one of MultiDiscrete a tuple of ints (nested, if the
space is), and the random numbers are those of Python's random.Random.
"""
from __future__ import annotations

import operator
import random
import string
from typing import Any, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple as Tup, TypeVar, Union

__all__ = ["Discrete", "MultiDiscrete", "Space", "Text", "Tuple", "batch_space"]

T = TypeVar("T")
Mask = Sequence[int]
Probability = Sequence[float]


def random_generator(seed: Optional[int] = None) -> Tup[random.Random, int]:
    """A generator, and the seed that it was made with."""
    if seed is None:
        seed = random.SystemRandom().getrandbits(63)
    elif isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"a seed is an int, not {type(seed).__name__}")
    elif seed < 0:
        raise ValueError(f"a seed is not negative: {seed}")
    return random.Random(seed), seed


class Space(Generic[T]):
    """A set of values, of which one can be drawn and of any value be said whether it is in."""

    def __init__(self, shape: Optional[Sequence[int]] = None, dtype: Any = None,
                 seed: Union[int, random.Random, None] = None) -> None:
        self._shape = None if shape is None else tuple(shape)
        self.dtype = dtype
        self._np_random: Optional[random.Random] = None
        if isinstance(seed, random.Random):
            self._np_random = seed
        elif seed is not None:
            self.seed(seed)

    @property
    def np_random(self) -> random.Random:
        if self._np_random is None:
            self._np_random, _ = random_generator()
        return self._np_random

    @property
    def shape(self) -> Optional[Tup[int, ...]]:
        return self._shape

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def seed(self, seed: Optional[int] = None) -> Any:
        self._np_random, seed = random_generator(seed)
        return seed

    def sample(self, mask: Any = None, probability: Any = None) -> T:
        raise NotImplementedError

    def contains(self, x: Any) -> bool:
        raise NotImplementedError

    def __contains__(self, x: Any) -> bool:
        return self.contains(x)

    def to_jsonable(self, sample_n: Sequence[T]) -> List[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: List[Any]) -> List[T]:
        return list(sample_n)


def _integer(x: Any) -> Optional[int]:
    """The value of an int, or of anything that stands for one; not of True or 1.0."""
    if isinstance(x, bool):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def _choose(rng: random.Random, n: int, mask: Optional[Mask], probability: Optional[Probability]) -> int:
    """One of 0 … n-1. A mask without a 1 gives 0."""
    if mask is not None and probability is not None:
        raise ValueError("either a mask or probabilities, not both")
    if mask is not None:
        if len(mask) != n or any(one not in (0, 1) for one in mask):
            raise ValueError(f"a mask has {n} numbers that are 0 or 1")
        allowed = [number for number in range(n) if mask[number]]
        return allowed[rng.randrange(len(allowed))] if allowed else 0
    if probability is not None:
        if len(probability) != n or any(not 0 <= one <= 1 for one in probability) or abs(sum(probability) - 1) > 1e-8:
            raise ValueError(f"probabilities are {n} numbers between 0 and 1 whose sum is 1")
        return rng.choices(range(n), weights=probability)[0]
    return rng.randrange(n)


class Discrete(Space[int]):
    """start … start + n - 1."""

    def __init__(self, n: int, seed: Union[int, random.Random, None] = None, start: int = 0) -> None:
        count, first = _integer(n), _integer(start)
        if count is None or first is None or count <= 0:
            raise ValueError(f"Discrete needs a positive number of elements, not {n!r} from {start!r}")
        self.n, self.start = count, first
        super().__init__((), int, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def sample(self, mask: Optional[Mask] = None, probability: Optional[Probability] = None) -> int:
        return self.start + _choose(self.np_random, self.n, mask, probability)

    def contains(self, x: Any) -> bool:
        value = _integer(x)
        return value is not None and self.start <= value < self.start + self.n

    def __repr__(self) -> str:
        return f"Discrete({self.n}, start={self.start})" if self.start else f"Discrete({self.n})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Discrete) and (self.n, self.start) == (other.n, other.start)


Nested = Any  # an int, or a sequence of such


def _nested(values: Nested) -> Nested:
    """The same as tuples of ints."""
    value = _integer(values)
    if value is not None:
        return value
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"not an integer: {values!r}")
    return tuple(_nested(one) for one in values)


def _shape(values: Nested) -> Tup[int, ...]:
    if isinstance(values, int):
        return ()
    inner = {_shape(one) for one in values}
    if len(inner) > 1:
        raise ValueError("rows of different lengths")
    return (len(values), *(inner.pop() if inner else ()))


class MultiDiscrete(Space[Tup[Any, ...]]):
    """Every place has a range of its own: 0 … nvec[i] - 1."""

    def __init__(self, nvec: Sequence[Any], dtype: Any = int, seed: Union[int, random.Random, None] = None) -> None:
        self.nvec: Tup[Any, ...] = _nested(nvec)
        super().__init__(_shape(self.nvec), dtype, seed)
        if any(one <= 0 for one in _flat(self.nvec)):
            raise ValueError("each range of a MultiDiscrete has at least one element")

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> Tup[Any, ...]:
        drawn: Tup[Any, ...] = self._sample(self.nvec, mask, probability)
        return drawn

    def _sample(self, nvec: Nested, mask: Any, probability: Any) -> Nested:
        if isinstance(nvec, int):
            return _choose(self.np_random, nvec, mask, probability)
        for given in (mask, probability):
            if given is not None and len(given) != len(nvec):
                raise ValueError("a mask has as many parts as the space")
        return tuple(self._sample(one, mask[i] if mask is not None else None,
                                  probability[i] if probability is not None else None) for i, one in enumerate(nvec))

    def contains(self, x: Any) -> bool:
        try:
            values = _nested(x)
            return _shape(values) == self.shape and all(0 <= one < n for one, n in zip(_flat(values), _flat(self.nvec)))
        except (TypeError, ValueError):
            return False

    def __len__(self) -> int:
        return len(self.nvec)

    def __getitem__(self, index: int) -> Union[Discrete, MultiDiscrete]:
        part = self.nvec[index]
        return Discrete(part) if isinstance(part, int) else MultiDiscrete(part)

    def __repr__(self) -> str:
        return f"MultiDiscrete({list(self.nvec)})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, MultiDiscrete) and self.nvec == other.nvec


def _flat(values: Nested) -> Iterator[int]:
    if isinstance(values, int):
        yield values
    else:
        for one in values:
            yield from _flat(one)


class Text(Space[str]):
    """Texts of min_length … max_length characters of a set."""

    def __init__(self, max_length: int, *, min_length: int = 1, charset: Iterable[str] = string.ascii_letters + string.digits,
                 seed: Union[int, random.Random, None] = None) -> None:
        if not 0 <= min_length <= max_length:
            raise ValueError(f"no text is at least {min_length} and at most {max_length} characters long")
        self.min_length, self.max_length = min_length, max_length
        self.character_list = tuple(charset)
        self.character_set = frozenset(self.character_list)
        super().__init__(dtype=str, seed=seed)

    @property
    def characters(self) -> str:
        return "".join(sorted(self.character_list))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        length, weights = mask if mask is not None else probability if probability is not None else (None, None)
        if length is None:
            length = self.np_random.randint(self.min_length, self.max_length)
        return "".join(self.np_random.choices(self.character_list, weights=weights, k=length))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length and self.character_set.issuperset(x)

    def __repr__(self) -> str:
        return f"Text({self.min_length}, {self.max_length}, charset={self.characters})"

    def __eq__(self, other: Any) -> bool:
        return (isinstance(other, Text) and (self.min_length, self.max_length) == (other.min_length, other.max_length)
                and self.character_set == other.character_set)


class Tuple(Space[Tup[Any, ...]]):
    """One element of each of several spaces."""

    def __init__(self, spaces: Iterable[Space[Any]], seed: Optional[int] = None) -> None:
        self.spaces = tuple(spaces)
        super().__init__(None, None, seed)

    def seed(self, seed: Optional[int] = None) -> Tup[Any, ...]:
        """Seeds every part, each with another seed that follows from this one."""
        rng, _ = random_generator(seed)
        return tuple(space.seed(rng.getrandbits(31)) for space in self.spaces)

    def sample(self, mask: Any = None, probability: Any = None) -> Tup[Any, ...]:
        nothing = (None,) * len(self.spaces)
        return tuple(space.sample(one, other) for space, one, other
                     in zip(self.spaces, mask or nothing, probability or nothing))

    def contains(self, x: Any) -> bool:
        return (isinstance(x, (tuple, list)) and len(x) == len(self.spaces)
                and all(one in space for one, space in zip(x, self.spaces)))

    def __getitem__(self, index: int) -> Space[Any]:
        return self.spaces[index]

    def __len__(self) -> int:
        return len(self.spaces)

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self.spaces))})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Tuple) and self.spaces == other.spaces


def batch_space(space: Space[Any], n: int = 1) -> Space[Any]:
    """The space of n elements together, as a vector environment has it."""
    if type(space) is Discrete and space.start == 0:
        return MultiDiscrete([space.n] * n)
    if type(space) is MultiDiscrete:
        return MultiDiscrete([space.nvec] * n)
    return Tuple([_copy(space) for _ in range(n)])


def _copy(space: Space[Any]) -> Space[Any]:
    """The same space with a random generator of its own."""
    other = type(space).__new__(type(space))
    state: Dict[str, Any] = dict(space.__dict__)
    state["_np_random"] = None
    other.__dict__.update(state)
    return other
