"""The spaces of the view in which an action is a tool call and an observation is text.

Gymnasium has no space for either: its Text has a fixed set of characters, and a tool's input is an object whose members
depend on the tool. Both spaces here are spaces of gymnasium's kind (Text, Space) and work with its wrappers and vectors.
"""
from __future__ import annotations

import json
import string
from typing import Any, Dict, List, Optional, Tuple

from .base import Space, Text

TEXT_MAX = 1 << 24
_SAMPLE_MAX = 24


class AnyText(Text):
    """Any text of at most max_length characters, in all of Unicode. Samples are short and of letters and digits."""

    def __init__(self, max_length: int = TEXT_MAX, *, seed: Any = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.ascii_letters + string.digits + " ", seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask is None and probability is None:
            mask = (_below(self.np_random, _SAMPLE_MAX), None)
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AnyText) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"


class ToolCall(Space[Any]):
    """A call of a tool: a dict {"tool": NAME, …its input}, or the same as JSON text.

    Every text is in the space, since a model may write any: what is no call costs a step and is answered with what is wrong.
    A dict must name one of the tools. Samples fit the tool's schema: its required members, and some of the others.
    """

    def __init__(self, tools: Dict[str, Dict[str, Any]], seed: Any = None) -> None:
        self.tools = dict(tools)
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        if mask is not None or probability is not None:
            raise ValueError("tool calls have no mask")
        names = list(self.tools)
        name = names[_below(self.np_random, len(names))]
        return {"tool": name, **_object(self.np_random, self.tools[name])}

    def contains(self, x: Any) -> bool:
        if isinstance(x, str):
            return True
        return isinstance(x, dict) and isinstance(x.get("tool"), str) and x["tool"] in self.tools and all(
            isinstance(key, str) for key in x)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ToolCall) and self.tools == other.tools

    def __repr__(self) -> str:
        return f"ToolCall({', '.join(self.tools)})"

    def to_jsonable(self, sample_n: Any) -> List[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: Any) -> List[Any]:
        return list(sample_n)


def read_call(action: Any) -> Tuple[Optional[str], Dict[str, Any], str]:
    """The tool and its input; or None, and what is wrong with the text that a model wrote."""
    if isinstance(action, (str, bytes)):
        try:
            action = json.loads(action)
        except (ValueError, RecursionError) as why:
            return None, {}, f"an action is a JSON object with the member \"tool\", and this is not JSON: {why}"
        if not isinstance(action, dict) or not isinstance(action.get("tool"), str):
            return None, {}, "an action is a JSON object with the member \"tool\" that names a tool"
    elif not isinstance(action, dict) or not isinstance(action.get("tool"), str):
        raise ValueError(f"an action is a dict with \"tool\", or such as JSON text, not {action!r:.200}")
    return action["tool"], {key: value for key, value in action.items() if key != "tool"}, ""


def _below(rng: Any, n: int) -> int:
    return int(rng.integers(n)) if hasattr(rng, "integers") else int(rng.randrange(n))


def _object(rng: Any, schema: Dict[str, Any]) -> Dict[str, Any]:
    members = schema.get("properties") or {}
    required = schema.get("required") or []
    return {name: _value(rng, members[name]) for name in members if name in required or _below(rng, 8) == 0}


def _value(rng: Any, schema: Dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][_below(rng, len(schema["enum"]))]
    kind = schema.get("type")
    if kind == "boolean":
        return bool(_below(rng, 2))
    if kind in ("integer", "number"):
        low = int(schema.get("minimum", 0))
        return low + _below(rng, max(1, min(int(schema.get("maximum", low + 9)) - low + 1, 10)))
    if kind == "array":
        return [_value(rng, schema.get("items") or {}) for _ in range(max(int(schema.get("minItems", 1)), 1))]
    if kind == "object":
        return _object(rng, schema)
    letters = string.ascii_lowercase
    return "".join(letters[_below(rng, len(letters))] for _ in range(max(int(schema.get("minLength", 1)), 4)))
