"""What the tests of the diff worker have in common: a base filled with files, and git's word on a diff."""

import os
import stat
import time

from world import as_git_sees, git_apply, listing

ADDED, MODIFIED, DELETED = 1, 2, 3
NAMES = {ADDED: "added", MODIFIED: "modified", DELETED: "deleted"}


def write(folder, files):
    for path, content in files.items():
        full = os.path.join(os.fsencode(folder), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())


def fill(world, files):
    write(world.path("w/base"), files)
    world.mount()
    return world.path("w/merged")


def kinds(world):
    return {e["PATH"].decode("utf-8", "surrogateescape"): NAMES[e["KIND"]] for e in world.changes()}


def check_diff(world, tmp_path):
    """git makes of the base and the diff what the box made of it."""
    patch, result = world.diff()
    made = git_apply(world.path("w/base"), patch, str(tmp_path / f"git{time.monotonic_ns()}"))
    assert as_git_sees(listing(made)) == as_git_sees(listing(world.path("w/merged")))
    return patch.decode("utf-8", "surrogateescape")


def full_listing(folder):
    """All that a layer is made of."""
    found = {}
    for at, dirs, files in os.walk(os.fsencode(folder)):
        for name in [b""] + dirs + files:
            full = os.path.join(at, name)
            st = os.lstat(full)
            kind = stat.S_IFMT(st.st_mode)
            plain = stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)
            content = b""
            if stat.S_ISREG(st.st_mode):
                with open(full, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(full)
            marks = {x: os.getxattr(full, x) for x in os.listxattr(full)} if plain else {}
            nlink = st.st_nlink if stat.S_ISREG(st.st_mode) else 0  # overlay keeps a whiteout to link from
            found[os.path.relpath(full, os.fsencode(folder))] = (
                kind, st.st_mode & 0o7777, st.st_mtime_ns, st.st_rdev, nlink, content, marks)
    return found
