"""PUT and LAYERED: how the host brings a box back to an earlier state."""

import errno
import os
import stat
import subprocess

from diff_kit import fill, write
from wire import NUMBERS, ROOT

DELETED = NUMBERS["DELETED"]


def put(box, *entries):
    """Each entry is (path, fields, content); content only for files. The paths that failed, with their errno."""
    c = box.request("PUT", NAME=ROOT)
    for path, fields, *content in entries:
        c.send("ENTRY", PATH=path, **fields)
        for data in content:
            c.send("DATA", DATA=data)
        if content:
            c.send("DATA", EOF=1)
    c.send("ENTRY", EOF=1)
    kind, fields, _, failed = c.result()
    assert kind == "RESULT", fields
    return {e["PATH"].decode(): e["CODE"] for e in failed}


def test_put_makes_files_links_and_folders_and_removes(box):
    (box.folder / "gone").write_text("x")
    (box.folder / "was_file").write_text("x")
    (box.folder / "d").mkdir()
    (box.folder / "d/x").write_text("x")
    assert put(box, ("gone", {"KIND": DELETED}), ("d/x", {"KIND": DELETED}), ("d", {"KIND": DELETED}),
               ("never/there", {"KIND": DELETED}),
               ("new/deep/f", {"MODE": stat.S_IFREG | 0o751}, b"one", b"two"),
               ("link", {"MODE": stat.S_IFLNK | 0o777, "TARGET": "new/deep/f"}),
               ("was_file", {"MODE": stat.S_IFDIR | 0o700}), ("was_file/in", {"MODE": stat.S_IFREG | 0o600}, b"")) == {}
    assert sorted(os.listdir(box.folder)) == ["link", "new", "was_file"]
    assert (box.folder / "new/deep/f").read_bytes() == b"onetwo"
    assert (box.folder / "new/deep/f").stat().st_mode & 0o7777 == 0o751
    assert os.readlink(box.folder / "link") == "new/deep/f"
    assert (box.folder / "was_file").stat().st_mode & 0o7777 == 0o700 and (box.folder / "was_file/in").stat().st_size == 0


def test_put_never_follows_a_link(box):
    (box.folder / "outside").mkdir()
    (box.folder / "outside/f").write_text("kept")
    os.symlink("outside", box.folder / "d")
    os.symlink("outside/f", box.folder / "f")
    assert put(box, ("d/f", {"KIND": DELETED})) == {}
    assert (box.folder / "outside/f").read_text() == "kept", "nothing of that path is there: the link is not a folder"
    assert put(box, ("d/f", {"MODE": stat.S_IFREG | 0o644}, b"new"), ("f", {"MODE": stat.S_IFREG | 0o644}, b"new")) == {}
    assert (box.folder / "outside/f").read_text() == "kept" and not os.path.islink(box.folder / "d")
    assert (box.folder / "d/f").read_text() == (box.folder / "f").read_text() == "new"


def test_put_keeps_a_folder_with_something_else_in_it_and_goes_on(box):
    (box.folder / "full").mkdir()
    (box.folder / "full/other").write_text("kept")
    failed = put(box, ("full", {"KIND": DELETED}), ("full", {"MODE": stat.S_IFREG | 0o644}, b"x"),
                 ("after", {"MODE": stat.S_IFREG | 0o644}, b"y"))
    assert failed == {"full": errno.ENOTEMPTY}
    assert (box.folder / "full/other").read_text() == "kept" and (box.folder / "after").read_text() == "y"
    assert not [n for n in os.listdir(box.folder) if n.startswith(".hutch-")]


def test_put_writes_into_a_read_only_folder_and_leaves_it_read_only(box):
    (box.folder / "d").mkdir()
    (box.folder / "d").chmod(0o555)
    assert put(box, ("d/f", {"MODE": stat.S_IFREG | 0o644}, b"x")) == {}
    assert (box.folder / "d/f").read_text() == "x" and (box.folder / "d").stat().st_mode & 0o777 == 0o555


def test_put_refuses_paths_that_lead_out(box):
    for path in ("../x", "/etc/x", "a/../../x", "", "a//b"):
        c = box.request("PUT", NAME=ROOT)
        c.send("ENTRY", PATH=path, KIND=DELETED)
        kind, fields, _, _ = c.result()
        assert (kind, fields["CODE"]) == ("ERROR", errno.EPROTO), path


def layered(world, *paths):
    kind, fields, _, entries = world.call("LAYERED", PATH=list(paths))
    assert kind == "RESULT", fields
    return {e["PATH"].decode() for e in entries}


def test_layered_names_what_the_layers_decide_about(world):
    m = fill(world, {"same": "1", "mod": "1", "gone": "1", "d/x": "1", "d/y": "1", "opaque/a": "1", "file/x": "1", "dir": "1"})
    write(m, {"mod": "2", "d/x": "2", "n/new": "1"})
    os.unlink(f"{m}/gone")
    subprocess.run(["rm", "-r", f"{m}/opaque", f"{m}/file"], check=True)
    os.mkdir(f"{m}/opaque")
    write(m, {"file": "no folder"})
    paths = ["same", "mod", "gone", "d/x", "d/y", "n/new", "n/other", "opaque/a", "opaque/deep/b", "file", "file/x", "not/there"]
    assert layered(world, *paths) == {"mod", "gone", "d/x", "n/new", "opaque/a", "opaque/deep/b", "file", "file/x"}
    assert layered(world) == set()
    assert world.call("LAYERED", PATH="../x")[0] == "ERROR"
