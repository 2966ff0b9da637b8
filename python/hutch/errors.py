"""What goes wrong, as exceptions."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .box import Result

__all__ = ["CommandFailed", "HutchError"]


class HutchError(OSError):
    """A call that failed: `errno` says what kind of failure it was, and the text is one line for a person."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text or os.strerror(code))

    def __str__(self) -> str:
        return str(self.strerror)


class CommandFailed(HutchError):
    """A command that ended with another status than 0, where `check=True` asked for an exception. `result` has all of it."""

    def __init__(self, code: int, text: str, result: Result) -> None:
        super().__init__(code, text)
        self.result = result
