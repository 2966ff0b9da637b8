"""The same call through both doors, `hutch tool` and MCP, gives the same result: every tool, in the ordinary case and with
each kind of bad input. Each case is made anew in a box of its own, once for each door."""
import pytest

import toolkit

jsonschema = pytest.importorskip("jsonschema", reason="no python3-jsonschema on this host")

SETUP = r"""
printf 'one\ntwo\nthree\n' >plain.txt
mkdir folder; echo inner >folder/inner.txt
printf 'a\000b\nneedle\n' >binary
printf 'caf\351 needle\n' >latin1.txt
truncate -s 1G large; printf 'needle\n' | dd of=large conv=notrunc status=none
mkfifo fifo
ln -s /etc/passwd out; ln -s /etc outdir
echo secret >locked; chmod 000 locked
mkdir shut; echo x >shut/x; chmod 555 shut
"""
FULL = "dd if=/dev/zero of=/workspace/filler bs=64k status=none || true"


def diff(path, old="one", new="1"):
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


READ = {
    "ordinary": ("plain.txt", None), "missing": ("nowhere", "nowhere"), "folder": ("folder", "folder"),
    "binary": ("binary", None), "large": ("large", None), "not UTF-8": ("latin1.txt", None), "fifo": ("fifo", "FIFO"),
    "link out": ("out", "leads out"), "no permission": ("locked", "ermission"),
}
WRITE = {
    "ordinary": ("new/file", None), "folder": ("folder", "folder"), "fifo": ("fifo", "FIFO"), "link out": ("out", "leads out"),
    "no permission": ("shut/new", "ermission"), "full disk": ("file", "o space"),
}
EDIT = {
    "ordinary": ("plain.txt", None), "missing": ("nowhere", "nowhere"), "folder": ("folder", "folder"),
    "binary": ("binary", ""), "large": ("large", "large"), "not UTF-8": ("latin1.txt", ""), "fifo": ("fifo", "FIFO"),
    "link out": ("out", "leads out"), "no permission": ("locked", "ermission"), "read-only folder": ("shut/x", ""),
}
LIST = {
    "ordinary": (".", None), "missing": ("nowhere", "nowhere"), "file": ("plain.txt", ""), "fifo": ("fifo", ""),
    "link out": ("outdir", "leads out"),
}
CASES = [
    *[("read_file", kind, {"path": path}, says) for kind, (path, says) in READ.items()],
    *[("write_file", kind, {"path": path, "content": "x" * (1 << 20)}, says) for kind, (path, says) in WRITE.items()],
    *[("edit_file", kind, {"path": path, "old": "one", "new": "1"}, says) for kind, (path, says) in EDIT.items()],
    *[("list_files", kind, {"path": path}, says) for kind, (path, says) in LIST.items() if kind not in ("file", "fifo")],
    *[("search_files", kind, {"path": path, "pattern": "needle"}, says) for kind, (path, says) in LIST.items()
      if kind not in ("file", "fifo")],
    ("search_files", "bad pattern", {"pattern": "("}, "offset"),
    *[("apply_diff", kind, {"diff": diff(path)}, "link" if kind == "link out" else says) for kind, (path, says) in EDIT.items()],
    ("apply_diff", "full disk", {"diff": "--- /dev/null\n+++ b/big\n@@ -0,0 +1,65536 @@\n" + "+xxxxxxxxxxxxxxx\n" * 65536}, "o space"),
    ("bash", "ordinary", {"command": "cat plain.txt; cd folder; pwd"}, None),
    ("bash", "missing folder", {"command": "true", "cwd": "nowhere"}, "nowhere"),
    ("bash", "neither", {}, ""),
    ("bash", "no such handle", {"handle": 77}, "77"),
    ("bash", "full disk", {"command": "echo x >file || exit 9"}, None),
    ("run_tests", "nothing to run", {}, ""),
    ("run_tests", "no report", {"command": "echo 5 passed", "framework": "pytest"}, ""),
    ("run_tests", "report is a fifo", {"command": "true", "report": "fifo"}, None),
    ("plan", "ordinary", {"items": [{"text": "a", "state": "active"}]}, None),
    ("plan", "two active", {"items": [{"text": "a", "state": "active"}] * 2}, "one at a time"),
    ("git_clone", "hostile address", {"url": "ext::sh -c id"}, "url:"),
    ("request_network", "unconfirmed", {"hosts": ["example.org"], "reason": "to look"}, "--allow-net example.org"),
    ("request_network", "unknown group", {"hosts": ["@gem"], "reason": "to look"}, "there is no group"),
    ("git_clone", "unconfirmed", {"url": "https://git.example.org/a/b"}, "--allow-clone git.example.org"),
    ("git_push", "no repository", {}, "not the top folder of a git repository"),
    ("create_pr", "title of two lines", {"title": "a\nb", "body": ""}, "one line"),
    *[(tool, "wrong type", {"path": 7, "pattern": "x", "old": "a", "new": "b", "content": "c"}, "input.")
      for tool in ("read_file", "write_file", "edit_file", "list_files", "search_files")],
]
VOLATILE = {"duration_ms", "duration"}


def settle(value):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {name: settle(inner) for name, inner in value.items() if name not in VOLATILE}
    return [settle(inner) for inner in value] if isinstance(value, list) else value


def words(text):
    """Text without times and names of temporary folders."""
    return " ".join(word for word in text.split() if not any(c.isdigit() for c in word))


BOTH_USERS = ("ordinary", "fifo", "link out", "full disk")
TRIED = [(who, *case) for case in CASES for who in (("root", "user") if case[1] in BOTH_USERS else ("user",))]


@pytest.fixture
def two_boxes(make_box, who, kind):
    """Two boxes that stay, with the same files."""
    opts = ["--disk", "8M"] if kind == "full disk" else []
    box = make_box(who)
    made = [toolkit.Tools(box).new(*opts) for _ in range(2)]
    for tools in made:
        tools.sh(SETUP)
        if kind == "full disk":
            tools.sh(FULL)
    yield made
    for tools in made:
        tools.close()


@pytest.mark.parametrize("who, tool, kind, given, says", TRIED, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in TRIED])
def test_doors_agree(two_boxes, connect, tool, kind, given, says):
    tools, other = two_boxes
    first = tools.call(tool, **given)
    server = connect("--box", other.id, box=other.box, workspace=False, env=other.env)
    server.initialize()
    forms = {t["name"]: t for t in server.result("tools/list")["tools"]}
    second = server.call(tool, **given)
    assert first.failed == second["isError"] == (says is not None), (first, second)
    if says:
        assert says in first.text
    texts = [c["text"] for c in second["content"] if c["type"] == "text"]
    assert words(first.text) == words(texts[0])
    assert settle(first.data) == settle(second.get("structuredContent"))
    if not first.failed:
        jsonschema.validate(first.data, forms[tool]["outputSchema"])
