"""The diff worker against trees that anything was done to."""

import os
import random
import subprocess

import pytest

from diff_kit import NAMES, check_diff, full_listing
from world import listing


class Editor:
    """Random edits of a tree."""

    def __init__(self, seed, top):
        self.rnd, self.top = random.Random(seed), os.fsencode(top)

    def all(self, want):
        found = []
        for at, dirs, files in os.walk(self.top):
            links = [d for d in dirs if os.path.islink(os.path.join(at, d))]
            names = files + links if want == "file" else [d for d in dirs if d not in links]
            found += [os.path.join(at, name) for name in names]
        return sorted(found)

    def folder(self):
        return self.rnd.choice(self.all("dir") + [self.top])

    def name(self):
        return self.rnd.choice([b"a", b"b.c", b"b", b"x y", b"\xff", b"\xc3\xa9", b"n\nl", b"q\"", b"d", b"d.e", b"t\t", b"-"])

    def content(self):
        pick = self.rnd.randrange(6)
        if pick == 0:
            return b""
        if pick == 1:
            return self.rnd.randbytes(self.rnd.randrange(3000))
        lines = [self.rnd.choice([b"}", b"{", b"  return;", b"", b"x\r", b"\xe9"]) for _ in range(self.rnd.randrange(40))]
        return b"\n".join(lines) + (b"\n" if self.rnd.random() < 0.7 else b"")

    def edit(self, old):
        lines = old.split(b"\n")
        for _ in range(self.rnd.randrange(1, 4)):
            at = self.rnd.randrange(len(lines) + 1)
            lines[at:at + self.rnd.randrange(3)] = [b"edit %d" % self.rnd.randrange(5)] * self.rnd.randrange(3)
        return b"\n".join(lines)

    def clear(self, path):
        if os.path.isdir(path) and not os.path.islink(path):
            subprocess.run([b"rm", b"-rf", b"--", path], check=True)
        elif os.path.lexists(path):
            os.unlink(path)

    def step(self):
        files, pick = self.all("file"), self.rnd.randrange(12)
        new = os.path.join(self.folder(), self.name())
        if pick < 3 or not files:
            self.clear(new)
            with open(new, "wb") as file:
                file.write(self.content())
        elif pick < 6:
            path = self.rnd.choice(files)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    old = file.read()
                with open(path, "wb") as file:
                    file.write(self.edit(old))
        elif pick == 6:
            self.clear(self.rnd.choice(files + self.all("dir")))
        elif pick == 7:
            path = self.rnd.choice(files)
            if not new.startswith(path) and not path.startswith(new):
                self.clear(new)
                os.rename(path, new)
        elif pick == 8:
            self.clear(new)
            os.mkdir(new)
        elif pick == 9:
            self.clear(new)
            os.symlink(self.rnd.choice([b"z", b"../x", b"no\nwhere", b"/etc"]), new)
        elif pick == 10:
            path = self.rnd.choice(files)
            if not os.path.islink(path):
                os.chmod(path, self.rnd.choice([0o644, 0o755, 0o600]))
        else:
            path = self.rnd.choice(files)
            if not new.startswith(path) and not path.startswith(new):
                self.clear(new)
                os.link(path, new, follow_symlinks=False)


def expected_changes(base, merged):
    found = {}
    for path in set(base) | set(merged):
        if path not in merged:
            found[path] = {"deleted"}
        elif path not in base:
            found[path] = {"added"}
        elif base[path] != merged[path]:
            folder = base[path][0] == "dir" or merged[path][0] == "dir"
            found[path] = {"added", "deleted"} if folder else {"modified"}
    for path in list(found):  # a folder that only stopped or began to be empty is no change
        if found[path] == {"added"} and merged[path][0] == "dir" and any(p.startswith(path + b"/") for p in base):
            del found[path]
        elif found[path] == {"deleted"} and base[path][0] == "dir" and any(p.startswith(path + b"/") for p in merged):
            del found[path]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_random_edits(world, tmp_path, seed):
    base, merged = world.path("w/base"), world.path("w/merged")
    first = Editor(seed * 100, base)
    for _ in range(40):
        first.step()
    world.mount()
    editor = Editor(seed, merged)
    for turn in range(6):
        for _ in range(editor.rnd.randrange(25)):
            editor.step()
        found = {}
        for e in world.changes():
            found.setdefault(e["PATH"], set()).add(NAMES[e["KIND"]])
        assert found == expected_changes(listing(base), listing(merged))
        check_diff(world, tmp_path)
        before, flatten = listing(merged), turn % 3 == 2
        kind, fields, _, _ = world.copy(flatten=flatten)
        assert kind == "RESULT", fields
        if not flatten:
            assert full_listing(world.path("w/copy")) == full_listing(world.path("w/l0"))
        world.stack(flattened=flatten)
        assert listing(merged) == before
