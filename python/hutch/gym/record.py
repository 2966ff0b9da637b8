"""Episodes as files: trajectories, one each, as `hutch gym episode --record` writes them (docs/gym.md)."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional, TextIO

from .. import _library as lib
from .arena import Arena, PathLike
from .view import Call, Seen


class Recorder:
    """Writes the episodes of one environment to a folder: TASK-SEED.jsonl, and TASK-SEED-2.jsonl for another with that seed."""

    def __init__(self, folder: PathLike, arena: Arena) -> None:
        self._folder, self._arena = Path(folder), arena
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file: Optional[TextIO] = None
        self._seed, self._number = 0, 0

    def begin(self, seed: int, seen: Seen) -> None:
        self.close()
        self._file, self._seed, self._number = self._create(seed), seed, 0
        arena = self._arena
        self._put({"hutch": lib.library().hutch_version().decode(), "task": arena.name, "digest": arena.digest,
                   "seed": _seed_json(seed), "clock": arena.clock, "agent": "python", "max_steps": arena.max_steps,
                   "call_price": arena.call_price, "second_price": arena.second_price})
        self._put_step(None, seen)

    def step(self, call: Call, seen: Seen) -> None:
        """What came of a call. An environment that broke leaves its recording as it is."""
        if not seen.said:
            self.close()
        if self._file is None:
            return
        self._number += 1
        self._put_step(self._action(call), seen)
        if seen.terminated or seen.truncated:
            self._put({"return": seen.total, "pass_rate": seen.info["pass_rate"], "calls": seen.info["calls"],
                       "seconds": seen.info["seconds"], "seed": _seed_json(self._seed)})
            self.close()

    def fork(self) -> Recorder:
        """For a second environment in the same state: its recording begins with the same past."""
        other = Recorder(self._folder, self._arena)
        if self._file is not None:
            self._file.flush()
            other._file, other._seed, other._number = other._create(self._seed), self._seed, self._number
            other._file.write(Path(self._file.name).read_text())
        return other

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _create(self, seed: int) -> TextIO:
        stem, number = f"{self._arena.name}-{seed}", 1
        while True:
            try:
                return open(self._folder / f"{stem}{f'-{number}' if number > 1 else ''}.jsonl", "x")
            except FileExistsError:
                number += 1

    def _action(self, call: Call) -> Dict[str, Any]:
        if call.tool is None:
            return self._arena.action_calls[call.number]
        return {"tool": call.tool.decode(), **json.loads(call.input)}

    def _put_step(self, action: Optional[Dict[str, Any]], seen: Seen) -> None:
        self._put({"step": self._number, "action": action, "observation": seen.said, "reward": seen.reward,
                   "pass_rate": seen.info["pass_rate"], "terminated": seen.terminated, "truncated": seen.truncated,
                   "seconds": seen.seconds})

    def _put(self, line: Dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")


def _seed_json(seed: int) -> Any:
    return seed if seed < 1 << 63 else str(seed)
