"""`--from swebench:FILE --repos DIR`, with repositories of real git and rows of our own."""
import json
import signal
import subprocess

import pytest

import harness
from listing import is_empty, tasks, write

BASE = {
    "shop/__init__.py": "", "shop/cart.py": "def total(prices):\n    return sum(prices) - 1\n",
    "tests/__init__.py": "", "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef prices():\n    return [1, 2]\n",
    "tests/test_cart.py": "from shop.cart import total\nfrom .helpers import THREE\n\n\ndef test_type():\n"
                          "    assert isinstance(total([THREE]), int)\n",
    "tests/helpers.py": "THREE = 3\n", "tests/test_old.py": "def test_gone():\n    pass\n",
    "run.sh": "#!/bin/sh\n", "docs/link": ("link", "../shop/cart.py"),
}
FIXED = {"shop/cart.py": "def total(prices):\n    return sum(prices)\n"}
TESTED = {
    "tests/test_cart.py": BASE["tests/test_cart.py"] + "\n\ndef test_sum(prices):\n    assert total(prices) == 3\n",
    "tests/test_more.py": "from shop.cart import total\n\n\nclass TestEmpty:\n    def test_nothing(self):\n"
                          "        assert total([]) == 0\n",
}


class Repository:
    """A checkout of the caller's whose history has the base, and after it the answer."""

    def __init__(self, box, name):
        self.box, self.path = box, write(box, name, BASE)
        self.git("init", "-q", "-b", "main")
        self.base = self.commit("base")
        self.patch = self.change(FIXED)
        self.commit("the answer")
        self.git("checkout", "-q", self.base)
        for path, content in TESTED.items():
            self.put(path, content)
        (self.path / "tests/test_old.py").unlink()
        self.git("add", "-A")
        self.test_patch = self.git("diff", "--cached")
        self.git("reset", "-q", "--hard", "main")

    def git(self, *words):
        env = {**self.box.env, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
               "GIT_COMMITTER_EMAIL": "a@b"}
        return subprocess.run([*self.box.caller.prefix, "git", "-c", "gc.auto=0", "-C", str(self.path), *words], env=env, check=True,
                              capture_output=True, text=True).stdout

    def put(self, path, content):
        self.box.caller.own(self.path / path) if (self.path / path).exists() else None
        (self.path / path).write_text(content)
        self.box.caller.own(self.path / path)

    def change(self, files):
        for path, content in files.items():
            self.put(path, content)
        return self.git("diff")

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def row(self, **changes):
        row = {"instance_id": "acme__shop-1", "repo": "acme/shop", "base_commit": self.base, "patch": self.patch,
               "test_patch": self.test_patch, "problem_statement": "The total is one too little.\nSee the cart.",
               "FAIL_TO_PASS": json.dumps(["tests/test_cart.py::test_sum", "tests/test_more.py::TestEmpty::test_nothing"]),
               "PASS_TO_PASS": ["tests/test_cart.py::test_type"], "version": "1.0", "hints_text": ""}
        return {**row, **changes}


@pytest.fixture
def repository(box):
    return Repository(box, "repos/acme__shop")


def rows_file(box, name, text):
    box.put(name, text)
    return f"swebench:{box.workspace / name}"


def test_a_row_is_a_task_in_order(box, repository):
    where = rows_file(box, "rows.jsonl", json.dumps(repository.row()) + "\n\n")
    listed = tasks(box, "--from", where, "--repos", box.workspace / "repos")
    task = listed.tasks["acme__shop-1"]
    assert listed.status == 0 and task["valid"], listed
    assert task["title"] == "acme/shop: The total is one too little."
    assert task["tests"] == 3 and task["patches"] == 1 and task["hidden"] == 2
    root = box.caller.home / ".cache/hutch/gym" / f"acme__shop-{repository.base}"
    assert (root / "shop/cart.py").read_text() == BASE["shop/cart.py"]
    assert (root / "docs/link").is_symlink() and (root / "tests/test_old.py").exists()
    assert not (root / ".git").exists(), "the history holds the answer"
    assert not [path.name for path in root.parent.iterdir() if path.name.startswith(("files.", root.name + "."))], "nothing else is left"


def test_an_interrupted_extraction_leaves_nothing(box, repository):
    write(box, "repos/acme__shop", {f"many/{n // 100}/{n}": f"{n}\n" for n in range(6000)})
    row = repository.row(base_commit=repository.commit("many files"))
    where = rows_file(box, "rows.jsonl", json.dumps(row))
    cache = box.caller.home / ".cache/hutch/gym"
    others = set(cache.iterdir()) if cache.exists() else set()
    process = subprocess.Popen([*box.caller.prefix, str(box.program), "gym", "tasks", "--from", where, "--repos",
                                str(box.workspace / "repos")], env=box.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    harness.wait_until(lambda: any(cache.glob(f"*{row['base_commit']}*/many")) or process.poll() is not None, 60, "files are extracted")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, "", "")
    whole = cache / f"acme__shop-{row['base_commit']}"
    assert set(cache.iterdir()) - others <= {whole}, "half a folder is left"
    assert not whole.exists() or len([path for path in whole.rglob("*") if path.name.isdigit() and path.is_file()]) == 6000


def test_an_array_of_rows_and_one_of_them(box, repository):
    rows = [repository.row(), repository.row(instance_id="acme__shop-2")]
    where = rows_file(box, "rows.json", json.dumps(rows, indent=1))
    listed = tasks(box, "--no-check", "--from", where, "--repos", box.workspace / "repos")
    assert sorted(listed.tasks) == ["acme__shop-1", "acme__shop-2"]
    listed = tasks(box, "--no-check", "--from", where, "--repos", box.workspace / "repos", "acme__shop-2")
    assert list(listed.tasks) == ["acme__shop-2"]


@pytest.mark.parametrize("change, why", [
    ({"repo": "acme/else"}, "there is no repository acme__else (nor else) in"),
    ({"repo": "../etc"}, "is not of the form OWNER/NAME"),
    ({"base_commit": "0" * 40}, "cannot read the commit"),
    ({"base_commit": "main"}, 'base_commit: "main" is not a commit'),
    ({"base_commit": "--output=/tmp/x"}, "is not a commit id"),
    ({"patch": ""}, "patch: is empty"),
    ({"problem_statement": None}, "problem_statement: is missing"),
    ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS: is empty"),
    ({"FAIL_TO_PASS": "x"}, "FAIL_TO_PASS: line 1"),
    ({"FAIL_TO_PASS": "['x"}, "FAIL_TO_PASS: line 1"),
    ({"FAIL_TO_PASS": None}, "FAIL_TO_PASS: is missing or not a list"),
    ({"FAIL_TO_PASS": ["test_nowhere"]}, "its test test_nowhere is in no file of test_patch"),
    ({"base_commit": None}, "base_commit: is missing"),
    ({"test_patch": None}, "test_patch: is missing"),
    ({"FAIL_TO_PASS": ["test_sum (shop.tests.CartTest)"]}, "its tests are not pytest's: test_sum (shop.tests.CartTest)"),
    ({"FAIL_TO_PASS": ["../x.py::test"]}, "its tests are not pytest's"),
    ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS[0]: not a string"),
    ({"test_patch": "nothing"}, "is not a diff: it names no files"),
    ({"test_patch": "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"}, "the diff names a file outside"),
    ({"test_patch": "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1 +1 @@\n-nonsense\n+x\n"},
     "test_patch does not apply to the base"),
])
def test_a_row_that_cannot_be_had_is_left_out_with_the_reason(box, repository, change, why):
    text = json.dumps(repository.row(**change)) + "\n" + json.dumps(repository.row(instance_id="good"))
    listed = tasks(box, "--no-check", "--from", rows_file(box, "rows.jsonl", text), "--repos", box.workspace / "repos")
    assert list(listed.tasks) == ["good"], listed
    assert f"hutch: acme__shop-1: left out: {why}" in listed.said or why in listed.said, listed.said


def test_broken_lines_are_told_by_number(box, repository):
    text = json.dumps(repository.row()) + '\n{"instance_id": \n[1]\n'
    listed = tasks(box, "--no-check", "--from", rows_file(box, "rows.jsonl", text), "--repos", box.workspace / "repos")
    assert list(listed.tasks) == ["acme__shop-1"]
    assert "rows.jsonl, line 2: left out: " in listed.said and "rows.jsonl, line 3: left out: " in listed.said


def test_what_is_no_list_of_rows(box):
    done = box.hutch("gym", "tasks", "--from", rows_file(box, "rows.txt", "id,patch\n"))
    assert done.returncode == 125 and "must begin with [" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", rows_file(box, "rows.json", "[{]"))
    assert done.returncode == 125 and "rows.json: line 1" in done.stderr, done
    done = box.hutch("gym", "tasks", "--from", "swebench:/nonexistent")
    assert done.returncode == 125 and "/nonexistent: No such file" in done.stderr, done


def test_repositories_must_be_named(box, repository):
    done = box.hutch("gym", "tasks", "--from", rows_file(box, "rows.jsonl", json.dumps(repository.row())))
    assert done.returncode == 125 and "name the folder that contains it with --repos" in done.stderr, done


def test_a_repository_cannot_make_the_host_run_anything(box, repository):
    """Its settings name programs for everything; none of them is run, and nothing leaves the folder."""
    trap = box.workspace / "trap.sh"
    box.put("trap.sh", f"#!/bin/sh\ntouch {box.workspace}/sprung\n", 0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "uploadpack.packObjectsHook",
                 "filter.x.smudge", "filter.x.clean", "core.alternateRefsCommand"):
        repository.git("config", name, str(trap))
    repository.git("config", "core.hooksPath", str(box.workspace))
    (repository.path / ".git/info/attributes").write_text("* filter=x\n")
    where = rows_file(box, "rows.jsonl", json.dumps(repository.row()))
    listed = tasks(box, "--no-check", "--from", where, "--repos", box.workspace / "repos")
    assert list(listed.tasks) == ["acme__shop-1"], listed
    assert not (box.workspace / "sprung").exists()


def test_a_cache_inside_of_another_repository(box, repository):
    """git would apply the test patch to that one."""
    cache = write(box, "outer", {"x": "1"})
    subprocess.run([*box.caller.prefix, "git", "-C", str(cache), "init", "-q"], env=box.env, check=True)
    where = rows_file(box, "rows.jsonl", json.dumps(repository.row()))
    listed = tasks(box, "--no-check", "--from", where, "--repos", box.workspace / "repos", env={"XDG_CACHE_HOME": str(cache)})
    assert listed.tasks["acme__shop-1"]["hidden"] == 2, listed
    assert not is_empty(cache / "hutch/gym")


def test_a_tree_that_leaves_its_folder_is_refused(box, repository):
    """A commit may hold names that no working tree has: made with git's plumbing."""
    blob = repository.git("hash-object", "-w", "shop/cart.py").strip()
    tree = subprocess.run([*box.caller.prefix, "git", "-C", str(repository.path), "hash-object", "-w", "-t", "tree",
                           "--literally", "--stdin"], env=box.env, check=True, capture_output=True,
                          input=b"100644 ..\0" + bytes.fromhex(blob)).stdout.decode().strip()
    commit = repository.git("-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "x", tree).strip()
    where = rows_file(box, "rows.jsonl", json.dumps(repository.row(base_commit=commit)))
    done = box.hutch("gym", "tasks", "--no-check", "--from", where, "--repos", box.workspace / "repos")
    assert done.returncode == 125 and "left out: ..: Invalid argument" in done.stderr, done
    assert is_empty(box.caller.home / ".cache/hutch/gym") or commit not in str(list((box.caller.home / ".cache/hutch/gym").iterdir()))
