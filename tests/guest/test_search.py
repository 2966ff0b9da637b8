"""SEARCH and TREE as the guest answers them, where a tool cannot ask for it."""
import errno
import time

from wire import ROOT


def search(box, pattern, **fields):
    return box.call("SEARCH", PATTERN=pattern, NAME=ROOT, **fields)


def count_processes(box):
    return int(box.run("ls -d /proc/[0-9]* | wc -l")[2][1])


def test_answer(box):
    (box.folder / "a").write_text("one\ntwo\nthree\n")
    kind, result, _, entries = search(box, "t", CONTEXT=1)
    assert kind == "RESULT"
    assert entries == [
        {"PATH": b"a", "COUNT": 2},
        {"LINE": 2, "COLUMN": 1, "SIZE": 3, "TEXT": b"two", "BEFORE": b"one", "AFTER": b"three"},
        {"LINE": 3, "COLUMN": 1, "SIZE": 5, "TEXT": b"three", "BEFORE": b"two"}]
    assert result == {"COUNT": 2, "FILES_MATCHED": 1, "SEARCHED": 1, "BINARY": 0, "UNREADABLE": 0, "PARTLY": 0}


def test_bad_requests(box):
    for fields, why in [({}, b"pattern: is missing"), ({"PATTERN": ""}, b"pattern: is empty"), ({"PATTERN": "x" * 8193}, b"longer than"),
                        ({"PATTERN": "x", "GLOB": ["*"] * 65}, b"more than 64"), ({"PATTERN": "x", "GLOB": "x" * 2049}, b"longer than"),
                        ({"PATTERN": "x", "GLOB": "!"}, b"is empty"), ({"PATTERN": b"\xff"}, b"UTF-8 error")]:
        kind, error, _, _ = box.call("SEARCH", NAME=ROOT, **fields)
        assert (kind, error["CODE"]) == ("ERROR", errno.EINVAL) and why in error["TEXT"], error


def test_only_the_beginning_of_a_large_file(box):
    (box.folder / "a").write_text("x\n" * 500_000)
    kind, result, _, _ = search(box, "x", FILE_MAX=300_000)
    assert kind == "RESULT" and result["PARTLY"] == 1
    assert 100_000 < result["COUNT"] < 500_000


def test_limits_of_the_answer(box):
    for i in range(20):
        (box.folder / f"{i:02}").write_text("x" * 100 + "\n" + "x\n" * 9)
    _, result, _, entries = search(box, "x", LIMIT_BYTES=500)
    assert result["TOO_MANY"] == 1 and result["COUNT"] == 200
    assert sum("LINE" in one for one in entries) in range(1, 9)
    assert sum("PATH" in one for one in entries) == 20


def test_ends_with_its_connection(box):
    """A search that would take minutes: each line costs nearly as many steps as are allowed."""
    (box.folder / "a").write_text(("a" * 17 + "!\n") * 400_000)
    before = count_processes(box)
    connection = box.request("SEARCH", PATTERN="(a+)+$", NAME=ROOT)
    while count_processes(box) == before:
        pass
    connection.close()
    deadline = time.monotonic() + 15
    while count_processes(box) > before:
        assert time.monotonic() < deadline


def test_tree_counts_what_it_does_not_tell(box):
    for folder in ("a", "b", "b/c"):
        (box.folder / folder).mkdir()
        for i in range(10):
            (box.folder / folder / str(i)).touch()
    kind, result, _, entries = box.call("TREE", NAME=ROOT, LIMIT_ENTRIES=5)
    assert (kind, result["COUNT"], result["REST"], result["TOO_MANY"]) == ("RESULT", 33, 28, 1)
    assert [one["PATH"] for one in entries] == [b"a", b"a/0", b"a/1", b"a/2", b"b"]
    kind, result, _, entries = box.call("TREE", NAME=ROOT, LIMIT_ENTRIES=0)
    assert (result["COUNT"], result["REST"], entries) == (33, 33, [])


def test_too_many_ignore_rules(box):
    for i in range(40):
        (box.folder / str(i)).mkdir()
        (box.folder / str(i) / ".gitignore").write_text("a\n" * 500_000)
    kind, error, _, _ = box.call("TREE", NAME=ROOT)
    assert (kind, error["CODE"]) == ("ERROR", errno.E2BIG)
    kind, result, _, _ = box.call("TREE", NAME=ROOT, IGNORED=1)
    assert (kind, result["COUNT"]) == ("RESULT", 80)

