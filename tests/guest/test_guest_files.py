"""Requests for files: READ, WRITE, LIST, STAT, as docs/protocol.md has them."""

import os
import socket
import time

from wire import ROOT

EXDEV, ELOOP = 18, 40


def read(box, path, **fields):
    return box.call("READ", PATH=path, NAME=ROOT, **fields)


def write(box, path, data, **fields):
    c = box.request("WRITE", PATH=path, NAME=ROOT, **fields)
    for at in range(0, len(data), 60000):
        c.send("DATA", DATA=data[at : at + 60000])
    c.send("DATA", EOF=1)
    return c.result()


def test_read_whole_and_range(box):
    data = os.urandom(300000)
    (box.folder / "f").write_bytes(data)
    kind, fields, output, _ = read(box, "f")
    assert (kind, fields["SIZE"], output["DATA"] == data) == ("RESULT", 300000, True)
    assert fields["MODE"] & 0o170000 == 0o100000 and fields["MTIME_NS"] > 0
    assert read(box, "f", OFFSET=100, LIMIT_BYTES=5)[2]["DATA"] == data[100:105]
    assert read(box, "f", OFFSET=1 << 40)[2]["DATA"] == b""


def test_write_is_atomic_keeps_the_mode_and_makes_folders(box):
    target = box.folder / "script"
    target.write_text("old")
    target.chmod(0o750)
    data = os.urandom(200000)
    assert write(box, "script", data)[1]["SIZE"] == 200000
    assert target.read_bytes() == data and target.stat().st_mode & 0o777 == 0o750
    assert write(box, "a/b/c/new", b"x", MODE=0o600)[0] == "RESULT"
    assert (box.folder / "a/b/c/new").read_bytes() == b"x"
    assert (box.folder / "a/b/c/new").stat().st_mode & 0o777 == 0o600
    assert write(box, "n" * 255, b"long")[0] == "RESULT"


def test_write_that_breaks_off_changes_nothing(box):
    (box.folder / "f").write_text("old")
    c = box.request("WRITE", PATH="f", NAME=ROOT)
    c.send("DATA", DATA=b"half")
    c.close()
    time.sleep(0.2)
    assert (box.folder / "f").read_text() == "old" and os.listdir(box.folder) == ["f"]


def test_write_follows_links_within(box):
    (box.folder / "d").mkdir()
    (box.folder / "real").write_text("old")
    (box.folder / "d" / "link").symlink_to("../real")
    assert write(box, "d/link", b"new")[0] == "RESULT"
    assert (box.folder / "real").read_text() == "new" and (box.folder / "d" / "link").is_symlink()


def test_no_way_out(box):
    f = box.folder
    (f / "abs").symlink_to("/etc/passwd")
    (f / "up").symlink_to("../../../../etc/passwd")
    (f / "dir").symlink_to("/etc")
    (f / "magic").symlink_to("/proc/self/root/etc/passwd")
    (f / "loop").symlink_to("loop")
    for path in ("abs", "up", "dir/passwd", "magic", "../etc/passwd", "/etc/passwd", "x/../../etc/passwd"):
        kind, fields, output, _ = read(box, path)
        assert kind == "ERROR" and output["DATA"] == b"", path
    for path in ("abs", "up", "dir/new", "magic", "../new", "/new", "/etc/new", "dir/sub/new"):
        kind, fields, *_ = write(box, path, b"x")
        assert kind == "ERROR" and fields["CODE"] == EXDEV, path
    assert read(box, "abs")[1]["CODE"] == EXDEV and b"leads out" in read(box, "abs")[1]["TEXT"]
    assert write(box, "loop", b"x")[1]["CODE"] == ELOOP
    assert box.call("LIST", PATH="dir", NAME=ROOT)[1]["CODE"] == EXDEV


def test_special_files_never_block(box):
    os.mkfifo(box.folder / "fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(box.folder / "sock"))
    (box.folder / "sub").mkdir()
    began = time.monotonic()
    for path, word in (("fifo", b"FIFO"), ("sock", b"socket"), ("sub", b"folder")):
        for answer in (read(box, path), write(box, path, b"x")):
            assert answer[0] == "ERROR" and word in answer[1]["TEXT"], path
    assert b"device" in box.call("READ", PATH="dev/zero", NAME="/")[1]["TEXT"]
    assert time.monotonic() - began < 60
    assert box.call("STAT", PATH="fifo", NAME=ROOT)[1]["MODE"] & 0o170000 == 0o010000


def test_list_and_stat(box):
    (box.folder / "b").write_text("12345")
    (box.folder / "a").mkdir()
    (box.folder / "c").symlink_to("b")
    os.mknod(os.fsencode(box.folder) + b"/\xff\n\x1b")
    kind, fields, _, entries = box.call("LIST", NAME=ROOT)
    assert [e["NAME"] for e in entries] == [b"a", b"b", b"c", b"\xff\n\x1b"] and fields == {"COUNT": 4}
    assert entries[1]["SIZE"] == 5 and entries[2]["TARGET"] == b"b"
    assert box.call("STAT", PATH="c", NAME=ROOT)[1]["TARGET"] == b"b"
    assert box.call("STAT", PATH="none", NAME=ROOT)[0] == "ERROR"


def test_list_is_bounded(box):
    for i in range(10100):
        os.mknod(box.folder / str(i))
    kind, fields, _, entries = box.call("LIST", NAME=ROOT)
    assert (len(entries), fields["COUNT"], fields["TOO_MANY"]) == (10000, 10000, 1)


def test_whole_filesystem_as_root(box):
    assert box.call("READ", PATH="/etc/passwd", NAME="/")[0] == "RESULT"
    c = box.request("WRITE", PATH="/tmp/x/y", NAME="/")
    c.send("DATA", DATA=b"z", EOF=1)
    assert c.result()[0] == "RESULT"
    assert box.run(["cat", "/tmp/x/y"])[2][1] == b"z"


def test_files_and_commands_at_once(box):
    (box.folder / "f").write_bytes(b"x" * 1000000)
    other = box.start("sleep 0.5; echo done")
    slow = box.request("READ", PATH="f", NAME=ROOT)
    for _ in range(5):
        assert box.run("sleep 0 & true")[1]["EXIT_CODE"] == 0
    assert len(slow.result()[2]["DATA"]) == 1000000
    assert other.result()[2][1] == b"done\n"
