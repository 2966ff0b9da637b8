"""apply_diff from the command line: what it does, and what it refuses without having changed anything."""
import base64
import json
import os
import stat
import subprocess
import threading
import zlib

import pytest

import harness

LINES = [f"line {i}\n" for i in range(1, 41)]


class Workspace:
    """A workspace that a box writes to directly, so that the host sees what a diff does."""

    def __init__(self, box):
        self.box = box
        self.root = box.workspace
        self.mode = ["--mode", "direct"]

    def put(self, name, data="", mode=0o644):
        path = self.root / name
        for parent in reversed(path.relative_to(self.root).parents):
            if not (self.root / parent).exists():
                (self.root / parent).mkdir()
                self.box.caller.own(self.root / parent)
        return self.box.put(name, data, mode)

    def call(self, diff, opts=(), **more):
        done = self.box.hutch("tool", "apply_diff", "--json", "-w", self.root, *self.mode, *opts, "-",
                              input=json.dumps({"diff": diff, **more}))
        assert done.returncode in (0, 1), done
        result = json.loads(done.stdout_bytes)
        assert result["failed"] == (done.returncode == 1)
        return result

    def apply(self, diff, **more):
        result = self.call(diff, **more)
        assert not result["failed"], result["text"]
        return result["data"]

    def refuse(self, diff, **more):
        """The result of a diff that must not apply: and nothing has changed."""
        before = self.tree()
        result = self.call(diff, **more)
        assert result["failed"], result
        assert "nothing was changed" in result["text"]
        assert self.tree() == before
        return result

    def reason(self, diff, **more):
        rejected = self.refuse(diff, **more)["data"]["rejected"]
        assert len(rejected) == 1
        return rejected[0]["reason"]

    def tree(self):
        found = {}
        for where, folders, files in os.walk(self.root):
            for name in folders + files:
                path = os.path.join(where, name)
                status = os.lstat(path)
                content = None
                if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20 and os.access(path, os.R_OK):
                    with open(path, "rb") as file:
                        content = file.read()
                found[os.path.relpath(path, self.root)] = (status.st_mode, status.st_ino, content)
        return found

    def text(self, name):
        return (self.root / name).read_text()


@pytest.fixture
def work(box):
    return Workspace(box)


def change(name, at=10, new="changed\n", context=3):
    """A correct diff of one line of LINES."""
    before, behind = LINES[at - 1 - context:at - 1], LINES[at:at + context]
    body = [" " + line for line in before] + ["-" + LINES[at - 1], "+" + new] + [" " + line for line in behind]
    count = len(before) + 1 + len(behind)
    return f"--- a/{name}\n+++ b/{name}\n@@ -{at - len(before)},{count} +{at - len(before)},{count} @@\n" + "".join(body)


def changed(at=10, new="changed\n"):
    return "".join(LINES[:at - 1]) + new + "".join(LINES[at:])


# What it does

def test_changes_adds_and_deletes(work):
    work.put("src/a.txt", "".join(LINES))
    work.put("old/gone.txt", "one\ntwo\n")
    data = work.apply(change("src/a.txt") + "--- /dev/null\n+++ b/new/deep/b.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n"
                      "--- a/old/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n")
    assert work.text("src/a.txt") == changed()
    assert work.text("new/deep/b.txt") == "x\ny\n"
    assert not (work.root / "old").exists(), "a folder that lost its last file goes, as git has it"
    assert data["files"] == [
        {"path": "src/a.txt", "kind": "modified", "hunks": 1, "added": 1, "removed": 1},
        {"path": "new/deep/b.txt", "kind": "added", "hunks": 1, "added": 2, "removed": 0},
        {"path": "old/gone.txt", "kind": "deleted", "hunks": 1, "added": 0, "removed": 2}]


def test_renames_copies_and_modes(work):
    work.put("a", "".join(LINES), 0o600)
    work.put("run.sh", "#!/bin/sh\n")
    data = work.apply(
        "diff --git a/a b/sub/b\nsimilarity index 95%\nrename from a\nrename to sub/b\n" + change("x").replace("a/x", "a/a")
        .replace("b/x", "b/sub/b") + "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/run.sh b/copy.sh\nsimilarity index 100%\ncopy from run.sh\ncopy to copy.sh\n")
    assert [file["kind"] for file in data["files"]] == ["renamed", "mode", "copied"]
    assert data["files"][0]["from"] == "a"
    assert work.text("sub/b") == changed() and not (work.root / "a").exists()
    assert stat.S_IMODE((work.root / "sub/b").stat().st_mode) == 0o600
    assert stat.S_IMODE((work.root / "run.sh").stat().st_mode) == 0o755
    assert work.text("copy.sh") == "#!/bin/sh\n"


def test_two_files_trade_names(work):
    work.put("a", "was a\n")
    work.put("b", "was b\n")
    work.apply("diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
               "diff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n")
    assert (work.text("a"), work.text("b")) == ("was b\n", "was a\n")


def test_links_are_made_and_changed_but_never_written_through(work):
    work.put("file", "text\n")
    work.apply("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+file\n\\ No newline at end of file\n")
    assert os.readlink(work.root / "l") == "file"
    assert "symbolic link" in work.reason("--- a/l\n+++ b/l\n@@ -1 +1 @@\n-text\n+other\n")
    work.apply("diff --git a/l b/l\nindex 1234567..89abcde 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file\n"
               "\\ No newline at end of file\n+/etc/passwd\n\\ No newline at end of file\n")
    assert os.readlink(work.root / "l") == "/etc/passwd" and work.text("file") == "text\n"


def git(work, *args, **more):
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], check=True, capture_output=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, **more).stdout


def test_binary_patches_in_both_forms(work, tmp_path):
    old, new = bytes(range(256)) * 40, bytes(range(256)) * 20 + b"inserted\0" + bytes(range(256)) * 20
    for name, data in (("o", old), ("n", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.bin").write_bytes(data)
    git(work, "init", "-q", tmp_path / "r")
    (tmp_path / "r" / "x.bin").write_bytes(old)
    git(work, "add", ".", cwd=tmp_path / "r")
    git(work, "commit", "-qm", "x", cwd=tmp_path / "r")
    (tmp_path / "r" / "x.bin").write_bytes(new)
    (tmp_path / "r" / "y.bin").write_bytes(b"\0y")
    git(work, "add", ".", cwd=tmp_path / "r")
    diff = git(work, "diff", "--binary", "HEAD", cwd=tmp_path / "r").decode()
    assert "\ndelta " in diff and "\nliteral " in diff
    work.put("x.bin", old)
    work.apply(diff)
    assert (work.root / "x.bin").read_bytes() == new and (work.root / "y.bin").read_bytes() == b"\0y"
    assert "already" in work.refuse(diff)["data"]["rejected"][0]["reason"]
    work.apply(diff, reverse=True)
    assert (work.root / "x.bin").read_bytes() == old and not (work.root / "y.bin").exists()


def test_check_changes_nothing_and_reverse_undoes(work):
    work.put("a", "".join(LINES))
    before = work.tree()
    assert "would apply" in work.call(change("a"), check=True)["text"]
    assert work.tree() == before
    work.apply(change("a"))
    assert "already" in work.reason(change("a"))
    work.apply(change("a"), reverse=True)
    assert work.text("a") == "".join(LINES)


def test_offset_and_fuzz_are_told(work):
    work.put("a", "new\nnew\n" + "".join(LINES))
    assert work.apply(change("a"))["files"][0]["offset"] == 2
    work.put("b", "".join(LINES).replace("line 7\n", "line seven\n"))
    assert work.apply(change("b"))["files"][0]["fuzz"] == 1
    work.put("c", "".join(LINES).replace("line 7\n", "line seven\n"))
    rejected = work.refuse(change("c"), fuzz=0)["data"]["rejected"][0]
    assert (rejected["line"], rejected["expected"], rejected["found"]) == (7, ["line 7"], ["line seven"])


def test_strip_is_taken_as_given(work):
    work.put("f", "".join(LINES))
    diff = change("f").replace("a/f", "x/y/f").replace("b/f", "x/z/f")
    work.apply(diff, strip=2)
    assert work.text("f") == changed()
    assert "no 5 components" in work.reason(diff, strip=5)


LOOSE = {
    "counts that are wrong": lambda d: d.replace("@@ -7,7 +7,7 @@", "@@ -7,3 +7,9 @@"),
    "no counts": lambda d: d.replace("@@ -7,7 +7,7 @@", "@@ -7 +7 @@"),
    "no numbers": lambda d: d.replace("@@ -7,7 +7,7 @@", "@@ ... @@"),
    "nothing but @@": lambda d: d.replace("@@ -7,7 +7,7 @@", "@@"),
    "lines far off": lambda d: d.replace("@@ -7,7 +7,7 @@", "@@ -27,7 +27,7 @@"),
    "no prefixes": lambda d: d.replace("a/dir", "dir").replace("b/dir", "dir"),
    "only one prefix": lambda d: d.replace("b/dir", "dir"),
    "absolute paths": lambda d: d.replace("a/dir", "/workspace/dir").replace("b/dir", "/workspace/dir"),
    "a fence": lambda d: "Here is it:\n\n```diff\n" + d + "```\n\nDone - I hope.\n",
    "no last newline": lambda d: d.removesuffix("\n"),
    "empty lines behind": lambda d: d + "\n\n",
    "another folder's name": lambda d: d.replace("a/dir", "v1.0/dir").replace("b/dir", "v1.1/dir"),
    "dates": lambda d: d.replace("dir/f\n", "dir/f\t2024-05-01 10:00:00.000000000 +0000\n"),
    "mail": lambda d: "From: me\nSubject: x\n\n---\n dir/f | 2 +-\n\n" + d + "-- \n2.39.5\n\n",
    "CRLF": lambda d: d.replace("\n", "\r\n"),
    "the other form": lambda d: "*** Begin Patch\n*** Update File: dir/f\n@@\n" + d.split("@@\n", 1)[1] + "*** End Patch\n",
}


@pytest.mark.parametrize("form", LOOSE)
def test_loose_diffs(work, form):
    work.put("dir/f", "".join(LINES))
    work.apply(LOOSE[form](change("dir/f")))
    assert work.text("dir/f") == changed()


def test_empty_context_lines_may_lack_their_blank(work):
    work.put("f", "a\n\nb\n\nc\n")
    work.apply("--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n\n-b\n+B\n\n c\n")
    assert work.text("f") == "a\n\nB\n\nc\n"


def test_the_other_form_adds_moves_and_deletes(work):
    work.put("a.py", "import os\n\ndef f():\n    return 1\n\ndef g():\n    return 1\n")
    work.put("b.py", "x\n")
    work.apply("*** Begin Patch\n*** Update File: a.py\n*** Move to: c.py\n@@ def g():\n-    return 1\n+    return 2\n"
               "*** Add File: d/new.py\n+hello\n*** Delete File: b.py\n*** End Patch\n")
    assert work.text("c.py").endswith("def g():\n    return 2\n") and "return 1" in work.text("c.py")
    assert work.text("d/new.py") == "hello\n" and not (work.root / "b.py").exists() and not (work.root / "a.py").exists()


def test_a_hunk_without_numbers_must_be_unique(work):
    work.put("f", "x\nsame\ny\nsame\nz\n")
    assert "several places" in work.reason("--- a/f\n+++ b/f\n@@ @@\n-same\n+other\n")


def test_line_ends_are_kept_when_whitespace_is_ignored(work):
    work.put("f", "".join(LINES).replace("\n", "\r\n"))
    assert "ignore_whitespace" in work.reason(change("f"))
    work.apply(change("f"), ignore_whitespace=True)
    assert (work.root / "f").read_bytes() == changed().replace("\n", "\r\n").encode()


# What it refuses

def test_missing_file(work):
    assert work.reason(change("nowhere")) == "there is no such file"


def test_folder_instead_of_file(work):
    work.put("d/f", "x\n")
    assert "folder" in work.reason(change("d"))


def test_binary_files_that_only_differ(work):
    work.put("x", b"\0")
    assert "--binary" in work.reason("diff --git a/x b/x\nindex 123..456 100644\nBinary files a/x and b/x differ\n")


def test_damaged_binary_patch(work):
    work.put("x", b"")
    empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    body = base64.b85encode(zlib.compress(b"abcd")[:-1] + b"\0").decode()
    diff = f"diff --git a/x b/x\nindex {empty}..{'1' * 40} 100644\nGIT binary patch\nliteral 4\nL{body}\n\n"
    assert "damaged" in work.reason(diff)


def test_huge_file(work):
    path = work.put("huge")
    os.truncate(path, 1 << 30)
    assert "larger than 64 MiB" in work.reason(change("huge"))


def test_invalid_utf8_survives_and_is_shown_harmlessly(work):
    work.put("f", b"\xff\xfe\n" + "".join(LINES).encode())
    work.apply(change("f"))
    assert (work.root / "f").read_bytes() == b"\xff\xfe\n" + changed().encode()
    rejected = work.refuse("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-xx\n+yy\n line 1\n")["data"]["rejected"][0]
    assert rejected["found"] == ["\ufffd\ufffd"]


def test_fifo(work):
    os.mkfifo(work.root / "p")
    assert "FIFO" in work.reason(change("p"))


def test_links_that_lead_out(work):
    outside = work.box.caller.folder(work.box.scratch, "outside")
    (outside / "f").write_text("".join(LINES))
    os.symlink(outside / "f", work.root / "l")
    os.symlink(outside, work.root / "d")
    assert "symbolic link" in work.reason(change("l"))
    assert "link" in work.reason(change("d/f"))
    assert "link" in work.reason("--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+x\n")
    assert os.listdir(outside) == ["f"] and (outside / "f").read_text() == "".join(LINES)


def test_a_link_made_by_the_diff_is_not_followed(work):
    assert "link" in work.reason(
        "diff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n"
        "diff --git a/d/x b/d/x\nnew file mode 100644\n--- /dev/null\n+++ b/d/x\n@@ -0,0 +1 @@\n+x\n")


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", ".git/hooks/pre-commit", "sub/.GIT/config", ".git"])
def test_paths_outside_and_git(work, name):
    work.reason(f"--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+x\n")
    work.reason(f"diff --git a/f b/f\nsimilarity index 100%\nrename from f\nrename to {name}\n")


def test_missing_permission(work):
    work.put("d/f", "".join(LINES))
    work.put("e/g", "".join(LINES))
    work.put("h", "secret\n", 0)
    (work.root / "d").chmod(0o555)
    try:
        assert "d/f: cannot be written: Permission denied" in work.refuse(change("e/g") + change("d/f"))["text"]
        assert "cannot be read: Permission denied" in work.reason("--- a/h\n+++ b/h\n@@ -1 +1 @@\n-secret\n+x\n")
    finally:
        (work.root / "d").chmod(0o755)


def test_read_only_box(work):
    work.put("f", "".join(LINES))
    work.mode = ["--mode", "ro"]
    assert "Read-only file system" in work.refuse(change("f"))["text"]


def test_full_disk(box):
    """The new content has no room: all is as it was."""
    box.put("f", "".join(LINES))
    env = {"XDG_RUNTIME_DIR": str(box.caller.folder(box.scratch, "run"))}
    made = box.hutch("box", "new", "-w", box.workspace, "--disk", "8M", env=env)
    assert made.returncode == 0, made
    name = made.stdout.strip()
    try:
        big = "".join("+" + "x" * 1000 + "\n" for _ in range(10000))
        diff = change("f") + "--- /dev/null\n+++ b/big\n@@ -0,0 +1,10000 @@\n" + big
        done = box.hutch("tool", "apply_diff", "--box", name, "-", input=json.dumps({"diff": diff}), env=env)
        assert done.returncode == 1 and "No space left on device" in done.stderr and "nothing was changed" in done.stderr
        seen = box.hutch("box", "exec", name, "--", "sh", "-c", "ls -A; cat f", env=env)
        assert seen.stdout == "f\n" + "".join(LINES)
    finally:
        box.hutch("box", "rm", name, env=env)


def test_hunks_out_of_order_apply_as_with_git(work):
    work.put("f", "".join(LINES))
    work.apply(change("f", 30) + change("f", 10).split("+++ b/f\n")[1])
    assert work.text("f") == changed(10).replace("line 30\n", "changed\n")


def test_overlapping_hunks(work):
    work.put("f", "".join(LINES))
    rejected = work.refuse(change("f", 10) + change("f", 10, "other\n").split("+++ b/f\n")[1])["data"]["rejected"]
    assert [(one["hunk"], "earlier hunk" in one["reason"]) for one in rejected] == [(2, True)]


def test_hunks_may_share_context_as_with_patch(work):
    work.put("f", "".join(LINES))
    work.apply(change("f", 10) + change("f", 13, "other\n").split("+++ b/f\n")[1])
    assert work.text("f") == changed(10).replace("line 13\n", "other\n")


def test_two_parts_about_the_same_file_build_on_each_other(work):
    work.put("f", "".join(LINES))
    work.apply(change("f", 10) + change("f", 30))
    assert work.text("f") == changed(10).replace("line 30\n", "changed\n")
    assert "earlier part" in work.reason("--- a/f\n+++ /dev/null\n@@ -1,40 +0,0 @@\n" + "".join(
        "-" + line for line in work.text("f").splitlines(True)) + change("f", 12))


def test_making_a_file_that_exists(work):
    work.put("f", "mine\n")
    assert "exists already" in work.reason("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+theirs\n")
    work.put("g", "mine\n")
    assert "exists already" in work.reason("diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n")


def test_deleting_a_file_that_has_changed(work):
    work.put("f", "one\ntwo\nmore\n")
    work.refuse("--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", fuzz=0)


def test_one_bad_hunk_keeps_everything_as_it_was(work):
    work.put("a", "".join(LINES))
    work.put("b", "".join(LINES).replace("line 10\n", "line ten\n"))
    result = work.refuse(change("a") + change("b") + change("c") + "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n")
    rejected = result["data"]["rejected"]
    assert [(one["path"], one.get("hunk")) for one in rejected] == [("b", 1), ("c", None)]
    assert rejected[0]["line"] == 10 and rejected[0]["expected"] == ["line 10"] and rejected[0]["found"] == ["line ten"]
    assert "    10|line ten" in result["text"] and rejected[0]["header"] == "@@ -7,7 +7,7 @@"


@pytest.mark.parametrize("diff, said", [
    ("hello\n", "no diff found"),
    ("@@ -1 +1 @@\n-a\n+b\n", "without the name"),
    ("--- a/f\n+++ b/f\nhello\n", "no hunk"),
    ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+c\nd\n", "line 7 of the diff begins with none"),
    ("*** a/f\n--- b/f\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n", "context diff"),
    ("diff --cc f\n@@@ -1,1 -1,1 +1,1 @@@\n", "merge"),
    ("diff --git a/s b/s\nnew file mode 160000\n", "submodule"),
    ("*** Begin Patch\n*** Frob File: x\n*** End Patch\n", "expected *** Add File"),
])
def test_what_is_no_diff(work, diff, said):
    assert said in work.refuse(diff)["text"]


def test_a_diff_that_is_too_large(work):
    work.put("f", "x\n")
    long = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+" + "\u00fc" * (9 << 20)
    assert "larger than 16 MiB" in work.refuse(long)["text"]
    many = "".join(f"--- /dev/null\n+++ b/n{i}\n@@ -0,0 +1 @@\n+x\n" for i in range(10001))
    assert "more than 10000 files" in work.refuse(many)["text"]


def test_somebody_who_writes_meanwhile_loses_nothing(work):
    """Whatever comes of a diff while its file is rewritten all the time: never a mix, never a lost file."""
    work.put("f", "".join(LINES))
    other = "somebody else\n" + "".join(LINES)
    stop = threading.Event()

    def rewrite():
        while not stop.is_set():
            work.put("f.tmp", other)
            os.replace(work.root / "f.tmp", work.root / "f")
    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(5):
            work.call(change("f"))
    finally:
        stop.set()
        thread.join()
    assert work.text("f") in (other, "somebody else\n" + changed(), changed(), "".join(LINES))
    assert sorted(set(os.listdir(work.root)) - {"f.tmp"}) == ["f"]
