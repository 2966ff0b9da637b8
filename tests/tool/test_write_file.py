"""`write_file`: whole files, in one step, and everything that cannot be written."""
import base64
import os
import re
import socket

import pytest

import toolkit


@pytest.fixture
def tools(box):
    yield from toolkit.kept(box)


@pytest.fixture
def fresh(box):
    return toolkit.Tools(box)


def test_creates_and_replaces(tools):
    got = tools.ok("write_file", path="src/deep/a.txt", content="one\ntwo")
    assert got.text == "Created src/deep/a.txt: 2 lines, 7 bytes.\n"
    assert got.data == {"path": "src/deep/a.txt", "action": "created", "bytes": 7, "lines": 2, "size": 7, "executable": False}
    assert tools.get("src/deep/a.txt") == b"one\ntwo"
    assert tools.ok("write_file", path="src/deep/a.txt", content="").text == "Replaced src/deep/a.txt: 0 lines, 0 bytes.\n"
    assert tools.get("src/deep/a.txt") == b""
    assert tools.sh("ls -A src/deep") == "a.txt\n"


def test_goes_to_the_folder_with_apply(fresh):
    fresh.ok("write_file", "--apply", path="new.txt", content="grün 漢\n")
    assert (fresh.box.workspace / "new.txt").read_text() == "grün 漢\n"
    fresh.ok("write_file", path="other.txt", content="x")
    assert not (fresh.box.workspace / "other.txt").exists()


def test_modes(tools):
    tools.sh("echo x > kept; chmod 0640 kept; echo x > script; chmod 0600 script")
    tools.ok("write_file", path="kept", content="y")
    assert tools.ok("write_file", path="script", content="#!/bin/sh\necho ran\n", executable=True).data["executable"]
    assert tools.ok("write_file", path="new", content="#!/bin/sh\necho new\n", executable=True).data["executable"]
    assert tools.sh("stat -c %a kept script new; ./script; ./new") == "640\n700\n755\nran\nnew\n"


def test_appends(tools):
    assert tools.ok("write_file", path="log", content="a\n", append=True).data["action"] == "created"
    tools.sh("ln log other")
    got = tools.ok("write_file", path="log", content="b\n", append=True)
    assert got.data["action"] == "appended" and got.data["size"] == 4
    assert "it has 4 bytes now" in got.text
    assert tools.get("other") == b"a\nb\n"  # the same file


def test_bytes_of_any_kind(tools):
    data = bytes(range(256)) * 5000
    got = tools.ok("write_file", path="b", content_base64=base64.b64encode(data).decode())
    assert got.data["bytes"] == len(data) and tools.get("b") == data
    assert "is not base64" in tools.fails("write_file", path="b", content_base64="a b=")
    assert "give either content or content_base64" in tools.fails("write_file", path="b")
    assert "give either content or content_base64" in tools.fails("write_file", path="b", content="", content_base64="")
    assert tools.get("b") == data


def test_links(tools):
    tools.sh("mkdir d; echo x > target; ln -s ../target d/link; ln -s /tmp/out out; ln -s missing dangling; ln -s loop loop;"
             "ln -s / root; chmod 700 d")
    tools.ok("write_file", path="d/link", content="through\n")
    assert tools.get("target") == b"through\n" and tools.sh("readlink d/link") == "../target\n"
    tools.ok("write_file", path="dangling", content="made\n")
    assert tools.get("missing") == b"made\n"
    assert "leads out of /workspace" in tools.fails("write_file", path="out", content="x")
    assert "leads out of /workspace" in tools.fails("write_file", path="root/tmp/x", content="x")
    assert "leads out of /workspace" in tools.fails("write_file", path="../x", content="x")
    assert "loop" in tools.fails("write_file", path="loop", content="x")
    assert tools.sh("ls -d /tmp/out /tmp/x 2>/dev/null || true") == ""
    tools.ok("write_file", path="/tmp/own", content="the box's own\n")
    assert tools.get("/tmp/own") == b"the box's own\n"


def test_what_is_no_regular_file(tools):
    tools.sh("mkdir d; mkfifo fifo; echo x > file")
    assert "d: is a folder" in tools.fails("write_file", path="d", content="x")
    assert "irectory" in tools.fails("write_file", path="d/", content="x")
    assert "fifo: is a FIFO" in tools.fails("write_file", path="fifo", content="x")
    assert "is a device" in tools.fails("write_file", path="/dev/null", content="x")
    assert "ot a directory" in tools.fails("write_file", path="file/x", content="x")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tools.box.workspace / "sock"))
        assert "sock: is a socket" in tools.fails("write_file", path="sock", content="x")


def test_missing_permission(tools):
    tools.sh("mkdir shut; echo x > shut/f; chmod 555 shut; echo x > ro; chmod 444 ro; mkdir no; chmod 0 no")
    assert "ermission denied" in tools.fails("write_file", path="shut/new", content="x")
    assert "ermission denied" in tools.fails("write_file", path="shut/f", content="y")
    assert "ermission denied" in tools.fails("write_file", path="no/f", content="y")
    assert "ro: is write-protected (mode 0444)" in tools.fails("write_file", path="ro", content="y")
    assert "ro: is write-protected (mode 0444)" in tools.fails("write_file", path="ro", content="y", append=True)
    assert tools.get("ro") == b"x\n"


def test_a_workspace_that_is_read_only(fresh):
    fresh.box.put("a", "x")
    assert "--mode ro" in fresh.fails("write_file", "--mode", "ro", path="a", content="y")
    assert "--mode ro" in fresh.fails("write_file", "--mode", "ro", path="new/b", content="y")
    assert (fresh.box.workspace / "a").read_text() == "x"


def test_a_full_disk(box):
    tools = toolkit.Tools(box).new("--disk", "4M")
    try:
        tools.ok("write_file", path="a", content="before\n")
        text = tools.fails("write_file", path="a", content="x" * (8 << 20))
        assert "No space left" in text and "--disk" in text
        assert tools.get("a") == b"before\n"
        assert "No space left" in tools.fails("write_file", path="a", content="x" * (8 << 20), append=True)
        assert tools.get("a") == b"before\n"
        assert tools.sh("ls -A") == "a\n"
        tools.ok("write_file", path="a", content="after\n")
    finally:
        tools.close()


def test_paths_that_are_none(tools):
    assert "input.path" in tools.fails("write_file", path="", content="")
    assert "input.path" in tools.fails("write_file", path="a" * 5000, content="")
    assert "name too long" in tools.fails("write_file", path="a" * 300, content="").lower()
    assert tools.fails("write_file", path=".", content="")
    assert tools.fails("write_file", path="..", content="")
    assert "input.content" in tools.fails("write_file", path="a", content=5)
    done = tools.hutch("tool", *tools.where(), "write_file", "-", input=b'{"path": "\xff", "content": ""}')
    assert done.returncode != 0 and "hutch" in done.stderr
    assert tools.sh("ls -A") == ""


READER = """
import os
print(flush=True)
while not os.path.exists("stop"):
    s = open("f").read()
    if len(s) != 100000 or len(set(s)) != 1:
        raise SystemExit(f"torn: {len(s)}")
"""


def test_readers_never_see_a_half(tools):
    """A process in the box reads while the file is replaced: every time it sees one of the contents whole."""
    tools.put("f", "a" * 100000)
    with tools.running("python3", "-c", READER):
        for c in "bcdefghij":
            tools.ok("write_file", path="f", content=c * 100000)


WRITTEN = re.compile(r"(Created|Replaced) f: 1 line, 1 byte\.\n")
REFUSED = re.compile(r"f: (is a folder, not a regular file|Is a directory); list a folder with list_files")


def test_a_file_that_becomes_a_folder(tools):
    """It is written or refused as a folder, and nothing of the attempts stays."""
    counts = {True: 0, False: 0}
    with tools.running("sh", "-c", "echo; while ! [ -e stop ]; do rm -rf f; mkdir f; rmdir f; done; exit 0"):
        while min(counts.values()) < 3 and sum(counts.values()) < 500:
            got = tools.call("write_file", path="f", content="x")
            assert (REFUSED if got.failed else WRITTEN).fullmatch(got.text), got.text
            counts[got.failed] += 1
    assert min(counts.values()) >= 3, counts
    assert tools.sh("rm -rf f stop; ls -A") == ""
    assert tools.ok("write_file", path="f", content="x").text == "Created f: 1 line, 1 byte.\n"


def test_large_content(tools):
    data = os.urandom(3 << 20).hex()
    tools.ok("write_file", path="large", content=data)
    assert tools.sh("wc -c < large").strip() == str(len(data))
