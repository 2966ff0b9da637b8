"""The diff worker: single files fetched, and copies of what a box wrote."""

import errno
import os
import subprocess

import pytest

from diff_kit import fill, full_listing, kinds, write
from world import listing


# Fetch


def fetch(world, path):
    """A file put together as the host does it."""
    c = world.connect()
    c.send("FETCH", PATH=path)
    content, at, frames = bytearray(), 0, 0
    while True:
        kind, fields = c.frame()
        if kind != "DATA":
            c.close()
            return kind, fields, bytes(content), frames
        at = fields.get("OFFSET", at)
        content.extend(bytes(at - len(content)))
        content[at:] = fields.get("DATA", b"")
        at = len(content)
        frames += 1


def test_fetch(world):
    m = fill(world, {"a": "1"})
    data = os.urandom(300_000)
    write(m, {"b": data, "d/e": ""})
    os.symlink("where", f"{m}/l")
    kind, fields, content, _ = fetch(world, "b")
    assert (kind, fields["SIZE"], content) == ("RESULT", len(data), data)
    assert fetch(world, "l")[1]["TARGET"] == b"where"
    assert fetch(world, "d/e")[1]["SIZE"] == 0
    with open(f"{m}/sparse", "wb") as file:
        file.seek(8 << 20)
        file.write(b"x")
        file.truncate(16 << 20)
    kind, fields, content, frames = fetch(world, "sparse")
    assert fields["SIZE"] == 16 << 20 and frames < 10
    assert content == bytes(8 << 20) + b"x" + bytes((8 << 20) - 1)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "l/passwd", "nothing", "a//b", "x\0y"])
def test_fetch_stays_beneath(world, path):
    m = fill(world, {"a": "1"})
    os.symlink("/etc", f"{m}/l")
    kind, _, output, _ = world.call("FETCH", PATH=path)
    assert kind == "ERROR" and output["DATA"] == b""


# Copy


def test_plain_copy_is_exact(world):
    m = fill(world, {"a": "1", "b": "2", "d/x": "1", "o/p": "1", "h": "4"})
    os.makedirs(world.path("r/base/home"))
    world.mount("r")
    write(m, {"n": "new", "d/y": "2", "ro": "r"})
    for at in ("a", "b"):
        os.unlink(f"{m}/{at}")
    subprocess.run(["rm", "-r", f"{m}/o"], check=True)
    write(m, {"o/q": "opaque"})
    os.link(f"{m}/n", f"{m}/d/n2")
    os.symlink("t", f"{m}/l")
    os.mkfifo(f"{m}/fifo")
    os.setxattr(f"{m}/ro", "user.note", b"v")
    os.chmod(f"{m}/ro", 0o400)
    os.chmod(f"{m}/d", 0o2775)
    os.utime(f"{m}/n", ns=(1, 123456789))
    os.utime(f"{m}/d", ns=(1, 987654321))
    write(world.path("r/merged"), {"home/agent/.profile": "hi", "tmp/t": "t"})
    assert world.copy(trees="wr")[0] == "RESULT"
    assert full_listing(world.path("w/copy")) == full_listing(world.path("w/l0"))
    assert full_listing(world.path("r/copy")) == full_listing(world.path("r/l0"))
    before = listing(m)
    world.stack()
    assert listing(m) == before
    assert os.stat(f"{m}/n").st_nlink == 2 and os.stat(f"{m}/n").st_ino == os.stat(f"{m}/d/n2").st_ino


def test_flatten(world):
    m = fill(world, {"a": "1", "b": "2", "d/x": "1", "d/y": "2", "e/f/g": "3", "keep": "k", "t": "1"})
    write(m, {"n1": "1", "d/z": "z"})
    os.unlink(f"{m}/a")
    world.copy()
    world.stack()
    subprocess.run(["rm", "-r", f"{m}/d", f"{m}/e"], check=True)
    write(m, {"d/x": "again", "n2": "2", "b": "22"})
    world.copy()
    world.stack()
    os.unlink(f"{m}/n1")
    write(m, {"e": "file now", "a": "back"})
    os.unlink(f"{m}/t")
    os.mkdir(f"{m}/t")
    before, changed = listing(m), kinds(world)
    kind, fields, _, _ = world.copy(flatten=True)
    assert kind == "RESULT", fields
    world.stack(flattened=True)
    assert world.layers == 2
    assert listing(m) == before and kinds(world) == changed
    layer = full_listing(world.path("w/l1"))
    assert b"n1" not in layer and b"keep" not in layer and b"d/y" not in layer
    assert layer[b"d"][6]["user.overlay.opaque"] == b"y"


def test_copy_without_room_says_so_and_leaves_nothing(world):
    m = fill(world, {"a": "1"})
    write(m, {"big": os.urandom(3 << 20), "d/e/f": "x", "zz": "1"})
    os.mkdir(world.path("w/copy"))
    world.shell("mount -t tmpfs -o size=1M none w/copy")
    kind, fields, _, _ = world.call("COPY")
    assert (kind, fields["CODE"]) == ("ERROR", errno.ENOSPC)
    assert b"space" in fields["TEXT"]
    assert os.listdir(world.path("w/copy")) == []


def test_base_that_moves_is_noticed_or_read(world):
    """Whatever the person does to the folder meanwhile, the diff worker answers and goes on."""
    m = fill(world, {f"d{i}/e{j}/f": "x" for i in range(20) for j in range(20)})
    for i in range(20):
        for j in range(20):
            write(m, {f"d{i}/e{j}/f": "y"})
    base = world.path("w/base")
    mover = subprocess.Popen(["sh", "-c", "while :; do mv d3/e4 x; mv x d3/e4; mv d5 d5x; mv d5x d5; done"], cwd=base,
                             stderr=subprocess.DEVNULL)
    try:
        for _ in range(30):
            kind, fields, _, _ = world.call("CHANGES")
            assert kind == "RESULT" or fields["CODE"] in (errno.ESTALE, errno.ENOENT)
    finally:
        mover.kill()
        mover.wait()
    assert world.call("PING")[0] == "RESULT"
