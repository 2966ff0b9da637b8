"""libhutch.so: finding it, loading it, and its functions as include/hutch.h declares them.

The library is loaded at the first call, so that importing hutch works where it is missing. ctypes lets go of the
interpreter's lock while a function of the library runs: other threads go on meanwhile.
"""
from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sysconfig
import threading
from ctypes import (POINTER, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_long, c_size_t, c_uint32, c_uint64,
                    c_void_p)
from pathlib import Path
from typing import Any, Iterator, Optional

from .errors import HutchError

API_VERSION = 1
SONAME = "libhutch.so.1"


class CError(ctypes.Structure):
    """struct hutch_error"""

    _fields_ = [("code", c_int), ("text", c_char * 1024)]


class CStep(ctypes.Structure):
    """struct hutch_step"""

    _fields_ = [
        ("env", c_uint32),
        ("number", c_uint32),
        ("reward", c_double),
        ("pass_rate", c_double),
        ("seconds", c_double),
        ("episode_return", c_double),
        ("terminated", c_int32),
        ("truncated", c_int32),
        ("code", c_int32),
        ("reset", c_int32),
        ("observation", c_char_p),
        ("info", c_char_p),
        ("features", POINTER(c_int64)),
        ("n_features", c_size_t),
    ]


class CAction(ctypes.Structure):
    """struct hutch_action"""

    _fields_ = [
        ("env", c_uint32),
        ("reset", c_int32),
        ("seed", c_uint64),
        ("action", c_uint64),
        ("tool", c_char_p),
        ("input", c_char_p),
    ]


_TEXT = POINTER(c_void_p)
_ERROR = POINTER(CError)

# Name: the result, then the arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "hutch_version": (c_char_p,),
    "hutch_api_version": (c_int,),
    "hutch_free": (None, c_void_p),
    "hutch_box_open": (c_int, c_char_p, POINTER(c_void_p), _ERROR),
    "hutch_box_close": (None, c_void_p),
    "hutch_box_interrupt": (c_int, c_void_p, _ERROR),
    "hutch_box_exec": (c_int, c_void_p, c_char_p, c_char_p, _TEXT, _ERROR),
    "hutch_box_tool": (c_int, c_void_p, c_char_p, c_char_p, _TEXT, _ERROR),
    "hutch_tools": (c_int, _TEXT, _ERROR),
    "hutch_box_changes": (c_int, c_void_p, _TEXT, _ERROR),
    "hutch_box_diff": (c_int, c_void_p, _TEXT, POINTER(c_size_t), _ERROR),
    "hutch_box_apply": (c_int, c_void_p, _TEXT, _ERROR),
    "hutch_box_snapshot": (c_int, c_void_p, POINTER(c_void_p), _ERROR),
    "hutch_snapshot_fork": (c_int, c_void_p, POINTER(c_void_p), _ERROR),
    "hutch_snapshot_free": (None, c_void_p),
    "hutch_box_fork": (c_int, c_void_p, POINTER(c_void_p), _ERROR),
    "hutch_tasks": (c_int, c_char_p, _TEXT, _ERROR),
    "hutch_arena_open": (c_int, c_char_p, c_char_p, POINTER(c_void_p), _ERROR),
    "hutch_arena_close": (None, c_void_p),
    "hutch_arena_info": (c_int, c_void_p, _TEXT, _ERROR),
    "hutch_env_open": (c_int, c_void_p, POINTER(c_void_p), _ERROR),
    "hutch_env_close": (None, c_void_p),
    "hutch_env_reset": (c_int, c_void_p, c_uint64, POINTER(CStep), _ERROR),
    "hutch_env_step": (c_int, c_void_p, c_char_p, c_char_p, POINTER(CStep), _ERROR),
    "hutch_env_act": (c_int, c_void_p, c_size_t, POINTER(CStep), _ERROR),
    "hutch_env_step_known": (c_int, c_void_p, c_char_p, c_char_p, POINTER(CStep), _ERROR),
    "hutch_env_act_known": (c_int, c_void_p, c_size_t, POINTER(CStep), _ERROR),
    "hutch_env_fork": (c_int, c_void_p, POINTER(c_void_p), _ERROR),
    "hutch_env_interrupt": (c_int, c_void_p, _ERROR),
    "hutch_vector_open": (c_int, c_void_p, c_size_t, c_size_t, c_int, POINTER(c_void_p), _ERROR),
    "hutch_vector_close": (None, c_void_p),
    "hutch_vector_send": (c_int, c_void_p, POINTER(CAction), c_size_t, _ERROR),
    "hutch_vector_interrupt": (c_int, c_void_p, _ERROR),
    "hutch_vector_recv": (c_long, c_void_p, c_size_t, c_size_t, c_int, POINTER(CStep), _ERROR),
}


def candidates() -> Iterator[str]:
    """Where the library may be, best first: what was asked for, the tree that this file lies in, that of the hutch which
    is in $PATH (for a virtual environment), the system's."""
    named = os.environ.get("HUTCH_LIBRARY")
    if named:
        yield named
        return
    package = Path(__file__).resolve().parent
    if package.parent.name == "python":  # a source tree
        yield str(package.parent.parent / "build" / "libhutch.so")
    for above in package.parents[:4]:  # PREFIX/lib/pythonX/dist-packages
        if above.name in ("lib", "lib64"):
            yield from _library_in(above)
    program = shutil.which("hutch")
    if program:
        folder = Path(program).resolve().parent
        yield str(folder / SONAME)  # where it was built
        yield from _library_in(folder.parent / "lib")
    yield SONAME


def _library_in(folder: Path) -> Iterator[str]:
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        yield str(folder / multiarch / SONAME)
    yield str(folder / SONAME)


def _load() -> ctypes.CDLL:
    tried = []
    for name in candidates():
        if "/" in name and not os.path.exists(name):
            tried.append(f"{name}: not there")
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError as why:
            tried.append(str(why))
            continue
        return _declare(library, name)
    raise HutchError(
        errno.ENOENT,
        "libhutch.so was not found: build it with `make`, install it with `make install`, or name it in "
        f"$HUTCH_LIBRARY (tried {'; '.join(tried)})",
    )


def _declare(library: ctypes.CDLL, name: str) -> ctypes.CDLL:
    try:
        for function, (result, *arguments) in _FUNCTIONS.items():
            entry = getattr(library, function)
            entry.restype, entry.argtypes = result, arguments
        version = int(library.hutch_api_version())
    except AttributeError as why:
        raise HutchError(errno.ENOSYS, f"{name} is not the libhutch of this package: {why}") from None
    if version != API_VERSION:
        raise HutchError(errno.ENOSYS, f"{name} has version {version} of the API, this package needs {API_VERSION}")
    return library


_library: Optional[ctypes.CDLL] = None
_loading = threading.Lock()


def library() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                _library = _load()
    return _library


def call(function: Any, *arguments: Any) -> int:
    """Calls a function of the library that takes a struct hutch_error last; what it returns, or HutchError."""
    error = CError()
    code = int(function(*arguments, byref(error)))
    if code < 0:
        raise HutchError(error.code or -code, error.text.decode("utf-8", "replace"))
    return code


def call_known(function: Any, *arguments: Any) -> bool:
    """Calls a function that does only what is known already; False if it did nothing (EAGAIN)."""
    error = CError()
    code = int(function(*arguments, byref(error)))
    if code < 0 and code != -errno.EAGAIN:
        raise HutchError(error.code or -code, error.text.decode("utf-8", "replace"))
    return code >= 0


def call_text(function: Any, *arguments: Any) -> bytes:
    """The same for a function whose last but one argument is a `char **`."""
    text = c_void_p()
    try:
        call(function, *arguments, byref(text))
        return ctypes.string_at(text) if text else b""
    finally:
        if text:
            library().hutch_free(text)


def as_bytes(text: str, what: str) -> bytes:
    """Text as C takes it."""
    data = text.encode("utf-8")
    if b"\0" in data:
        raise ValueError(f"{what} has a NUL character")
    return data
