"""`edit_file`: exact edits, what it says when they do not fit, and that it loses nobody's bytes."""
import os
import re

import pytest

import toolkit

SOURCE = """#include <stdio.h>

int main(void)
{
\tif (argc > 1) {
\t\tprintf("hello \u2018world\u2019\\n");
\t\treturn 0;
\t}
\tputs("none");
\treturn 1;
}
"""


@pytest.fixture
def tools(box):
    yield from toolkit.kept(box)


@pytest.fixture
def fresh(box):
    return toolkit.Tools(box)


# Edits that fit.


def test_one_edit(tools):
    tools.put("src/a.c", SOURCE)
    tools.sh("chmod 0640 src/a.c")
    got = tools.ok("edit_file", path="src/a.c", old="return 1;", new="return 2;\n\t/* end */")
    assert got.text == ("Edited src/a.c: 1 replacement. It reads now:\n     7\t\t\treturn 0;\n     8\t\t}\n"
                        "     9\t\tputs(\"none\");\n    10\t\treturn 2;\n    11\t\t/* end */\n    12\t}\n")
    assert got.data["diff"] == ("@@ -7,5 +7,6 @@\n \t\treturn 0;\n \t}\n \tputs(\"none\");\n-\treturn 1;\n+\treturn 2;\n"
                                "+\t/* end */\n }\n")
    assert (got.data["replacements"], got.data["first_line"]) == (1, 10)
    assert tools.get("src/a.c").decode() == SOURCE.replace("return 1;", "return 2;\n\t/* end */")
    assert tools.sh("stat -c %a src/a.c; ls -A src") == "640\na.c\n"


def test_goes_to_the_folder_with_apply(fresh):
    fresh.box.put("a", "one\n")
    fresh.ok("edit_file", "--apply", path="a", old="one", new="two")
    assert (fresh.box.workspace / "a").read_text() == "two\n"


def test_all_places(tools):
    tools.put("a", "x x\nx\n" + "y\n" * 20 + "x")
    got = tools.ok("edit_file", path="a", old="x", new="zz", all=True)
    assert got.data["replacements"] == 4 and "   ...\n" in got.text
    assert tools.get("a") == b"zz zz\nzz\n" + b"y\n" * 20 + b"zz"


def test_several_edits_all_or_none(tools):
    tools.put("a", "one\ntwo\nthree\n")
    edits = [{"old": "one", "new": "1"}, {"old": "1\ntwo", "new": "1\n2"}, {"old": "3", "new": "three"}]
    got = tools.call("edit_file", path="a", edits=edits)
    assert got.failed and got.text.startswith("a: edit 3 of 3 does not apply, so no edit was made. `old` is not in the file")
    assert got.data["edit"] == 3 and got.data["reason"] == "not_found"
    assert tools.get("a") == b"one\ntwo\nthree\n"
    assert tools.ok("edit_file", path="a", edits=edits[:2]).data["replacements"] == 2
    assert tools.get("a") == b"1\n2\nthree\n"
    tools.ok("edit_file", path="a", old="three", new="3", edits=[{"old": "3", "new": "III"}])
    assert tools.get("a") == b"1\n2\nIII\n"
    got = tools.ok("edit_file", path="a", edits=[{"old": "III", "new": "x"}, {"old": "x", "new": "III"}])
    assert "the file is as it was" in got.text


def test_line_endings_are_kept(tools):
    tools.put("a", "one\r\ntwo\r\nthree\r\n")
    got = tools.ok("edit_file", path="a", old="one\ntwo\n", new="1\n2\n2b\n")
    assert got.data["line_endings_adapted"] and "line endings were taken as the file has them" in got.text
    assert tools.get("a") == b"1\r\n2\r\n2b\r\nthree\r\n"


def test_bytes_that_are_no_utf8_are_kept(tools):
    tools.put("a", b"\xff\xfe\x00 old \xc3\n\0")
    assert "UTF-16" in tools.fails("edit_file", path="a", old="old", new="new")
    tools.put("a", b"\x00\xff old \xc3\n\0")
    tools.ok("edit_file", path="a", old="old", new="grün")
    assert tools.get("a") == b"\x00\xff gr\xc3\xbcn \xc3\n\0"


def test_large_texts(tools):
    old, new = os.urandom(700_000).hex(), os.urandom(900_000).hex()
    tools.put("a", f"head\n{old}\ntail\n")
    got = tools.ok("edit_file", path="a", old=old, new=new)
    assert len(got.text) < 10000 and "more bytes in this line" in got.text
    assert tools.get("a").decode() == f"head\n{new}\ntail\n"
    tools.put("b", "x\n" * 20000)
    got = tools.ok("edit_file", path="b", old="x", new="y", all=True)
    assert got.data["replacements"] == 20000 and got.data["diff_truncated"]
    assert "the rest of the changes is not shown" in got.text


# Edits that do not fit.


def test_not_unique(tools):
    tools.put("a", "x\ny\nx\n")
    got = tools.call("edit_file", path="a", old="x", new="z")
    assert got.failed and got.text == ("a: `old` occurs 2 times, at lines 1 and 3. Add lines around it until it is unique,"
                                       " or set `all` to replace all of them.\n")
    assert got.data == {"path": "a", "reason": "not_unique", "edit": 1, "lines": [1, 3]}
    tools.put("a", "x\n" * 1000)
    got = tools.call("edit_file", path="a", old="x", new="z")
    assert "1000 times" in got.text and "and more" in got.text and len(got.data["lines"]) == 20


def test_nearest_text_with_what_differs(tools):
    tools.put("a.c", SOURCE)
    old = "    if (argc > 1) {\n        printf(\"hello 'world'\\n\");\n        return 0;\n    }\n"
    got = tools.call("edit_file", path="a.c", old=old, new="x")
    assert got.data == {"path": "a.c", "reason": "not_found", "edit": 1, "nearest": {"first_line": 5, "lines": 4}}
    assert "The nearest text is at lines 5 to 8; 0 of the 4 lines of `old` are there as they are" in got.text
    assert "(line 5 has 1 tab where `old` has 4 spaces)" in got.text and "(line 7 has 2 tabs where `old` has 8 spaces)" in got.text
    quotes = tools.fails("edit_file", path="a.c", old="\t\tprintf(\"hello 'world'\\n\");\n", new="x")
    assert "(line 6 has \u2018 (U+2018) where `old` has ' (U+0027))" in quotes
    assert "\n     7\t\t\treturn 0;\n" in got.text
    text = tools.fails("edit_file", path="a.c", old="\tputs(\"none\");\n\treturn 3;\n}\n", new="x")
    assert "lines 9 to 11; 2 of the 3 lines of `old` are there as they are" in text
    assert "  `old`: \treturn 3;\n  file : \treturn 1;\n" in text
    assert "begins its lines with numbers" in tools.fails("edit_file", path="a.c", old="    10\t\treturn 1;", new="x")
    assert "No text in the file is similar" in tools.fails("edit_file", path="a.c", old="zzzz qqqq", new="x")
    assert "already there, at line 9" in tools.fails("edit_file", path="a.c", old="puts(\"nought\")", new="puts(\"none\")")
    assert tools.get("a.c").decode() == SOURCE


def test_nearest_text_in_a_large_file(tools):
    tools.sh("seq -f 'line %.0f of many, all alike' 1 1000000 > big")
    got = tools.call("edit_file", path="big", old="line 900000 of many, all  alike\nline 900001 of many", new="x")
    assert got.data["nearest"] == {"first_line": 900000, "lines": 2}
    got = tools.call("edit_file", path="big", old="line 900000 of many, all alike\nline 900002 of many, all alike\n", new="x")
    assert got.data["nearest"]["first_line"] in (900000, 900001)
    tools.call("edit_file", path="big", old="completely other words\n" * 500, new="x")


def test_edits_that_mean_nothing(tools):
    tools.put("a", "text\n")
    assert tools.fails("edit_file", path="a", old="", new="x") == "`old` is empty: write_file writes a whole file"
    assert "are the same" in tools.fails("edit_file", path="a", old="text", new="text")
    assert "edit 2 of 2: `old` is empty" in tools.fails(
        "edit_file", path="a", edits=[{"old": "text", "new": "x"}, {"old": "", "new": "x"}])
    assert "give old and new, or edits" in tools.fails("edit_file", path="a")
    assert "old and new go together" in tools.fails("edit_file", path="a", old="text")
    assert "input.edits[0]" in tools.fails("edit_file", path="a", edits=[{"old": "x"}])
    assert "input.edits" in tools.fails("edit_file", path="a", edits=[{"old": "x", "new": "y"}] * 100)
    tools.put("empty", "")
    assert "The file is empty" in tools.fails("edit_file", path="empty", old="x", new="y")


def test_texts_that_are_too_large(tools):
    tools.put("a", "x\n")
    assert "more than 16 MiB" in tools.fails("edit_file", path="a", old="x", new="y" * (17 << 20))
    tools.sh("yes | head -c 68000000 > big")
    assert "has more than 64 MiB" in tools.fails("edit_file", path="big", old="x", new="y")
    tools.sh("yes | head -c 60000000 > big")
    assert "would have more than 64 MiB" in tools.fails("edit_file", path="big", old="y", new="yyy", all=True)
    assert tools.sh("wc -c < big") == "60000000\n"


# Everything that is no file to edit.


def test_what_is_no_regular_file(tools):
    tools.sh("mkdir d; mkfifo fifo; echo x > there.txt")
    assert "d: is a folder" in tools.fails("edit_file", path="d", old="x", new="y")
    assert "fifo: is a FIFO" in tools.fails("edit_file", path="fifo", old="x", new="y")
    assert "is a device" in tools.fails("edit_file", path="/dev/zero", old="x", new="y")
    assert "did you mean 'there.txt'" in tools.fails("edit_file", path="their.txt", old="x", new="y")
    assert "there is no folder 'new'" in tools.fails("edit_file", path="new/a", old="x", new="y")
    assert tools.sh("ls") == "d\nfifo\nthere.txt\n"


def test_links(tools):
    tools.sh("mkdir d; echo x > target; ln -s ../target d/link; ln -s /tmp/out out; ln -s none dangling; ln -s loop loop; echo x > /tmp/out")
    tools.ok("edit_file", path="d/link", old="x", new="y")
    assert tools.get("target") == b"y\n" and tools.sh("readlink d/link") == "../target\n"
    assert "leads out of /workspace" in tools.fails("edit_file", path="out", old="x", new="y")
    assert "leads out of /workspace" in tools.fails("edit_file", path="../tmp/out", old="x", new="y")
    assert "is a link to 'none'" in tools.fails("edit_file", path="dangling", old="x", new="y")
    assert "loop" in tools.fails("edit_file", path="loop", old="x", new="y")
    assert tools.get("/tmp/out") == b"x\n"


def test_missing_permission(tools):
    tools.sh("echo x > secret; chmod 0 secret; echo x > ro; chmod 444 ro; mkdir shut; echo x > shut/f; chmod 555 shut")
    assert "ermission denied" in tools.fails("edit_file", path="secret", old="x", new="y")
    assert "ro: is write-protected (mode 0444)" in tools.fails("edit_file", path="ro", old="x", new="y")
    assert "ermission denied" in tools.fails("edit_file", path="shut/f", old="x", new="y")
    assert tools.get("ro") == b"x\n" and tools.get("shut/f") == b"x\n"


def test_a_workspace_that_is_read_only(fresh):
    fresh.box.put("a", "x")
    assert "--mode ro" in fresh.fails("edit_file", "--mode", "ro", path="a", old="x", new="y")
    assert (fresh.box.workspace / "a").read_text() == "x"


def test_a_full_disk(box):
    tools = toolkit.Tools(box).new("--disk", "4M")
    try:
        tools.put("a", "x\n" + "y" * (2 << 20))
        assert "No space left" in tools.fails("edit_file", path="a", old="x", new="z" * (1 << 20))
        assert tools.get("a") == b"x\n" + b"y" * (2 << 20)
        assert tools.sh("ls -A") == "a\n"
    finally:
        tools.close()


# Others who write the same file.

# An edit that came too late is seen for a moment, before what was written takes its place again.
COUNTER = """
import os, sys, time
print(flush=True)
n = 0
while not os.path.exists("stop"):
    count, rest = open("f").read().split(" ", 1)
    patience = time.monotonic() + 5
    while int(count) != n and time.monotonic() < patience:
        count, rest = open("f").read().split(" ", 1)
    if int(count) != n:
        sys.exit(f"lost: wrote {n}, found {count}")
    n += 1
    open("next", "w").write(f"{n} {rest}")
    os.rename("next", "f")
open("last", "w").write(str(n))
"""


def test_who_replaces_the_file_loses_nothing(tools):
    """A process counts up in the file, each time by a new file in its place: an edit is made in between, or refused."""
    tools.put("f", "0 token " + "x" * 5000)
    outcomes = set()
    with tools.running("python3", "-c", COUNTER):
        for i in range(60):
            got = tools.call("edit_file", path="f", edits=[{"old": "token", "new": "neket"}, {"old": "neket", "new": "token!"}])
            outcomes.add(got.data.get("reason", "made"))
    assert outcomes <= {"made", "changed", "not_found", "being_written"}
    assert tools.get("f").split(b" ")[0] == tools.get("last")


APPENDER = """
import os
print(flush=True)
n = 0
while not os.path.exists("stop"):
    with open("f", "a") as f:
        f.write(f"{n}\\n")
    n += 1
open("last", "w").write(str(n))
"""


def test_who_appends_loses_nothing(tools):
    tools.put("f", "token\n")
    with tools.running("python3", "-c", APPENDER):
        for i in range(60):
            tools.call("edit_file", path="f", old="token\n", new="token\n\n")
    lines = [line for line in tools.get("f").decode().split("\n") if line]
    assert lines == ["token"] + [str(i) for i in range(int(tools.get("last")))]


def test_a_file_that_is_open_for_writing(tools):
    tools.put("f", "text\n")
    with tools.running("sh", "-c", "exec 5>>f; echo; while ! [ -e stop ]; do sleep 0.05; done; echo late >&5"):
        got = tools.call("edit_file", path="f", old="text", new="other")
        assert got.failed and got.data["reason"] == "being_written", got
    assert tools.get("f") == b"text\nlate\n"
    assert tools.sh("ls -A") == "f\nstop\n"


# What an edit says of a file that another process replaces by a folder and back: edited, not there, a folder, changed, or being
# written (the shell that writes it has it open for a moment).
EDITED = re.compile(r"Edited f: 1 replacement\. It reads now:\n +1\tother\n")
REFUSED = re.compile(r"f: (there is no such file(; did you mean 'f'\?)?|No such file or directory|Is a directory.*|is a folder, .*|"
                     r"`old` is not in the file; .*|another process changed it while it was edited; .*|"
                     r"another process has it open for writing, .*)", re.S)


def test_a_file_that_becomes_a_folder(tools):
    with tools.running("sh", "-c", "echo; while ! [ -e stop ]; do rm -rf f; mkdir f; rmdir f; echo text > f; done; exit 0"):
        for _ in range(60):
            got = tools.call("edit_file", path="f", old="text", new="other")
            assert (REFUSED if got.failed else EDITED).fullmatch(got.text), got.text
    assert ".tmp" not in tools.sh("ls -A")
