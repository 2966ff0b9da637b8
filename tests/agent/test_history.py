"""`hutch history`: sessions as the documented files, listed, shown, exported, searched, removed."""
import fcntl
import html.parser
import json
import os
import re

import pytest

HEADINGS = "ID AGE TURNS COST MODEL TITLE".split()


def words(turn, *texts):
    return {"time": "2026-01-02T03:04:05.678Z", "role": "user", "turn": turn, "content": [text(t) for t in texts]}


def text(t):
    return {"type": "text", "text": t}


def answer(*blocks, **more):
    return {"time": "2026-01-02T03:04:06.000Z", "role": "assistant", "content": list(blocks), "model": "test/one",
            "stop": "end_turn", "usage": {"input": 10, "output": 2}, "cost": 0.5, **more}


def call(name, id="c1", **given):
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def results(*pairs, **more):
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": [text(t)], **more} for id, t in pairs]
    return {"time": "2026-01-02T03:04:07.000Z", "role": "user", "content": blocks}


def hutch(kind, **more):
    return {"time": "2026-01-02T03:04:08.000Z", "role": "hutch", "kind": kind, **more}


class Histories:
    """The folder of one caller's sessions."""

    def __init__(self, box):
        self.box = box
        data = box.caller.folder(box.scratch, "data")
        self.env = {"XDG_DATA_HOME": str(data)}
        self.folder = data
        for name in ("hutch", "history"):
            self.folder = self.folder / name
            self.folder.mkdir(mode=0o700)
            box.caller.own(self.folder)

    def put(self, id, *messages, **head):
        """A session as docs and history.h describe the file, one message per line."""
        head = {"version": 1, "session": id, "created": "2026-01-02T03:04:05Z", "workspace": str(self.box.workspace), **head}
        body = ",\n".join(json.dumps(m, ensure_ascii=False) for m in messages)
        return self.write(id, json.dumps(head)[:-1] + ', "messages": [\n' + body + "\n]}\n")

    def write(self, id, content, end=".json"):
        path = self.folder / (id + end)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o600)
        return self.box.caller.own(path)

    def run(self, *args, status=0):
        done = self.box.hutch("history", *args, env=self.env)
        assert done.returncode == status, repr(done)
        return done

    def json(self, *args):
        done = self.run(*args, "--json")
        assert done.stderr == ""
        return json.loads(done.stdout)


@pytest.fixture
def histories(box):
    return Histories(box)


@pytest.fixture
def user_histories(make_box):
    return Histories(make_box("user"))


def written_at(path, seconds):
    os.utime(path, (seconds, seconds))


def test_nothing_yet(histories):
    assert histories.run("ls").stdout == ""
    assert histories.json("ls") == []
    done = histories.run("show", "last", status=125)
    assert done.stderr == "hutch: no sessions yet\n"


def test_makes_its_folder(box):
    data = box.caller.folder(box.scratch, "data") / "a" / "b"
    assert box.hutch("history", "ls", env={"XDG_DATA_HOME": str(data)}).returncode == 0
    assert (data / "hutch" / "history").stat().st_mode & 0o777 == 0o700
    assert box.hutch("history", "ls", env={"HOME": str(data)}).returncode == 0
    assert (data / ".local" / "share" / "hutch" / "history").is_dir()


def test_list(histories):
    old = histories.put("20260101-000000", words(1, "fix the \033[31mparser\n now"), answer(text("done")), words(2, "more"))
    new = histories.put("20260102-000000", words(1, "second"), workspace="/elsewhere",
                        forked_from={"session": "20260101-000000", "turn": 1})
    written_at(old, 1_000_000_000)
    written_at(new, 1_100_000_000)
    histories.write("notes", "{}")
    histories.write("20260101-000000", "x", ".patch")
    lines = histories.run("ls").stdout.splitlines()
    assert lines[0].split() == HEADINGS and len(lines) == 3
    assert lines[1].startswith("20260102-000000 ") and lines[1].endswith(" second")
    assert lines[2].split()[2:5] == ["2", "$0.50", "test/one"] and lines[2].endswith("fix the [31mparser now")
    first, second = histories.json("ls")
    assert first["id"] == "20260102-000000" and first["cost"] is None and first["forked_from"] == "20260101-000000"
    assert second == {"id": "20260101-000000", "created": "2026-01-02T03:04:05Z", "written": "2001-09-09T01:46:40Z",
                      "workspace": str(histories.box.workspace), "title": "fix the [31mparser now", "forked_from": None,
                      "turns": 2, "messages": 3, "model": "test/one", "cost": 0.5, "bytes": old.stat().st_size}
    assert [s["id"] for s in histories.json("ls", "-n", "1")] == ["20260102-000000"]
    assert [s["id"] for s in histories.json("ls", "-w", histories.box.workspace)] == ["20260101-000000"]
    histories.run("ls", "-w", "/nonexistent", status=125)
    histories.run("ls", "word", status=2)


def test_list_reads_only_the_ends(user_histories):
    """Where a file ends as hutch leaves it, what it says there is believed, and the middle is not looked at."""
    path = user_histories.put("20260101-000001", words(1, "start"), answer(text("middle")))
    whole = path.read_bytes()[:-4] + b'\n], "totals": {"turns": 7, "messages": 2}}\n'
    path.write_bytes(whole.replace(b"middle", b"m\0ddle"))
    assert [(s["turns"], s["title"]) for s in user_histories.json("ls")] == [(7, "start")]
    path.write_bytes(whole[:-1] + b" ")
    assert [s["turns"] for s in user_histories.json("ls")] == [1], "otherwise it is counted"


def test_show(histories):
    output = "\n".join(f"line {i}" for i in range(30))
    histories.put("20260101-000000", words(1, "run the tests"), answer(text("I run **them**."), call("bash", command="make test")),
                  results(("c1", output)), answer(text("All \033]0;evil\007 pass.")), hutch("note", text="a note"),
                  words(2, "undone words"), hutch("undo", to=1))
    done = histories.run("show", "2026")
    assert "> run the tests" in done.stdout and "▸ bash  make test  ✓" in done.stdout
    assert "    line 7\n    … 22 more lines (--full)" in done.stdout and "line 8" not in done.stdout
    assert "\033" not in done.stdout and r"\x1b]0;evil\x07" in done.stdout
    assert "a note" in done.stdout and "undone words" not in done.stdout
    full = histories.run("show", "last", "--full").stdout
    assert "line 29" in full and "undone words" in full and "(undone)" in full
    data = histories.json("show", "20260101-000000")
    assert data["session"] == "20260101-000000" and len(data["messages"]) == 7
    assert [m["message"] for m in data["messages"]] == list(range(7))
    assert [m["counts"] for m in data["messages"]] == [True] * 5 + [False, True]


def test_which(histories):
    histories.put("20260101-000000", words(1, "one"))
    histories.put("20260101-000000-2", words(1, "two"))
    assert "one" in histories.run("show", "20260101-000000").stdout
    assert "two" in histories.run("show", histories.folder / "20260101-000000-2.json").stdout
    assert "matches 2 sessions" in histories.run("show", "2026", status=125).stderr
    assert "no session 'x'" in histories.run("show", "x", status=125).stderr
    histories.run("show", status=2)
    histories.run("export", "2", "3", status=2)
    assert "did you mean 'history show'" in histories.run("shwo", status=2).stderr
    histories.run(status=2)


def test_damage_is_told_and_left_alone(histories):
    path = histories.put("20260101-000000", words(1, "first"), answer(text("lost")), answer(text("kept")))
    whole = path.read_bytes()
    damaged = whole.replace(b'"lost"', b'"lo\0t"')
    histories.write("20260101-000000", damaged)
    done = histories.run("show", "last")
    assert "kept" in done.stdout and "unreadable" in done.stderr
    histories.write("20260101-000000", whole[:-30])
    done = histories.run("show", "last")
    assert "first" in done.stdout and "kept" not in done.stdout and "was being written" in done.stderr
    assert path.read_bytes() == whole[:-30] and [p.name for p in histories.folder.iterdir()] == [path.name]
    histories.write("20260101-000000", b"\x7fELF")
    assert "is not a session of hutch" in histories.run("show", "last", status=125).stderr
    assert histories.json("ls") == []


EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)> " ' & </pre></details> ]]> -->"""
EVIL_MARKDOWN = EVIL + """

[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](&#106;avascript:alert(1)) [d](data:text/html,x) [e](vbscript:x)
[f]( javascript:alert(1)) [g](<java\tscript:alert(1)>) [h](//evil.example/x) <javascript:alert(1)> [ref] ![i](https://evil.example/i.png)
![j](javascript:alert(1)) [good](https://example.org/?a=1&b=2 "a \\" title") https://auto.example/

[ref]: javascript:alert(1)

| <b>x</b> | `<i>` |
|---|---|
| <svg onload=alert(1)> | "onmouseover=alert(1) |

```"><script>
<script>alert(3)</script>
```
"""


class Page(html.parser.HTMLParser):
    """All elements and attributes of a page, as a browser sees them."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.attributes, self.open, self.text = set(), [], [], ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes += [(tag, *a) for a in attrs]
        if tag not in ("meta", "img", "br", "hr", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_safe(histories):
    histories.put("20260101-000000", words(1, EVIL), answer({"type": "thinking", "from": "x", "text": EVIL_MARKDOWN},
                                                             text(EVIL_MARKDOWN), call(EVIL, command=EVIL, other=EVIL)),
                  results(("c1", EVIL), is_error=True), results(("nobody", EVIL)), hutch("note", text=EVIL),
                  words(2, "x") | {"content": [{"type": "image", "mime": "image/png", "data": '"><script>'},
                                               {"type": "image", "mime": "image/svg+xml", "data": "QUJD"},
                                               {"type": "image", "mime": "image/png", "data": "QUJD"}]},
                  answer(text("x"), model=EVIL), workspace="/" + EVIL)
    source = histories.run("export", "last", "--format", "html").stdout
    page = Page(source)
    assert page.open == [] and source.startswith("<!DOCTYPE html>")
    assert page.elements <= {"html", "head", "meta", "title", "style", "body", "main", "section", "details", "summary", "pre",
                             "code", "h1", "p", "b", "time", "a", "img", "table", "thead", "tbody", "tr", "th", "td", "br"}
    assert not [a for a in page.attributes if a[1].startswith("on")]
    links = {value for _, name, value in page.attributes if name in ("href", "action", "srcdoc")}
    assert links == {"https://example.org/?a=1&b=2", "https://auto.example/"}
    assert {value for _, name, value in page.attributes if name == "src"} == {"data:image/png;base64,QUJD"}
    assert page.text.count("alert(1)</script>") >= 8, "what was said is there, as text"
    assert "default-src 'none'" in source


def test_markdown(histories):
    histories.put("20260101-000000", words(1, "make it"), answer(text("**ok**"), call("bash", command="ls")),
                  results(("c1", "````\nfenced\n````")), answer(text("end")))
    done = histories.run("export", "last").stdout
    assert done.startswith("# make it\n\nSession 20260101-000000, 1 turn")
    assert "\n**ok**\n" in done and "<details><summary>✓ bash ls</summary>" in done
    assert "`````\n````\nfenced\n````\n`````\n" in done
    assert done.index("**ok**") < done.index("fenced") < done.index("end")


def test_export_to_a_file(histories):
    histories.put("20260101-000000", words(1, "x"), answer(text("y")))
    folder = histories.box.workspace
    histories.run("export", "last", "-o", folder / "a.html")
    assert (folder / "a.html").read_text().startswith("<!DOCTYPE html>")
    assert (folder / "a.html").stat().st_mode & 0o777 == 0o600
    histories.run("export", "last", "-o", folder / "a.md")
    assert (folder / "a.md").read_text().startswith("# x")
    histories.run("export", "last", "--format", "html", "-o", folder / "b.txt")
    assert (folder / "b.txt").read_text().startswith("<!DOCTYPE html>")
    assert "cannot write" in histories.run("export", "last", "-o", folder / "no" / "a.md", status=125).stderr
    assert "md or html" in histories.run("export", "last", "--format", "pdf", status=2).stderr


def test_search(histories):
    histories.put("20260101-000000", words(1, "the port is 8642"), answer(text("noted"), call("bash", command="nmap")),
                  results(("c1", "8642/tcp open \033[1mhutch")))
    histories.put("20260102-000000", words(1, "which port was it"), words(2, "gone port"), hutch("undo", to=1))
    done = histories.run("search", "port", "8642").stdout
    assert re.match(r"20260101-000000  message 0  2026-01-02  user\n    the port is 8642\n", done)
    assert "\033" not in done and "gone" not in done
    hits = histories.json("search", "tcp")
    assert [(h["session"], h["message"], h["call"], h["role"]) for h in hits] == [("20260101-000000", 2, "c1", "tool")]
    assert [h["session"] for h in histories.json("search", "port", "--session", "20260102")] == ["20260102-000000"]
    assert len(histories.json("search", "port", "-n", "1")) == 1
    for strange in ('"', "AND", "a*", "(", "-x OR", "NEAR(", "text:x"):
        json.loads(histories.run("search", "--json", "--", strange).stdout)
    assert histories.run("search", "xyzzy").stdout == ""
    histories.run("search", status=2)
    assert (histories.folder / "memory.db").stat().st_mode & 0o777 == 0o600
    (histories.folder / "memory.db").write_bytes(b"no database at all" * 100)
    assert len(histories.json("search", "tcp")) == 1


def test_remove(histories):
    path = histories.put("20260101-000000", words(1, "one"))
    histories.write("20260101-000000", "diff", ".patch")
    histories.write("20260101-000000-2", "diff", ".patch")
    other = histories.put("20260102-000000", words(1, "apple"))
    assert histories.json("search", "one")
    with open(path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert f"process {os.getpid()} " in histories.run("rm", "20260101-000000", status=125).stderr
        assert path.exists()
        assert "> one" in histories.run("show", "20260101-000000").stdout
    done = histories.run("rm", "20260101-000000", "nothing", status=125)
    assert done.stdout == "20260101-000000\n" and "no session 'nothing'" in done.stderr
    assert sorted(p.name for p in histories.folder.iterdir() if not p.name.startswith("memory")) == \
        ["20260101-000000-2.patch", other.name]
    assert histories.json("search", "one") == []
    assert len(histories.json("search", "apple")) == 1


def test_remove_takes_no_paths(histories):
    session = histories.put("20260101-000000", words(1, "one"))
    inside = histories.box.put("20260101-000000.json", session.read_text())
    companion = histories.box.put("20260101-000000.patch", "diff")
    makefile = histories.box.put("Makefile", "all:\n")
    for given in (makefile, inside, session, "../history/20260101-000000", f"{histories.folder}/../history/20260101-000000.json", "./x"):
        done = histories.run("rm", given, status=125)
        assert (done.stdout, done.stderr.count("\n")) == ("", 1) and "give an ID" in done.stderr
    done = histories.box.hutch("history", "rm", "./Makefile", "Makefile", env=histories.env, cwd=histories.box.workspace)
    assert (done.returncode, done.stdout) == (125, "")
    assert makefile.exists() and inside.exists() and companion.exists() and session.exists()


def test_remove_leaves_what_is_not_a_history(histories):
    for name, content in (("notes", '{"a": 1}'), ("list", "[]"), ("text", "all:\n"), ("empty", "")):
        path = histories.write(name, content)
        companion = histories.write(name, "diff", ".patch")
        done = histories.run("rm", name, status=125)
        assert done.stdout == "" and f"{path} is not a session of hutch and was not removed" in done.stderr
        assert path.exists() and companion.exists()
    for name in ("..", ".", "*", "", "memory.db"):
        assert "no session" in histories.run("rm", name, status=125).stderr


def test_paths_are_for_reading_only(histories):
    session = histories.put("20260101-000000", words(1, "one"))
    copy = histories.box.put("20260102-000000.json", session.read_text())
    assert "> one" in histories.run("show", copy).stdout
    assert "one" in histories.run("export", copy).stdout
    before = copy.read_bytes()
    done = histories.box.hutch("ask", "-w", histories.box.workspace, "--model", "openai/x", "--resume", copy, "go on",
                               env={**histories.env, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9"})
    assert done.returncode == 125 and "give an ID" in done.stderr
    assert copy.read_bytes() == before


def test_resume_refuses_a_history_that_names_the_hosts_root(histories):
    for name in ("/", "//", "/tmp/..", "/proc/self/root"):
        histories.put("20260101-000000", words(1, "one"), workspace=name)
        done = histories.box.hutch("ask", "-w", histories.box.workspace, "--model", "openai/x", "--resume", "20260101-000000", "go on",
                                   env={**histories.env, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9"})
        assert done.returncode == 125
        assert "the workspace cannot be '/': it is the root folder of this host" in done.stderr
