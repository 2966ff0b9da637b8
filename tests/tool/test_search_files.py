"""search_files, from the command line to the files of a box."""
import base64
import os
import random

import pytest

import tree_tools


@pytest.fixture
def tools(box):
    made = tree_tools.Tools(box)
    yield made
    made.end()


def paths(data):
    return [one["path"] for one in data["files"]]


def lines(data):
    return {one["path"]: [match["line"] for match in one["matches"]] for one in data["files"]}


def test_finds_lines_grouped_by_file(tools):
    tree_tools.fill(tools.box, {"b/x.c": "one\nneedle two\nthree\n", "a.c": "needle\nneedle needle\n", "c.c": "nothing\n"})
    data = tools.data("search_files", pattern="needle")
    assert data == {"files": [
        {"path": "a.c", "count": 2, "matches": [
            {"line": 1, "column": 1, "text": "needle", "before": [], "after": []},
            {"line": 2, "column": 1, "text": "needle needle", "before": [], "after": []}]},
        {"path": "b/x.c", "count": 1, "matches": [
            {"line": 2, "column": 1, "text": "needle two", "before": [], "after": []}]}],
        "matches": 3, "files_matched": 2, "files_searched": 3, "binary_skipped": 0, "unreadable": 0, "partly_searched": 0,
        "truncated": False}


def test_text_is_as_grep_writes_it(tools):
    tree_tools.fill(tools.box, {"a": "1\n2\nx3\n4\nx5\n6\n7\n8\n9\nx10\n11\n"})
    assert tools.text("search_files", pattern="x", context=1) == (
        "a\n2-2\n3:x3\n4-4\n5:x5\n6-6\n--\n9-9\n10:x10\n11-11\n\n3 matching lines in 1 file (1 file searched).\n")
    assert tools.text("search_files", pattern="nowhere") == "No matches (1 file searched).\n"


def test_context_lines(tools):
    tree_tools.fill(tools.box, {"a": "1\n2\nx\n4\n5\n6\n"})
    match = tools.data("search_files", pattern="x", context=2)["files"][0]["matches"][0]
    assert (match["before"], match["after"]) == (["1", "2"], ["4", "5"])
    match = tools.data("search_files", pattern="6", context=20)["files"][0]["matches"][0]
    assert (match["before"], match["after"]) == (["1", "2", "x", "4", "5"], [])


def test_options(tools):
    tree_tools.fill(tools.box, {"a.c": "f(x)\nF(X)\n", "b.h": "f(x)\n", "sub/c.c": "f(x)\n", ".hidden.c": "f(x)\n"})
    assert "parenthes" in tools.error("search_files", pattern="f(x")
    assert lines(tools.data("search_files", pattern="f(x", literal=True, path="a.c")) == {"a.c": [1]}
    assert lines(tools.data("search_files", pattern="f(x", literal=True, ignore_case=True, path="a.c")) == {"a.c": [1, 2]}
    assert paths(tools.data("search_files", pattern="f", glob="*.h")) == ["b.h"]
    assert paths(tools.data("search_files", pattern="f", glob=["*.{c,h}", "!sub/"])) == [".hidden.c", "a.c", "b.h"]
    assert paths(tools.data("search_files", pattern="f", glob="sub/*.c")) == ["sub/c.c"]
    assert paths(tools.data("search_files", pattern="f", path="sub")) == ["sub/c.c"]
    assert paths(tools.data("search_files", pattern="f", path="/workspace/sub/../sub/.")) == ["sub/c.c"]
    assert paths(tools.data("search_files", pattern="f", hidden=False)) == ["a.c", "b.h", "sub/c.c"]


def test_ignore_files_are_respected(tools):
    tree_tools.fill(tools.box, {
        ".gitignore": "*.log\n/build/\n!keep.log\n", "a.log": "x", "keep.log": "x", "build/o.c": "x", "src/build/o.c": "x",
        "src/.gitignore": "/gen.c\n", "src/gen.c": "x", "src/deep/gen.c": "x", ".git/config": "x", ".ignore": "vendor\n",
        "vendor/v.c": "x", "src/ok.c": "x"})
    found = paths(tools.data("search_files", pattern="x"))
    assert found == ["keep.log", "src/build/o.c", "src/deep/gen.c", "src/ok.c"]
    assert paths(tools.data("search_files", pattern="x", path="src")) == ["src/build/o.c", "src/deep/gen.c", "src/ok.c"]
    everything = paths(tools.data("search_files", pattern="x", ignored=True))
    assert {"a.log", "build/o.c", "vendor/v.c", "src/gen.c"} <= set(everything) and ".git/config" not in everything
    # What is named is searched, whatever the ignore files say.
    assert paths(tools.data("search_files", pattern="x", path="a.log")) == ["a.log"]
    assert paths(tools.data("search_files", pattern="x", path="build")) == ["build/o.c"]


def test_limits_and_exact_counts(tools):
    tree_tools.fill(tools.box, {f"d{i % 7}/f{i:03}": "x\n" * 5 for i in range(200)})
    data = tools.data("search_files", pattern="x", max_matches=12, max_files=4)
    assert (data["matches"], data["files_matched"], data["files_searched"], data["truncated"]) == (1000, 200, 200, True)
    assert [(one["path"], one["count"], len(one["matches"])) for one in data["files"]] == [
        ("d0/f000", 5, 5), ("d0/f007", 5, 5), ("d0/f014", 5, 2), ("d0/f021", 5, 0)]
    everything = tools.data("search_files", pattern="x", max_matches=1000, max_files=200)
    assert not everything["truncated"]
    assert sum(len(one["matches"]) for one in everything["files"]) == 1000
    text = tools.text("search_files", pattern="x", max_matches=12, max_files=4)
    assert "d0/f021 (5 matching lines, 0 shown)" in text and "Not all are shown" in text


def test_much_text_is_bounded(tools):
    tree_tools.fill(tools.box, {f"f{i:03}": ("x" + "y" * 390 + "\n") * 100 for i in range(50)})
    result = tools.call("search_files", pattern="x", max_matches=10000, max_files=10000, context=5)
    assert result["data"]["truncated"] and result["data"]["matches"] == 5000
    assert len(result["text"]) < 1 << 20


def test_long_lines_are_cut_around_the_match(tools):
    tree_tools.fill(tools.box, {"a.js": "y" * 300_000 + "needle" + "z" * 300_000 + "\n"})
    match = tools.data("search_files", pattern="needle")["files"][0]["matches"][0]
    assert match["column"] == 300_001 and len(match["text"]) == 400 and "needle" in match["text"]
    assert match["cut"]["of"] == 600_006 and 0 < match["cut"]["from"] < 300_000
    assert "[part of a line of 600006 bytes]" in tools.text("search_files", pattern="needle")


def test_a_huge_line(tools):
    tree_tools.fill(tools.box, {"a": b"a" * (20 << 20) + b"\nneedle\n"})
    data = tools.data("search_files", pattern="needle")
    assert lines(data) == {"a": [2]} and data["partly_searched"] == 1


def test_binary_files_are_left(tools):
    tree_tools.fill(tools.box, {"a": b"needle\0\n", "b": "needle\n"})
    data = tools.data("search_files", pattern="needle")
    assert (paths(data), data["binary_skipped"], data["files_searched"]) == (["b"], 1, 1)
    assert "1 binary file skipped" in tools.text("search_files", pattern="needle")


def test_a_sparse_gigabyte(tools):
    tree_tools.fill(tools.box, {"a": "needle\n"})
    os.truncate(tools.box.workspace / "a", 1 << 30)
    data = tools.data("search_files", pattern="needle")
    assert (data["matches"], data["binary_skipped"]) == (0, 1)


def test_bytes_that_are_no_utf8(tools):
    tree_tools.fill(tools.box, {"a": b"x \xff needle\n", b"caf\xe9": b"needle\n"})
    data = tools.data("search_files", pattern="needle")
    assert data["files"][0]["matches"][0]["text"] == "x \ufffd needle"
    assert data["files"][1]["path"] == '"caf\\351"'
    assert base64.b64decode(data["files"][1]["path_base64"]) == b"caf\xe9"
    assert paths(tools.data("search_files", pattern="x . needle")) == []
    assert tools.data("search_files", pattern="n(e+)dle")["matches"] == 2


def test_unicode(tools):
    tree_tools.fill(tools.box, {"ä/ö": "Straße\nÉCOLE\n"})
    assert lines(tools.data("search_files", pattern=r"^\w{6}$")) == {"ä/ö": [1]}
    assert lines(tools.data("search_files", pattern="école", ignore_case=True)) == {"ä/ö": [2]}
    assert lines(tools.data("search_files", pattern="école", ignore_case=True, literal=True)) == {"ä/ö": [2]}


def test_names_that_would_break_the_text(tools):
    tree_tools.fill(tools.box, {"a\nb": "needle\n", "esc\x1b[2J": "needle\x1b[2J\n"})
    data = tools.data("search_files", pattern="needle")
    assert paths(data) == ["a\nb", "esc\x1b[2J"]
    assert tools.text("search_files", pattern="needle").splitlines()[0] == '"a\\nb"'


def test_bad_patterns(tools):
    tree_tools.fill(tools.box, {"a": "x\n"})
    said = tools.error("search_files", pattern="foo[")
    assert "at offset 4" in said and "terminating ]" in said
    assert tools.error("search_files", pattern="").startswith("input.pattern: ")
    assert "line end" in tools.error("search_files", pattern="a\\nb")
    assert tools.error("search_files", pattern="a" * 8193).startswith("input.pattern: ")
    assert "glob" in tools.error("search_files", pattern="a", glob="{a,b}" * 12)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}[b!]!"])
def test_catastrophic_patterns_end(tools, pattern):
    tree_tools.fill(tools.box, {"sub/a": "ok\n" + "a" * 60 + "!\n"})
    said = tools.error("search_files", pattern=pattern)
    assert said.startswith("pattern: it tries too many ways to match (sub/a, line 2)") and "make it simpler" in said


def test_paths_that_cannot_be_searched(tools):
    tree_tools.fill(tools.box, {"a": "x\n"})
    os.symlink("/etc", tools.box.workspace / "out")
    os.mkfifo(tools.box.workspace / "fifo")
    tree_tools.own(tools.box)
    assert tools.error("search_files", pattern="x", path="missing") == (
        "missing: No such file or directory; list_files without a path lists the workspace")
    assert "leads out of /workspace" in tools.error("search_files", pattern="x", path="out")
    assert "leads out of /workspace" in tools.error("search_files", pattern="x", path="../../etc")
    assert tools.error("search_files", pattern="x", path="fifo") == "fifo: is a FIFO, not a regular file"


def test_other_folders_of_the_box(tools):
    tree_tools.fill(tools.box, {"a": "x\n"})
    data = tools.data("search_files", pattern="^agent:", path="/etc/passwd")
    assert paths(data) == ["/etc/passwd"]
    data = tools.data("search_files", pattern="^agent:", path="/etc", glob="passwd")
    assert paths(data) == ["/etc/passwd"]


def test_links_and_special_files_are_not_followed(tools):
    tree_tools.fill(tools.box, {"d/a": "needle\n"})
    os.symlink("d", tools.box.workspace / "again")
    os.symlink("..", tools.box.workspace / "d" / "up")
    os.symlink("a", tools.box.workspace / "d" / "same")
    os.mkfifo(tools.box.workspace / "d" / "fifo")
    tree_tools.own(tools.box)
    data = tools.data("search_files", pattern="needle")
    assert (paths(data), data["files_searched"]) == (["d/a"], 1)
    # A link within the workspace that is named is where the search begins.
    assert paths(tools.data("search_files", pattern="needle", path="again")) == ["again/a"]


def test_what_cannot_be_read_is_counted(tools):
    tree_tools.fill(tools.box, {"a": "needle\n", "closed": "needle\n", "locked/b": "needle\n"})
    os.chmod(tools.box.workspace / "closed", 0)
    os.chmod(tools.box.workspace / "locked", 0)
    data = tools.data("search_files", pattern="needle")
    os.chmod(tools.box.workspace / "locked", 0o755)
    assert (paths(data), data["unreadable"]) == (["a"], 2)


def test_deep_nesting(tools):
    tools.start()
    tools.python("""
import os
for i in range(500):
    os.mkdir(f"folder-number-{i}")
    os.chdir(f"folder-number-{i}")
open("file", "w").write("needle")
""")
    data = tools.data("search_files", pattern="needle")
    assert data["matches"] == 1 and data["files"][0]["path"].count("/") == 500


def test_one_folder_with_many_files(tools):
    tools.start("--disk", "2G")
    tools.shell("mkdir many && cd many && seq 1 100000 | xargs touch && echo needle >> 77777")
    data = tools.data("search_files", pattern="needle")
    assert (paths(data), data["files_searched"]) == (["many/77777"], 100_000)


def test_while_files_come_and_go(tools):
    tree_tools.fill(tools.box, {f"still/{i:03}": "needle\n" for i in range(100)})
    tools.start()
    tools.background("echo begun; i=0; while :; do i=$((i + 1)); mkdir -p d$((i % 9))/e; echo needle > d$((i % 9))/e/f; "
                     "mv d$((i % 9)) still/m$((i % 5)) 2>/dev/null; rm -rf d$((i % 7)) still/m$((i % 3)); "
                     "ln -sfn / d$((i % 5)); rm -f d$((i % 4)); done")
    for _ in range(20):
        data = tools.data("search_files", pattern="needle", max_files=1000)
        found = paths(data)
        assert [one for one in found if one[6:].isdigit()] == [f"still/{i:03}" for i in range(100)]
        assert found == sorted(found, key=lambda path: path.split("/"))


@pytest.mark.parametrize("pids", [2, 3, 4, 5])
def test_in_a_box_with_hardly_any_processes(tools, pids):
    """As many threads as there is room for; with none, the worker does it alone."""
    tree_tools.fill(tools.box, {f"{i}/a": "needle\n" for i in range(20)})
    tools.start("--pids", str(pids))
    assert tools.data("search_files", pattern="needle")["matches"] == 20


def test_same_answer_each_time(tools):
    chance = random.Random(1)
    tree_tools.fill(tools.box, {f"{chance.randrange(30)}/{chance.randrange(30)}/{i}": "e\n" * chance.randrange(9) for i in range(800)})
    tools.start()
    first = tools.data("search_files", pattern="e", max_matches=50, max_files=20)
    for _ in range(5):
        assert tools.data("search_files", pattern="e", max_matches=50, max_files=20) == first
