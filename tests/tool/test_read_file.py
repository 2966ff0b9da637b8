"""`read_file`: lines, bytes, images, and everything that is no file to read."""
import base64
import os
import socket
import struct
import zlib

import pytest

import toolkit


@pytest.fixture
def tools(box):
    yield from toolkit.kept(box, "--disk", "1200M")


@pytest.fixture
def fresh(box):
    return toolkit.Tools(box)


def png(width=1, height=1, extra=b""):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + b"\x7f" * 3 * width for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"tEXt", extra) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# Text.


def test_lines_with_their_numbers(fresh):
    fresh.box.put("a.txt", "one\ntwo\nthree\n")
    got = fresh.ok("read_file", path="a.txt")
    assert got.text == "     1\tone\n     2\ttwo\n     3\tthree\n"
    assert got.data == {"path": "a.txt", "size": 14, "lines": 3, "first_line": 1, "last_line": 3,
                        "content": "one\ntwo\nthree\n", "truncated": False, "long_lines": 0, "encoding": "utf-8",
                        "line_endings": "lf", "final_newline": True, "binary": False}
    assert fresh.ok("read_file", path="/workspace/a.txt").data["content"] == "one\ntwo\nthree\n"
    assert fresh.ok("read_file", path="a.txt", line_numbers=False).text == "one\ntwo\nthree\n"


def test_a_range_of_lines(tools):
    tools.put("n", "".join(f"{i}\n" for i in range(1, 5001)))
    got = tools.ok("read_file", path="n", offset=10, limit=2)
    assert got.text == "    10\t10\n    11\t11\n[lines 10 to 11 of 5000; continue with offset 12]\n"
    assert got.data["truncated"] and got.data["next_offset"] == 12 and got.data["lines"] == 5000
    got = tools.ok("read_file", path="n", offset=-2)
    assert got.text == "  4999\t4999\n  5000\t5000\n"
    got = tools.ok("read_file", path="n")
    assert (got.data["last_line"], got.data["next_offset"]) == (2000, 2001)
    assert tools.ok("read_file", path="n", offset=0, limit=1).data["first_line"] == 1
    assert tools.fails("read_file", path="n", offset=5001) == "n: there is no line 5001: the file has 5000 lines"


def test_the_answer_is_bounded_by_whole_lines(tools):
    tools.put("wide", ("x" * 999 + "\n") * 200)
    got = tools.ok("read_file", path="wide")
    assert got.data["content"] == ("x" * 999 + "\n") * 65
    assert got.text.endswith("[lines 1 to 65 of 200; continue with offset 66]\n")


def test_long_lines_are_cut(tools):
    tools.put("long", "ä" * 2000 + "\n" + "ä" * 2001 + "\nend")
    got = tools.ok("read_file", path="long")
    assert got.data["content"] == "ä" * 2000 + "\n" + "ä" * 2000 + " … [1 more characters in this line]\nend"
    assert got.data["long_lines"] == 1


def test_bytes(tools):
    tools.put("a", "0123456789" * 10)
    got = tools.ok("read_file", path="a", byte_offset=95, byte_limit=3)
    assert got.text == "567\n[bytes 95 to 97 of 100; continue with byte_offset 98]\n"
    assert got.data["content"] == "567" and got.data["next_offset"] == 98
    assert tools.ok("read_file", path="a", byte_offset=98).text == "89\n"
    assert tools.ok("read_file", path="a", byte_offset=200).text == "[no bytes from 200 on: the file has 100]\n"
    assert "give one pair" in tools.fails("read_file", path="a", byte_offset=1, limit=3)


def test_what_is_no_plain_text(tools):
    tools.put("crlf", "a\r\nb\r\n")
    got = tools.ok("read_file", path="crlf")
    assert got.text == "     1\ta\n     2\tb\n[lines end with CRLF; edit_file keeps that]\n"
    assert (got.data["content"], got.data["line_endings"]) == ("a\r\nb\r\n", "crlf")
    tools.put("empty", "")
    assert tools.ok("read_file", path="empty").text == "[the file is empty]\n"
    assert tools.ok("read_file", path="empty").data["lines"] == 0
    tools.put("latin1", "gr\xfcn\n".encode("latin-1"))
    got = tools.ok("read_file", path="latin1")
    assert got.data["content"] == "gr\ufffdn\n" and got.data["encoding"] == "unknown"
    assert "not UTF-8" in got.text
    tools.put("bom", b"\xef\xbb\xbfx\n")
    got = tools.ok("read_file", path="bom")
    assert got.text == "     1\tx\n[the file begins with a byte order mark]\n" and got.data["encoding"] == "utf-8-bom"
    for name in ("utf-16le", "utf-16be"):
        tools.put("wide", ("\ufeff" + "grün\n漢 \U0001f407").encode(name))
        got = tools.ok("read_file", path="wide")
        assert got.data["content"] == "grün\n漢 \U0001f407" and got.data["encoding"] == name
    tools.put("open", "no newline")
    assert tools.ok("read_file", path="open").data["final_newline"] is False
    tools.put("nul", b"a" * 9000 + b"\nb\0c\n")
    assert tools.ok("read_file", path="nul", offset=2).text == "     2\tb\u2400c\n"


def test_files_of_proc(tools):
    got = tools.ok("read_file", path="/proc/self/status")
    assert "Name:" in got.data["content"] and got.data["size"] == 0
    assert tools.ok("read_file", path="/proc/self/status", offset=-1).data["first_line"] > 10


# Binary files.


def test_binary_is_said_to_be_so(tools):
    got = tools.ok("read_file", path="/bin/true")
    assert "it seems to be an ELF program" in got.text and "byte_offset" in got.text
    assert got.data["binary"] and got.data["size"] > 1000 and "content" not in got.data
    tools.put("b", bytes(range(20)))
    assert tools.ok("read_file", path="b").data["kind"] == "binary data"
    got = tools.ok("read_file", path="b", byte_offset=1, byte_limit=18)
    assert got.text == ("00000001  01 02 03 04 05 06 07 08  09 0a 0b 0c 0d 0e 0f 10  |................|\n"
                        "00000011  11 12                                             |..|\n"
                        "[bytes 1 to 18 of 20; continue with byte_offset 19]\n")
    tools.put("b", os.urandom(20) + bytes(100000))
    got = tools.ok("read_file", path="b", byte_offset=0)
    assert got.data["next_offset"] == 8192


def test_images_by_their_bytes(tools):
    image = png()
    tools.put("picture.txt", image)
    got = tools.ok("read_file", path="picture.txt")
    assert got.image["mime"] == "image/png" and base64.b64decode(got.image["base64"]) == image
    assert got.data["kind"] == "image/png"
    large = png(extra=os.urandom(3 << 20))
    tools.put("large.png", large)
    assert base64.b64decode(tools.ok("read_file", path="large.png").image["base64"]) == large
    tools.put("no.png", "text\n")
    assert tools.ok("read_file", path="no.png").data["content"] == "text\n"


def test_an_image_that_is_too_large(tools):
    tools.sh("head -c 6000000 /dev/zero > zeros")
    tools.sh(r"printf '\211PNG\r\n\032\n' > big.png; cat zeros >> big.png")
    assert tools.fails("read_file", path="big.png") == (
        "big.png: is an image of 6000008 bytes; images over 5 MiB are not shown")


# Large files.


def test_a_gigabyte_of_text(tools):
    tools.sh("yes 'the quick brown fox jumps over the lazy dog, line after line after line' | head -n 13700000 > big",
             timeout=120)
    got = tools.ok("read_file", path="big", limit=10)
    assert got.data["last_line"] == 10 and "lines" not in got.data and "of more than" in got.text
    assert got.data["size"] > 1_000_000_000 - 20_000_000
    got = tools.ok("read_file", path="big", offset=5_000_000, limit=3)
    assert (got.data["first_line"], got.data["last_line"]) == (5_000_000, 5_000_002)
    got = tools.ok("read_file", path="big", offset=-10)
    assert (got.data["first_line"], got.data["last_line"], got.data["lines"]) == (13_699_991, 13_700_000, 13_700_000)
    assert tools.fails("read_file", path="big", offset=13_700_001).endswith("the file has 13700000 lines")


def test_a_sparse_gigabyte(tools):
    tools.sh("printf 'head\\n' > sparse; truncate -s 1G sparse; printf '\\ntail\\n' >> sparse")
    got = tools.ok("read_file", path="sparse")
    assert got.data["kind"] == "binary data"
    tools.sh("yes head | head -n 4000 > sparse; truncate -s 1G sparse; printf '\\ntail\\n' >> sparse")
    assert tools.ok("read_file", path="sparse", offset=-1).text == "  4002\ttail\n"
    got = tools.ok("read_file", path="sparse", offset=4001, limit=1)
    assert "more characters in this line" in got.text and len(got.text) < 10000


def test_a_line_that_is_too_far(tools):
    tools.sh("yes head | head -n 4000 > far; truncate -s 6G far")
    assert "was not found in the first 4 GiB" in tools.fails("read_file", path="far", offset=-1)
    assert "was not found in the first 4 GiB" in tools.fails("read_file", path="far", offset=9000)


def test_a_file_that_grows(tools):
    tools.put("log", "first\n")
    with tools.running("sh", "-c", "echo; while ! [ -e stop ]; do echo line >> log; done; exit 0"):
        for _ in range(5):
            got = tools.ok("read_file", path="log", limit=1)
            assert got.data["content"] == "first\n"
            got = tools.ok("read_file", path="log", offset=-5)
            assert got.data["first_line"] <= got.data["last_line"]


# Everything that is no file to read.


def test_missing_files_name_what_is_like_them(tools):
    tools.sh("mkdir -p src/tool; touch src/tool/read_file.c src/tool/read_fiel.c src/main.c README.md; ln -s nowhere dangling")
    say = tools.fails
    assert say("read_file", path="quux") == "quux: there is no such file"
    assert say("read_file", path="Readme.md") == "Readme.md: there is no such file; did you mean 'README.md'?"
    assert say("read_file", path="src/tools/read_file.c") == (
        "src/tools/read_file.c: there is no folder 'src/tools'; did you mean 'src/tool'?")
    assert "did you mean 'src/tool/read_file.c'?" in say("read_file", path="src/tool/read_file.cc")
    assert say("read_file", path="dangling") == "dangling: is a link to 'nowhere', which does not exist"
    assert "there is no folder '/usr/bni'; did you mean '/usr/bin'" in say("read_file", path="/usr/bni/env")


def test_links(tools):
    tools.sh("echo in > target; mkdir d; ln -s ../target d/link; ln -s /etc/passwd out; ln -s loop loop; ln -s ../.. d/up")
    assert tools.ok("read_file", path="d/link").data["content"] == "in\n"
    assert "leads out of /workspace" in tools.fails("read_file", path="out")
    assert "leads out of /workspace" in tools.fails("read_file", path="d/up/etc/passwd")
    assert "loop" in tools.fails("read_file", path="loop")
    assert tools.ok("read_file", path="/etc/passwd").data["lines"] > 0


def test_what_is_no_regular_file(tools):
    tools.sh("mkdir d; mkfifo fifo")
    assert tools.fails("read_file", path="d") == (
        "d: is a folder, not a regular file; list a folder with list_files")
    assert tools.fails("read_file", path="fifo") == "fifo: is a FIFO, not a regular file"
    assert tools.fails("read_file", path="/dev/zero") == "/dev/zero: is a device, not a regular file"
    assert "folder" in tools.fails("read_file", path=".")


def test_a_socket(tools):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tools.box.workspace / "sock"))
        assert tools.fails("read_file", path="sock") == "sock: is a socket, not a regular file"


def test_missing_permission(tools):
    tools.sh("echo x > secret; chmod 0 secret; mkdir shut; echo x > shut/f; chmod 0 shut")
    assert "ermission denied" in tools.fails("read_file", path="secret")
    assert "ermission denied" in tools.fails("read_file", path="shut/f")


def test_paths_that_are_none(tools):
    assert "input.path" in tools.fails("read_file", path="")
    assert "leads out of /workspace" in tools.fails("read_file", path="../etc/passwd")
    assert "leads out of /workspace" in tools.fails("read_file", path="./../..")
    assert "input.path" in tools.fails("read_file", path="a" * 5000)
    assert "name too long" in tools.fails("read_file", path="a" * 300).lower()
    done = tools.hutch("tool", *tools.where(), "read_file", '{"path": "a\\u0000b"}')
    assert done.returncode != 0 and "hutch" in done.stderr
    done = tools.hutch("tool", *tools.where(), "read_file", "-", input=b'{"path": "\xff"}')
    assert done.returncode != 0 and "hutch" in done.stderr
    assert "input.offest" in tools.fails("read_file", path="a", offest=1)


def test_a_file_that_becomes_a_folder(tools):
    """Whatever is there when it is opened is what is told; the call ends, and never reads a folder."""
    tools.put("f", "text\n")
    with tools.running("sh", "-c", "echo; while ! [ -e stop ]; do rm -f f; mkdir f; rmdir f; echo text > f; done; exit 0"):
        for _ in range(20):
            got = tools.call("read_file", path="f")
            if not got.failed:
                assert got.data["content"] in ("text\n", "")
            else:
                assert "f: " in got.text
