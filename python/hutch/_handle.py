"""Handles of the library as Python objects.

A handle is closed by close(), at the latest when nobody refers to it any more or when the interpreter ends. Other
threads may be in a call when somebody closes it: the calls are ended, and the last one that leaves frees the handle.
A process that was forked off has the object, but not what it stands for: every use is refused there, and nothing is freed.
"""
from __future__ import annotations

import ctypes
import errno
import os
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NoReturn, Optional, TypeVar

from ._interrupt import interruptible
from ._library import call
from .errors import HutchError

Free = Callable[[int], Any]


class _State:
    """What is left to do when the object is gone; it must not refer to the object."""

    def __init__(self, pointer: int, free: Free, cancel: Optional[Free]) -> None:
        self.pointer, self.free, self.cancel = pointer, free, cancel
        self.users = 0
        self.closed = False
        self.pid = os.getpid()
        self.lock = threading.Lock()

    def close(self) -> None:
        if self.pid != os.getpid():
            return
        with self.lock:
            first, self.closed = not self.closed, True
            idle = self.users == 0
        if first and idle:
            self.free(self.pointer)
        elif first and self.cancel:
            self.cancel(self.pointer)

    def enter(self, what: str) -> int:
        if self.pid != os.getpid():
            raise HutchError(errno.ECHILD, f"this {what} belongs to the process that made it (pid {self.pid}), "
                                           "not to one forked off from it: make another one here")
        with self.lock:
            if self.closed:
                raise HutchError(errno.EBADF, f"this {what} is closed")
            self.users += 1
        return self.pointer

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            last = self.closed and self.users == 0
        if last:
            self.free(self.pointer)


class Handle:
    """A base of everything that stands for a handle of the library."""

    _what = "handle"

    def _own(self, pointer: ctypes.c_void_p, free: Free, cancel: Optional[Free] = None) -> None:
        """Takes the handle out of `pointer`: from here on it is freed by this object and by nobody else."""
        assert pointer.value is not None
        self._state = _State(pointer.value, free, cancel)
        pointer.value = None
        self._finalizer = weakref.finalize(self, self._state.close)

    @contextmanager
    def _use(self) -> Iterator[int]:
        """The handle for one call."""
        state = self._state
        pointer = state.enter(self._what)
        try:
            yield pointer
        finally:
            state.leave()

    def _close_handle(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None:
            state.close()
            if state.pid == os.getpid():
                self._finalizer.detach()

    @property
    def _is_closed(self) -> bool:
        return self._state.closed

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied: it stands for something that runs in this "
                        "process. Make another one where it is needed, or use fork()")


T = TypeVar("T")


def make(create: Any, *arguments: Any, free: Free, own: Callable[[ctypes.c_void_p], T],
         cancel: Optional[Callable[[], Any]] = None) -> T:
    """Calls a function that makes a handle, and lets `own` take it. Nothing is left where that is interrupted: Ctrl-C during
    the call is heard right after it, which is soon or (with `cancel`) made to be."""
    pointer = ctypes.c_void_p()
    try:
        if cancel is None:
            call(create, *arguments, ctypes.byref(pointer))
        else:
            interruptible(lambda: call(create, *arguments, ctypes.byref(pointer)), cancel)
        return own(pointer)
    finally:
        if pointer.value is not None:
            free(pointer.value)
