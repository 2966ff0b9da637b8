"""The two ways to see an episode: as numbers for small learners, or as tool calls and text for models."""
from __future__ import annotations

import json
import operator
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import _library as lib
from .actions import AnyText, ToolCall, read_call
from .arena import Arena
from .base import Discrete, MultiDiscrete, integers, mask

MALFORMED = "malformed"


class Call(NamedTuple):
    """An action on its way to the library."""

    number: int = 0
    tool: Optional[bytes] = None
    input: bytes = b"{}"
    wrong: str = ""  # what is wrong with an action that is none


class Seen(NamedTuple):
    """A step on its way from the library: everything copied."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Dict[str, Any]
    said: Dict[str, Any] = {}  # the observation as the library has it; empty for a step that was not carried out
    seconds: float = 0.0
    total: float = 0.0


class View:
    """Makes spaces, reads actions, shows steps. `actions` is "discrete", "tools", or None for what the task has."""

    def __init__(self, arena: Arena, actions: Optional[str]) -> None:
        names = arena.action_names
        if actions is None:
            actions = "discrete" if names else "tools"
        if actions not in ("discrete", "tools"):
            raise ValueError(f"actions are \"discrete\" or \"tools\", not {actions!r}")
        if actions == "discrete" and not names:
            raise ValueError(f"the task {arena.name} has no patches, so there are no discrete actions: use actions=\"tools\"")
        self.arena, self.actions, self.discrete = arena, actions, actions == "discrete"

    def spaces(self) -> Tuple[Any, Any]:
        """Of observations and of actions; fresh ones, since each environment seeds its own."""
        if self.discrete:
            return MultiDiscrete(list(self.arena.feature_sizes)), Discrete(len(self.arena.action_names))
        return AnyText(), ToolCall(self.arena.tools)

    def read(self, action: Any) -> Call:
        if self.discrete:
            return Call(number=self._number(action))
        tool, input, wrong = read_call(action)
        if tool is None:
            return Call(tool=MALFORMED.encode(), wrong=wrong)
        return Call(tool=lib.as_bytes(tool, "the tool's name"), input=json.dumps(input).encode())

    def _number(self, action: Any) -> int:
        try:
            number = operator.index(action)
        except TypeError:
            raise ValueError(f"an action is a number, not {action!r:.200}") from None
        if not 0 <= number < len(self.arena.action_names):
            raise ValueError(f"there is no action {number}: they are 0 to {len(self.arena.action_names) - 1}")
        return number

    def show(self, step: Any, wrong: str = "") -> Seen:
        said = json.loads((step.observation or b"{}").decode("utf-8"))
        features: List[int] = step.features[:step.n_features]
        text = wrong or said.get("text") or ""
        info = self.info(json.loads((step.info or b"{}").decode("utf-8")), features, text)
        info["failed"] = bool(wrong or said.get("failed"))
        info["data"] = said.get("data")
        if "image" in said:
            info["image"] = said["image"]
        return Seen(integers(features) if self.discrete else text, float(step.reward), bool(step.terminated),
                    bool(step.truncated), info, said, float(step.seconds), float(step.episode_return))

    def info(self, known: Dict[str, Any], features: List[int], text: str) -> Dict[str, Any]:
        known["text"] = text
        if self.arena.action_names:
            known["action_names"] = self.arena.action_names
            known["action_mask"] = mask([0 if place < self.arena.patches and features[place] else 1
                                         for place in range(len(self.arena.action_names))])
        return known

    def nothing(self) -> Any:
        """An observation for where there is none: that of an environment that broke."""
        return integers([0] * len(self.arena.feature_sizes)) if self.discrete else ""


def printable(text: str) -> str:
    """Text of a box for a person's terminal: what could control it is shown instead."""
    return "".join(char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode("ascii")
                   for char in text)
