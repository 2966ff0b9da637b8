"""REPORT, asked of the built guest over the wire: which files it reads, and what it refuses."""
import os

from wire import ROOT

EINVAL, ENOENT, EACCES, EXDEV, E2BIG, EFBIG = 22, 2, 13, 18, 7, 27
JUNIT, JSON, GO, MESON, TAP, LIBTEST, AUTOMAKE = range(1, 8)
PASSED, FAILED, ERROR, SKIPPED = range(1, 5)
ONE = '<testsuite name="s"><testcase name="a"/></testsuite>'


def put(box, name, text):
    path = box.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def report(box, path, **fields):
    kind, result, _, entries = box.call("REPORT", PATH=path, NAME=ROOT, **fields)
    return kind, result, entries


def names(entries):
    return [e["NAME"].decode() for e in entries]


def test_one_file(box):
    put(box, "r.xml", '<testsuite><testcase name="a" time="0.5"/><testcase name="b" file="x.py" line="3"><failure message="no"/>'
                      '</testcase></testsuite>')
    kind, result, entries = report(box, "r.xml")
    assert kind == "RESULT" and entries == [
        {"NAME": b"a", "OUTCOME": PASSED, "DURATION_NS": 500000000},
        {"NAME": b"b", "OUTCOME": FAILED, "TEXT": b"no", "PATH": b"x.py", "LINE": 3}]
    assert result == {"FORMAT": JUNIT, "COUNT": 1, "PASSED": 1, "FAILED": 1, "ERRORS": 0, "SKIPPED": 0, "DURATION_NS": 500000000}


def test_folder_and_pattern(box):
    for name in ("out/b.xml", "out/deep/a.xml", ".git/c.xml", "node_modules/d.xml", "out/.hidden.xml"):
        put(box, name, ONE.replace('"a"', f'"{name}"'))
    put(box, "out/notes.txt", "nothing")
    assert names(report(box, "out/**/*.xml")[2]) == ["s > out/b.xml", "s > out/deep/a.xml"]
    assert names(report(box, "**/*.xml")[2]) == ["s > out/b.xml", "s > out/deep/a.xml"]
    assert names(report(box, "out/*.xml")[2]) == ["s > out/b.xml"]
    assert report(box, "none/*.xml")[:2] == ("ERROR", {"CODE": ENOENT, "TEXT": b"none: No such file or directory"})
    kind, result, _ = report(box, "out/*.json")
    assert kind == "RESULT" and result["COUNT"] == 0


def test_tap_files_name_their_tests(box):
    put(box, "t/a.t", "1..1\nok 1 - x\n")
    put(box, "t/b.t", "1..1\nnot ok 1 - x\n")
    assert names(report(box, "t", FORMAT=TAP)[2]) == ["a.t > x", "b.t > x"]


def test_automake_log_is_the_message(box):
    put(box, "a.trs", ":test-result: FAIL\n:recheck: yes\n")
    put(box, "a.log", "what went wrong\n")
    os.symlink("/etc/passwd", box.folder / "b.log")
    put(box, "b.trs", ":test-result: FAIL\n")
    _, _, entries = report(box, "*.trs")
    assert [e.get("TEXT") for e in entries] == [b"what went wrong", None]
    assert names(entries) == ["a", "b"]


def test_older_reports_are_counted_only(box):
    new, old = put(box, "new.xml", ONE), put(box, "old.xml", ONE)
    os.utime(new, ns=(10**18, 10**18))
    os.utime(old, ns=(10**18 - 1, 10**18 - 1))
    _, result, entries = report(box, "*.xml", NEWER_NS=10**18)
    assert len(entries) == 1 and result["STALE"] == 1 and result["COUNT"] == 1


def test_what_is_no_regular_file(box):
    os.mkfifo(box.folder / "fifo")
    os.symlink("/etc/passwd", box.folder / "out")
    os.symlink("/dev/zero", box.folder / "zero")
    put(box, "real.xml", ONE)
    os.symlink("real.xml", box.folder / "link.xml")
    for name, code, word in [("fifo", EINVAL, "FIFO"), ("out", EXDEV, "leads out"), ("zero", EXDEV, "leads out"),
                             ("../x", EXDEV, "leads out"), ("nothing", ENOENT, "nothing")]:
        kind, error, _ = report(box, name)
        assert kind == "ERROR" and error["CODE"] == code and word in error["TEXT"].decode()
    # A link within the root is a file like others; a search does not follow it.
    assert len(report(box, "link.xml")[2]) == 1
    assert len(report(box, "*")[2]) == 1


def test_without_permission(box):
    put(box, "r.xml", ONE).chmod(0)
    kind, error, _ = report(box, "r.xml")
    assert kind == "ERROR" and error["CODE"] == EACCES and error["TEXT"].startswith(b"r.xml: ")


def test_limits(box):
    put(box, "big.xml", "")
    os.truncate(box.folder / "big.xml", 1 << 40)
    kind, error, _ = report(box, "big.xml")
    assert kind == "ERROR" and error["CODE"] == EFBIG and b"64 MiB" in error["TEXT"]
    kind, error, _ = report(box, "big.xml", FORMAT=99)
    assert kind == "ERROR" and error["CODE"] == EINVAL
    many = box.folder / "many"
    many.mkdir()
    for i in range(10001):
        (many / f"{i}.xml").touch()
    kind, error, _ = report(box, "many")
    assert kind == "ERROR" and error["CODE"] == E2BIG


def test_hidden_files_match_only_a_pattern_that_names_them(box):
    put(box, ".idea/settings.xml", "<project/>")
    put(box, "out/r.xml", ONE)
    assert names(report(box, "**/*.xml")[2]) == ["s > a"]
    kind, error, _ = report(box, ".idea/*.xml")
    assert kind == "ERROR" and b"<project> is not a JUnit report" in error["TEXT"]


def test_deep_folders_are_walked_so_far(box):
    path = "/".join(["d"] * 40)
    put(box, path + "/r.xml", ONE)
    put(box, "d/d/r.xml", ONE)
    assert len(report(box, "**/r.xml")[2]) == 1


def test_json_that_takes_memory(box):
    """A document of 40 MB that would be a gigabyte of objects ends in an error, and the guest goes on."""
    put(box, "r.json", b'{"testResults": [' + b"[]," * (13 << 20) + b"[]]}")
    kind, error, _ = report(box, "r.json", FORMAT=JSON)
    assert kind == "ERROR" and error == {"CODE": E2BIG, "TEXT": b"r.json: the JSON takes too much memory"}
    assert box.call("PING")[0] == "RESULT"


def test_what_came_before_an_error_is_sent(box):
    put(box, "a.xml", ONE)
    put(box, "b.xml", "<testsuite><testcase name='b'/><broken")
    kind, error, entries = report(box, "*.xml")
    assert kind == "ERROR" and b"b.xml" in error["TEXT"] and len(entries) == 2


def test_many_at_once(box):
    put(box, "r.tap", "1..1000\n" + "".join(f"ok {i} - test number {i}\n" for i in range(1, 1001)))
    calls = [box.request("REPORT", PATH="r.tap", NAME=ROOT) for _ in range(20)]
    for c in calls:
        kind, result, _, entries = c.result()
        assert (kind, result["PASSED"], len(entries)) == ("RESULT", 1000, 1000)
        c.close()
