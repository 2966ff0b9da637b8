"""The tasks under names that gymnasium.make() knows: hutch/bugfix_1-v0 and so on."""
from __future__ import annotations

import os
from typing import List, Union

from .arena import tasks
from .base import HAVE_GYMNASIUM

__all__ = ["register_all"]


def register_all(folder: Union[str, "os.PathLike[str]", None] = None, *, clock: str = "virtual") -> List[str]:
    """Registers every task (of a folder, or those that came with hutch) with Gymnasium, and returns the names.

    Done for the tasks that came with hutch when hutch.gym is imported. The virtual clock is the default here, unlike in
    CodingEnv: what is registered as deterministic must give the same rewards for the same actions. A name that is registered
    already is left as it is."""
    if not HAVE_GYMNASIUM:
        return []
    import gymnasium

    names = []
    for task in tasks(folder):
        name = f"hutch/{task['name']}-v0"
        names.append(name)
        if name in gymnasium.registry:
            continue
        place = {} if folder is None else {"tasks": os.path.abspath(os.fspath(folder))}
        gymnasium.register(id=name, entry_point="hutch.gym.env:CodingEnv",
                           vector_entry_point="hutch.gym.vector:CodingVectorEnv", nondeterministic=clock != "virtual",
                           kwargs={"task": task["name"], "clock": clock, **place})
    return names
