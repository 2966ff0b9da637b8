"""Training environments for coding agents, with Gymnasium's interface.

Where gymnasium (1.0 or newer) is installed, the classes derive from gymnasium.Env and gymnasium.vector.VectorEnv, spaces and
arrays are gymnasium's and numpy's, and gymnasium.make("hutch/bugfix_1-v0") works after `import hutch.gym`. Where it is not, the
same classes work without it: spaces are those of hutch.gym.spaces, arrays are tuples and lists.
"""
from __future__ import annotations

from ..errors import HutchError
from .arena import Arena, tasks
from .base import HAVE_GYMNASIUM, AutoresetMode
from .env import CodingEnv
from .registration import register_all
from .remote import RemoteEnv, RemoteVectorEnv
from .vector import CodingVectorEnv

__all__ = ["Arena", "AutoresetMode", "CodingEnv", "CodingVectorEnv", "HAVE_GYMNASIUM", "RemoteEnv",
           "RemoteVectorEnv", "register_all", "tasks"]

try:
    register_all()
except HutchError:
    pass  # without the library or its tasks: the first call says what is missing
