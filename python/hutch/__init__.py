"""hutch: boxes, tools and training environments for coding agents.

    import hutch
    with hutch.Box(workspace=".") as box:
        print(box.exec("ls -l").stdout)

    import hutch.gym
    env = hutch.gym.CodingEnv("bugfix_1")

    with hutch.Client("http://127.0.0.1:8642") as client:
        print(client.submit(["make test"]).wait().log())
"""
from __future__ import annotations

from . import _library
from .box import ApplyReport, Box, Change, Result, Snapshot, ToolResult
from .client import Client
from .errors import CommandFailed, HutchError
from ._tools import Tool, add_methods, tools

__all__ = ["ApplyReport", "Box", "Change", "Client", "CommandFailed", "HutchError", "Result", "Snapshot", "Tool", "ToolResult",
           "__version__", "tools", "version"]
__version__ = "0.1.0"


def version() -> str:
    """The version of the library that is in use."""
    return str(_library.library().hutch_version().decode())


try:
    add_methods(Box)
except HutchError:
    pass  # without the library: the first call says what is missing
