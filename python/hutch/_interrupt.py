"""Calls that a person can interrupt.

Python notices Ctrl-C only between its own instructions, so a call into the library that takes minutes would take them in
any case. Such a call made by the main thread, the one that hears signals, therefore runs in a thread of its own; when the
main thread is interrupted while it waits, the call is cancelled and waited for, and only then does the exception go on.
"""
from __future__ import annotations

import _thread
import threading
from typing import Any, Callable, TypeVar

T = TypeVar("T")

# A signal that comes just before the main thread waits sets a flag that Python looks at only after the wait: so the wait
# ends now and then.
PAUSE = 0.5  # seconds


def interruptible(work: Callable[[], T], cancel: Callable[[], Any]) -> T:
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: dict[str, Any] = {}
    done = _thread.allocate_lock()
    done.acquire()
    gate = _thread.allocate_lock()  # whoever comes first: the call begins, or it never will

    def run() -> None:
        with gate:
            if "unwanted" in outcome:
                return
            outcome["begun"] = True
        try:
            outcome["value"] = work()
        except BaseException as why:  # goes to the main thread
            outcome["error"] = why
        finally:
            done.release()

    try:
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:  # no threads any more: the interpreter is ending
            return work()
        while not done.acquire(timeout=PAUSE):
            pass
    except BaseException:
        with gate:
            outcome["unwanted"] = True
        if "begun" in outcome:
            cancel()
            _wait(done)
        raise
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


def _wait(done: Any) -> None:
    """Waits whatever happens: the call uses memory of ours until it is over."""
    while True:
        try:
            done.acquire()
            return
        except BaseException:
            continue
