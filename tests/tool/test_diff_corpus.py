"""apply_diff agrees with git apply and GNU patch on 2,000 random repositories, edits and targets.

What is asked for each diff:

- the target is what the diff was made from, and git apply or patch apply it: apply_diff makes what it was made to.
- git apply applies it: apply_diff does, with the same bytes.
- only patch applies it (with fuzz, with hunks that share context, without any context): apply_diff does, with the bytes
  of patch. Parts of a diff that patch cannot represent (binary patches, some with blanks in their names) are git's then.
- neither does: apply_diff refuses, and nothing has changed.

Where both apply it and differ, git is followed, since it asks for more before it places a hunk. Not followed are three
things that nobody wants:

- A hunk that ends in a line without a newline, and is not tied to the end of the file, matches for git also a line that
  has one, and if other lines follow, git joins the two. patch is followed.
- A hunk of nothing but new lines (of a diff without context) is put by git at the end of the file, wherever it belongs,
  unless it is told --unidiff-zero, as its manual says to do for such diffs; then it takes hunks in any order. So it is only
  told that where the target has not drifted, and where it has, patch is followed.
- patch renames and copies over a file that is in the way. Nobody is followed: it is refused, as git does.
"""
import concurrent.futures
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

import diff_corpus

CASES = int(os.environ.get("HUTCH_DIFF_CASES", "2000"))
FIRST = int(os.environ.get("HUTCH_DIFF_FIRST", "1"))
LIVE = 60   # of them through the tool in a box, as each caller
THREADS = 2 * os.cpu_count()
BOXES = 25  # of them as changes that are made in a box
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
       "GIT_CEILING_DIRECTORIES": "/"}

pytestmark = pytest.mark.skipif(not shutil.which("git") or not shutil.which("patch"), reason="no git or no patch here")


def write_tree(folder, tree):
    folder.mkdir()
    for name, (kind, data) in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            os.symlink(data, path)
        else:
            path.write_bytes(data)
            path.chmod(0o755 if kind == "exec" else 0o644)


def read_tree(folder):
    """The tree in a folder, empty folders included as ("folder", b"")."""
    tree = {}
    for where, folders, files in os.walk(folder):
        for name in files + folders:
            path = Path(where) / name
            mode = path.lstat().st_mode
            key = str(path.relative_to(folder))
            if stat.S_ISLNK(mode):
                tree[key] = ("link", os.readlink(os.fsencode(path)))
            elif stat.S_ISREG(mode):
                tree[key] = ("exec" if mode & 0o100 else "file", path.read_bytes())
            elif not os.listdir(path):
                tree[key] = ("folder", b"")
    return tree


def run_git(folder, diff, case):
    options = ["--unidiff-zero"] if "-U0" in case.options and case.target == case.old else []
    done = subprocess.run(["git", "apply", *options, f"-p{case.strip}", str(diff)], cwd=folder, env=ENV, capture_output=True,
                          check=False)
    return done.returncode == 0


def run_patch(folder, diff, case):
    done = subprocess.run(["patch", f"-p{case.strip}", "-N", "-t", "-s", "--no-backup-if-mismatch", "-r", "-", "-i", str(diff)],
                          cwd=folder, env=ENV, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True, check=False)
    return done.returncode == 0


def has_binary(text):
    return b"\nGIT binary patch\n" in text or b"\nBinary files " in text


def is_beyond_patch(part):
    """patch knows no binary patches, and no names with blanks but those behind --- and +++."""
    return has_binary(part) or (b"\n+++ " not in part and part.split(b"\n")[0].count(b" ") > 3)


def split_diff(text):
    """The parts of a git diff that patch can represent, and those that it cannot."""
    parts = re.split(rb"(?m)^(?=diff --git )", text)
    return (b"".join(part for part in parts if not is_beyond_patch(part)),
            b"".join(part for part in parts if is_beyond_patch(part)))


def git_may_join_lines(text):
    return re.search(rb"(?m)^ .*\n\\ No newline", text) is not None


def git_may_misplace(case, text):
    return case.target != case.old and re.search(rb"(?m)^@@ -[1-9]\d*,0 ", text) is not None


def unquoted(name):
    return name[1:-1].decode("unicode_escape").encode("latin-1") if name.startswith(b'"') else name


def patch_may_overwrite(case, text):
    """Something stands where the diff renames or copies a file to."""
    names = {unquoted(name).decode() for name in re.findall(rb"(?m)^(?:rename|copy) to (.*)$", text)}
    return any(name in case.target and name not in case.old for name in names)


class Runner:
    """The guest's own code in a process that applies one diff after the other."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def apply(self, folder, diff):
        self.process.stdin.write(f"{folder}\t{diff}\t\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


class Played:
    """One case, applied by git, by patch and by the guest's code."""

    def __init__(self, folder, repository, case, runner):
        self.case = case
        self.folder = folder / str(case.seed)
        self.folder.mkdir()
        self.diff = self.folder / "diff"
        self.text = diff_corpus.make_diff(repository, case, ENV)
        self.diff.write_bytes(self.text)
        for name in "gph":
            write_tree(self.folder / name, case.target)
        self.expected = []
        self.may_refuse = False
        self.wrong = None
        if self.text:
            self.play()
            self.wrong = self.check(runner.apply(self.folder / "h", self.diff), self.folder / "h")
        if not self.wrong:
            shutil.rmtree(self.folder)

    def play(self):
        """Fills `expected` with the results that are right; none: it must be refused."""
        git = None
        if run_git(self.folder / "g", self.diff, self.case) and not git_may_misplace(self.case, self.text):
            git = read_tree(self.folder / "g")
        patched = None if patch_may_overwrite(self.case, self.text) else self.play_patch()
        self.expected = [tree for tree in (git, patched) if tree is not None]
        drifted = self.case.target != self.case.old
        if self.expected and not drifted:
            self.expected = [self.case.new]
        elif git_may_join_lines(self.text):
            self.may_refuse = patched is None
        else:
            self.expected = self.expected[:1]

    def play_patch(self):
        """The tree that patch makes, with the help of git for what it cannot represent; or None."""
        text, others = split_diff(self.text)
        if not has_binary(self.text) and run_patch(self.folder / "p", self.diff, self.case):
            return read_tree(self.folder / "p")
        diffs = self.folder / "text", self.folder / "others"
        if not text or not others:
            return None
        diffs[0].write_bytes(text)
        diffs[1].write_bytes(others)
        write_tree(self.folder / "q", self.case.target)
        ok = run_git(self.folder / "q", diffs[1], self.case) and run_patch(self.folder / "q", diffs[0], self.case)
        return read_tree(self.folder / "q") if ok else None

    def check(self, answer, where):
        """What is wrong with apply_diff's answer and with the folder that it was to change, or None."""
        got = read_tree(where)
        if not self.expected or (self.may_refuse and answer != "yes"):
            if answer == "yes":
                return "applied what both refuse"
            return None if got == self.case.target else "refused, but changed something"
        if answer != "yes":
            return "refused what others apply: " + answer
        return None if got in self.expected else "other bytes"


@pytest.fixture(scope="module")
def program(hutch):
    path = hutch.parent / "tests" / "unit" / "guest" / "patch_run"
    if not path.exists():
        pytest.skip(f"not built: {path}")
    return path


@pytest.fixture(scope="module")
def played(program):
    """All cases, each checked and removed at once; what is wrong is left to be looked at."""
    memory = os.access("/dev/shm", os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="hutch-corpus-", dir="/dev/shm" if memory else "/var/tmp"))
    cases = [diff_corpus.Case(seed) for seed in range(FIRST, FIRST + CASES)]
    repository = folder / "repository"
    diff_corpus.make_repository(repository, cases, ENV)

    def play(part):
        runner = Runner(program)
        done = [Played(folder, repository, case, runner) for case in part]
        assert runner.end() == 0
        return done
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = list(pool.map(play, [cases[i::THREADS] for i in range(THREADS)]))
    done = sorted((one for part in parts for one in part), key=lambda one: one.case.seed)
    yield done
    if not any(one.wrong for one in done):
        shutil.rmtree(folder)


def test_apply_diff_agrees_with_git_apply_and_patch(played):
    todo = [one for one in played if one.text]
    wrong = [(one.case.seed, one.wrong) for one in todo if one.wrong]
    applied = sum(1 for one in todo if one.expected)
    print(f"{len(todo)} diffs, {applied} applied, {len(todo) - applied} refused")
    assert not wrong, f"{len(wrong)} of {len(todo)}: {wrong[:10]}, in {played[0].folder.parent}"
    assert applied > len(todo) / 3 and len(todo) - applied > len(todo) / 10


def write_owned(box, folder, tree):
    """A tree that belongs to the caller of the box."""
    write_tree(folder, tree)
    box.caller.own(folder)
    for where, folders, files in os.walk(folder):
        for name in folders + files:
            box.caller.own(Path(where) / name)


def call_tool(box, folder, text):
    """The tool itself, in a box that writes to the folder: its answer in the words of patch_run."""
    done = box.hutch("tool", "apply_diff", "--json", "-w", folder, "--mode", "direct", "-",
                     input=json.dumps({"diff": text.decode()}))
    assert done.returncode in (0, 1), done
    result = json.loads(done.stdout_bytes)
    return "no: " + result["text"] if result["failed"] else "yes"


def test_the_tool_in_a_live_box_agrees_too(box, played):
    todo = [one for one in played if one.text][:LIVE]
    wrong = []
    for one in todo:
        live = box.caller.folder(box.scratch, "live") / "w"
        write_owned(box, live, one.case.target)
        why = one.check(call_tool(box, live, one.text), live)
        if why:
            wrong.append((one.case.seed, why))
    assert not wrong
    assert {bool(one.expected) for one in todo} == {True, False}


def test_the_diff_of_a_box_makes_the_same_tree_elsewhere(box):
    """What `hutch box diff` says, applied by git and by apply_diff to what the box began with."""
    env = {"XDG_RUNTIME_DIR": str(box.caller.folder(box.scratch, "run"))}
    for seed in range(1, 1 + BOXES):
        case = diff_corpus.Case(seed)
        folder = box.caller.folder(box.scratch, "diff")
        for name, tree in (("old", case.old), ("new", case.new), ("git", case.old), ("tool", case.old)):
            write_owned(box, folder / name, tree)
        made = box.hutch("box", "new", "-w", folder / "old", "--ro", f"{folder / 'new'}:/new", env=env)
        assert made.returncode == 0, made
        name = made.stdout.strip()
        try:
            script = "find . -mindepth 1 -delete; cp -a /new/. ."
            done = box.hutch("box", "exec", name, "--", "sh", "-c", script, env=env)
            assert done.returncode == 0, done
            text = box.hutch("box", "diff", name, env=env).stdout_bytes
        finally:
            box.hutch("box", "rm", name, env=env)
        (folder / "diff").write_bytes(text)
        if text:
            done = subprocess.run(["git", "apply", str(folder / "diff")], cwd=folder / "git", env=ENV, capture_output=True,
                                  check=False)
            assert done.returncode == 0, (seed, done.stderr)
            assert call_tool(box, folder / "tool", text) == "yes", seed
        assert read_tree(folder / "git") == case.new, seed
        assert read_tree(folder / "tool") == case.new, seed
