"""apply_diff agrees with git apply and GNU patch on 2,000 random repositories, edits and targets.

What is asked for each diff:

- git apply applies it: apply_diff does, with the same bytes.
- only patch applies it (with fuzz, with hunks that share context, without any context): apply_diff does, with the bytes
  of patch. Parts of a diff that patch cannot represent (binary patches, some with blanks in their names) are git's then.
- neither does: apply_diff refuses, and nothing has changed.

Where both apply it and differ, git is followed, since it asks for more before it places a hunk. Not followed are three
things that nobody wants:

- A hunk that ends in a line without a newline, and is not tied to the end of the file, matches for git also a line that
  has one, and if other lines follow, git joins the two. patch is followed.
- A hunk of nothing but new lines (of a diff without context) is put by git at the end of the file, wherever it belongs,
  unless it is told --unidiff-zero, as its manual says to do for such diffs. So it is told that here; where the target has
  drifted, patch is followed.
- patch renames and copies over a file that is in the way. Nobody is followed: it is refused, as git does.
"""
import concurrent.futures
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

import diff_corpus
import harness

CASES = int(os.environ.get("HUTCH_DIFF_CASES", "2000"))
FIRST = int(os.environ.get("HUTCH_DIFF_FIRST", "1"))
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
    options = ["--unidiff-zero"] if "-U0" in case.options else []
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


def patch_may_overwrite(case, text):
    """Something stands where the diff renames or copies a file to."""
    return any(re.search(rb"(?m)^(rename|copy) to %s$" % re.escape(name.encode()), text)
               for name in case.target if name not in case.old)


class Played:
    """One case applied by the others; apply_diff's part is added later."""

    def __init__(self, folder, repository, case):
        self.case = case
        self.folder = folder / str(case.seed)
        self.folder.mkdir()
        self.diff = self.folder / "diff"
        self.text = diff_corpus.make_diff(repository, case, ENV)
        self.diff.write_bytes(self.text)
        for name in "gph":
            write_tree(self.folder / name, case.target)
        self.expected = []
        if self.text:
            self.play()

    def play(self):
        """Fills `expected` with the results that are right; none: it must be refused."""
        git = None
        if run_git(self.folder / "g", self.diff, self.case) and not self.git_is_loose():
            git = read_tree(self.folder / "g")
        patched = None if patch_may_overwrite(self.case, self.text) else self.play_patch()
        self.expected = [tree for tree in (git, patched) if tree is not None]
        if not git_may_join_lines(self.text):
            self.expected = self.expected[:1]

    def git_is_loose(self):
        """Told --unidiff-zero, git takes hunks in any order and joins lines, if the target is not what it was."""
        return "-U0" in self.case.options and self.case.target != self.case.old and b"\n@@ " in self.text

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

    def check(self, answer):
        """What is wrong with apply_diff's answer, or None."""
        got = read_tree(self.folder / "h")
        if not self.expected:
            if answer == "yes":
                return "applied what both refuse"
            return None if got == self.before() else "refused, but changed something"
        if answer != "yes":
            return "refused what others apply: " + answer
        return None if got in self.expected else "other bytes"

    def before(self):
        return self.case.target


@pytest.fixture(scope="module")
def program(hutch):
    path = hutch.parent / "tests" / "unit" / "patch_run"
    if not path.exists():
        pytest.skip(f"not built: {path}")
    return path


@pytest.fixture(scope="module")
def played():
    folder = Path(tempfile.mkdtemp(prefix="hutch-corpus-", dir="/var/tmp"))
    cases = [diff_corpus.Case(seed) for seed in range(FIRST, FIRST + CASES)]
    repository = folder / "repository"
    diff_corpus.make_repository(repository, cases, ENV)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield list(pool.map(lambda case: Played(folder, repository, case), cases))
    if "HUTCH_DIFF_KEEP" not in os.environ:
        shutil.rmtree(folder)


def test_apply_diff_agrees_with_git_apply_and_patch(program, played):
    todo = [one for one in played if one.text]
    lines = "".join(f"{one.folder / 'h'}\t{one.diff}\t\n" for one in todo)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(todo)
    wrong = [(one.case.seed, why) for one, answer in zip(todo, answers) if (why := one.check(answer))]
    applied = sum(1 for one in todo if one.expected)
    print(f"{len(todo)} diffs, {applied} applied, {len(todo) - applied} refused")
    assert not wrong, f"{len(wrong)} of {len(todo)}: {wrong[:10]}, in {played[0].folder.parent}"
    assert applied > len(todo) / 3 and len(todo) - applied > len(todo) / 10
