"""list_files, from the command line to the files of a box; and its ignore rules against git's."""
import base64
import os
import random
import subprocess

import pytest

import tree_tools


@pytest.fixture
def tools(box):
    made = tree_tools.Tools(box)
    yield made
    made.end()


def paths(data):
    return [one["path"] for one in data["entries"]]


def test_lists_sorted_with_types(tools):
    tree_tools.fill(tools.box, {"b": "", "a/x": "", "a/y/z": "", "a-b": "", "empty/": None})
    os.symlink("b", tools.box.workspace / "link")
    os.mkfifo(tools.box.workspace / "pipe")
    tree_tools.own(tools.box)
    data = tools.data("list_files")
    assert data == {"entries": [
        {"path": "a", "type": "folder"}, {"path": "a/x", "type": "file"}, {"path": "a/y", "type": "folder"},
        {"path": "a/y/z", "type": "file"}, {"path": "a-b", "type": "file"}, {"path": "b", "type": "file"},
        {"path": "empty", "type": "folder"}, {"path": "link", "type": "link", "target": "b"}, {"path": "pipe", "type": "other"}],
        "count": 9, "rest": 0, "unreadable": 0}
    assert tools.text("list_files") == "a/\na/x\na/y/\na/y/z\na-b\nb\nempty/\nlink@ -> b\npipe=\n\n9 entries.\n"


def test_tree(tools):
    tree_tools.fill(tools.box, {"b": "", "a/x.c": "", "a/y/z.c": "", "a/y/w.h": ""})
    assert tools.text("list_files", tree=True) == "a/\n  x.c\n  y/\n    w.h\n    z.c\nb\n\n6 entries.\n"
    assert tools.text("list_files", tree=True, glob="*.c") == "a/\n  x.c\n  y/\n    z.c\n\n2 entries.\n"


def test_sizes(tools):
    tree_tools.fill(tools.box, {"a": "x" * 10, "b": "x" * 2000, "c": "x" * 20_000, "d/e": ""})
    os.chmod(tools.box.workspace / "a", 0o755)
    data = tools.data("list_files", sizes=True)
    assert [(one["path"], one.get("size"), one.get("executable")) for one in data["entries"]] == [
        ("a", 10, True), ("b", 2000, False), ("c", 20_000, False), ("d", None, None), ("d/e", 0, False)]
    assert tools.text("list_files", sizes=True) == (
        "   10B a*\n  2.0K b\n   20K c\n       d/\n    0B d/e\n\n5 entries.\n")


def test_glob_depth_hidden(tools):
    tree_tools.fill(tools.box, {"a.c": "", "d/b.c": "", "d/e/c.c": "", "d/e/c.h": "", ".dot/x": "", ".git/config": ""})
    assert paths(tools.data("list_files", glob="*.c")) == ["a.c", "d/b.c", "d/e/c.c"]
    assert paths(tools.data("list_files", glob="d/*.c")) == ["d/b.c"]
    assert paths(tools.data("list_files", glob="d/**/*.{c,h}")) == ["d/b.c", "d/e/c.c", "d/e/c.h"]
    assert paths(tools.data("list_files", glob=["!e", "!.dot"])) == ["a.c", "d", "d/b.c"]
    assert paths(tools.data("list_files", depth=1)) == [".dot", "a.c", "d"]
    assert paths(tools.data("list_files", depth=2, hidden=False)) == ["a.c", "d", "d/b.c", "d/e"]
    assert paths(tools.data("list_files", path="d", depth=1)) == ["d/b.c", "d/e"]
    assert paths(tools.data("list_files", path="d", glob="e/*.h")) == ["d/e/c.h"]
    assert paths(tools.data("list_files", path="/workspace/d/e")) == ["d/e/c.c", "d/e/c.h"]


def test_limit_prefers_what_is_near(tools):
    files = {f"a/b/c/{i}": "" for i in range(50)} | {f"a/{i}": "" for i in range(5)} | {"z/y": "", "top": ""}
    tree_tools.fill(tools.box, files)
    data = tools.data("list_files", limit=10)
    assert data["count"] == 61 and data["rest"] == 51
    assert paths(data) == ["a", "a/0", "a/1", "a/2", "a/3", "a/4", "a/b", "top", "z", "z/y"]
    assert paths(tools.data("list_files", limit=2)) == ["a", "top"]
    assert "of which the 10 nearest are shown; 51 more are not" in tools.text("list_files", limit=10)
    assert tools.data("list_files", limit=61)["rest"] == 0


def test_ignored(tools):
    tree_tools.fill(tools.box, {".gitignore": "*.o\nnode_modules/\n", "a.o": "", "a.c": "", "node_modules/x/y.js": ""})
    assert paths(tools.data("list_files")) == [".gitignore", "a.c"]
    assert "node_modules/x/y.js" in paths(tools.data("list_files", ignored=True))


def test_a_repository_within_has_rules_of_its_own(tools):
    tree_tools.fill(tools.box, {".gitignore": "*.o\n", "sub/.git/HEAD": "", "sub/a.o": "", "sub/.git/info/exclude": "/private\n",
                                "sub/private": "", "other/a.o": ""})
    assert paths(tools.data("list_files")) == [".gitignore", "other", "sub", "sub/a.o"]


def test_bad_input(tools):
    tree_tools.fill(tools.box, {"file": ""})
    os.symlink("/usr", tools.box.workspace / "out")
    tree_tools.own(tools.box)
    assert tools.error("list_files", path="missing") == (
        "missing: No such file or directory; list_files without a path lists the workspace")
    assert tools.error("list_files", path="file") == "file: Not a directory"
    assert "leads out of /workspace" in tools.error("list_files", path="out")
    assert tools.error("list_files", depth=0).startswith("input.depth: ")
    assert tools.error("list_files", limit=1_000_000).startswith("input.limit: ")
    assert "braces" in tools.error("list_files", glob="{a,b}" * 12)


def test_other_folders_of_the_box(tools):
    assert "/etc/passwd" in paths(tools.data("list_files", path="/etc", depth=1))


def test_names_of_any_bytes(tools):
    tree_tools.fill(tools.box, {b"caf\xe9/x": "", "new\nline": "", "ä": ""})
    data = tools.data("list_files")
    assert paths(data) == ['"caf\\351"', '"caf\\351/x"', "new\nline", "ä"]
    assert base64.b64decode(data["entries"][1]["path_base64"]) == b"caf\xe9/x"
    assert tools.text("list_files") == '"caf\\351"/\n"caf\\351/x"\n"new\\nline"\nä\n\n4 entries.\n'


def test_folders_that_cannot_be_read_are_counted(tools):
    tree_tools.fill(tools.box, {"a": "", "locked/b": ""})
    os.chmod(tools.box.workspace / "locked", 0)
    data = tools.data("list_files")
    os.chmod(tools.box.workspace / "locked", 0o755)
    assert (paths(data), data["unreadable"]) == (["a", "locked"], 1)
    os.chmod(tools.box.workspace / "locked", 0)
    assert "1 folder could not be read" in tools.text("list_files")
    assert "Permission denied" in tools.error("list_files", path="locked")
    os.chmod(tools.box.workspace / "locked", 0o755)


def test_many_entries(tools):
    tools.start("--disk", "2G")
    tools.shell("mkdir many && cd many && seq 1 100000 | xargs touch")
    data = tools.data("list_files", limit=3)
    assert (data["count"], data["rest"], paths(data)) == (100_001, 99_998, ["many", "many/1", "many/10"])
    everything = tools.call("list_files", limit=100_000)
    assert (len(everything["data"]["entries"]), everything["data"]["rest"]) == (100_000, 1)
    assert len(everything["text"]) < 1 << 20 and "more are not" in everything["text"]


def test_cycles_and_deep_nesting(tools):
    tools.start()
    tools.python("""
import os
os.symlink(".", "loop")
for i in range(500):
    os.mkdir(f"folder-number-{i}")
    os.chdir(f"folder-number-{i}")
os.symlink("../..", "up")
""")
    data = tools.data("list_files", sizes=True)
    assert (data["count"], data["rest"]) == (502, 2)  # the default limit is 500
    data = tools.data("list_files", limit=1000)
    assert data["entries"][-2]["target"] == "../.." and data["entries"][-1] == {"path": "loop", "type": "link", "target": "."}


def test_while_files_come_and_go(tools):
    tree_tools.fill(tools.box, {f"still/{i:03}": "" for i in range(100)})
    tools.start()
    tools.background("echo begun; i=0; while :; do i=$((i + 1)); mkdir -p d$((i % 9))/e; touch d$((i % 9))/e/f; "
                     "mv d$((i % 9)) still/m$((i % 5)) 2>/dev/null; rm -rf d$((i % 7)) still/m$((i % 3)); "
                     "ln -sfn / d$((i % 5)); rm -f d$((i % 4)); done")
    for _ in range(20):
        found = paths(tools.data("list_files", limit=10_000, sizes=True))
        assert [one for one in found if one[6:].isdigit()] == [f"still/{i:03}" for i in range(100)]
        assert len(found) < 200


NAMES = ["a", "b", "ab", "a.o", "b.c", "foo", "bar", "f oo", "#x", "!y", "[z]", ".dot", "a b ", "x*", "é"]
PIECES = ["a", "b", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[^b]", ".o", "*.c", "foo", "bar", "\\", "\\*", " ", "\\ ", "#", "!", "[[:alpha:]]",
          "[z]", "[", "f*", "*o", ".dot", "x\\*", "é", "**/", "/**", "a**b", "[a-b]", "[b-a]", "?b", "f?oo"]


def random_rule(chance):
    rule = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))
    rule = chance.choice(["", "", "", "!", "/", "!/", "**/", "#"]) + rule + chance.choice(["", "", "", "/", "/**", "/*", " ", "  "])
    return rule + chance.choice(["", "", "", "\r"])


def random_rules(chance):
    ending = chance.choice(["", "\n"])
    return chance.choice(["", "", "\ufeff"]) + "\n".join(random_rule(chance) for _ in range(chance.randint(1, 6))) + ending


def random_tree(chance, top):
    os.makedirs(top)
    for depth in range(chance.randint(2, 5)):
        for _ in range(chance.randint(1, 4)):
            parts = [chance.choice(NAMES) for _ in range(depth + 1)]
            folder, path = os.path.join(top, *parts[:-1]), os.path.join(top, *parts)
            try:
                os.makedirs(folder, exist_ok=True)
                if not os.path.lexists(path):
                    with open(path, "w", encoding="utf-8"):
                        pass
                if chance.random() < 0.15:
                    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8", newline="") as file:
                        file.write(random_rules(chance))
            except (FileExistsError, NotADirectoryError):
                pass
    with open(os.path.join(top, ".gitignore"), "w", encoding="utf-8", newline="") as file:
        file.write(random_rules(chance))


def make_repository(top):
    """The least that git takes for one."""
    for name in ("objects", "refs", "info"):
        os.makedirs(os.path.join(top, ".git", name))
    with open(os.path.join(top, ".git", "HEAD"), "w", encoding="utf-8") as file:
        file.write("ref: refs/heads/main\n")


def all_paths(top):
    found = []
    for folder, folders, files in os.walk(top):
        if ".git" in folders:
            folders.remove(".git")
        found += [os.path.relpath(os.path.join(folder, name), top) for name in folders + files]
    return found


def git_ignores(top, names):
    done = subprocess.run(["git", "-c", "core.excludesFile=/dev/null", "-C", top, "check-ignore", "--no-index", "-z", "--stdin"],
                          input="\0".join(names).encode(), capture_output=True, check=False,
                          env={**os.environ, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
                               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.decode().split("\0")) - {""}


def test_ignores_what_git_ignores(tools):
    """Generated rules, nested and excluded in .git/info, against git check-ignore."""
    chance, cases = random.Random(20), 400
    for i in range(cases):
        top = str(tools.box.workspace / f"case{i:03}")
        random_tree(chance, top)
        make_repository(top)
        if chance.random() < 0.3:
            with open(os.path.join(top, ".git/info/exclude"), "w", encoding="utf-8", newline="") as file:
                file.write(random_rules(chance))
    tree_tools.own(tools.box)
    shown = {}
    for path in paths(tools.data("list_files", limit=100_000)):
        case, _, name = path.partition("/")
        shown.setdefault(case, set()).add(name)
    ignored = 0
    for i in range(cases):
        top = tools.box.workspace / f"case{i:03}"
        names = all_paths(top)
        want = set(names) - git_ignores(str(top), names)
        ignored += len(names) - len(want)
        rules = {str(one.relative_to(top)): one.read_bytes() for one in [*top.rglob(".gitignore"), *top.glob(".git/info/*")]}
        assert shown[top.name] - {""} == want, (top.name, rules)
    assert ignored > 1000
