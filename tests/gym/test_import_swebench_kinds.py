"""`--from swebench:FILE`: the forms that rows have where they are really published, and what is in them."""
import json
import subprocess

import pytest

from listing import tasks
from test_import_swebench import BASE, Repository, rows_file


@pytest.fixture
def repository(box):
    return Repository(box, "repos/acme__shop")


def listed(box, *rows, check=True, text=None):
    where = rows_file(box, "rows.jsonl", text if text is not None else "".join(json.dumps(row) + "\n" for row in rows))
    options = () if check else ("--no-check",)
    return tasks(box, *options, "--from", where, "--repos", box.workspace / "repos")


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


def test_one_row_alone_and_what_a_server_answers(box, repository):
    pretty = json.dumps(repository.row(), indent=2)
    assert list(listed(box, text=pretty, check=False).tasks) == ["acme__shop-1"]
    rows = [{"row_idx": i, "row": repository.row(instance_id=f"shop-{i}"), "truncated_cells": []} for i in range(2)]
    answer = json.dumps({"features": [{"name": "repo"}], "rows": rows, "num_rows_total": 500})
    assert sorted(listed(box, text=answer, check=False).tasks) == ["shop-0", "shop-1"]


def test_a_parquet_file(box):
    done = box.hutch("gym", "tasks", "--from", rows_file(box, "rows.parquet", "PAR1\x15\x04"))
    assert done.returncode == 125 and "a Parquet file must be converted to JSON first" in done.stderr, done


def test_small_letters_and_lists_of_python(box, repository):
    """As SWE-bench Pro has them; what is required belongs to the instruction."""
    row = without(repository.row(), "FAIL_TO_PASS", "PASS_TO_PASS")
    row.update(fail_to_pass="['tests/test_cart.py::test_sum', \"tests/test_more.py::TestEmpty::test_nothing\"]",
               pass_to_pass=" [ 'tests/test_cart.py::test_type' ]", requirements="- It is whole.", interface="None.")
    task = listed(box, row).tasks["acme__shop-1"]
    assert task["valid"] and task["tests"] == 3, task
    done = box.hutch("gym", "episode", "--from", rows_file(box, "row.jsonl", json.dumps(row)), "--repos", box.workspace / "repos",
                     "--task", "acme__shop-1", "--agent", "random", "--seed", "1", "--clock", "virtual", "--record",
                     box.workspace / "t.jsonl")
    begin = json.loads((box.workspace / "t.jsonl").read_text().splitlines()[1])
    assert done.returncode == 0 and begin["observation"]["text"] == (
        "The total is one too little.\nSee the cart.\n\nRequirements:\n- It is whole.\n\nInterface:\nNone."), done


def test_names_without_a_file(box, repository):
    """As SymPy's rows have them: the function is looked for in the files of the test patch."""
    row = repository.row(FAIL_TO_PASS='["test_sum"]', PASS_TO_PASS='["test_type", "test_gone"]')
    found = listed(box, row)
    assert found.tasks["acme__shop-1"]["valid"] and found.tasks["acme__shop-1"]["tests"] == 2, found
    assert "acme__shop-1: 1 of its 3 tests have names that were cut off, or are not found, and do not count" in found.said


PARAMETERS = "import pytest\nfrom shop.cart import total\n\n\n@pytest.mark.parametrize('x', ['a b', 'a c', 'd'])\n" \
             "def test_each(x):\n    assert total([len(x)]) == len(x)\n\n\ndef test_one():\n    assert total([1]) == 1\n"


@pytest.mark.parametrize("must, keep, tests, said", [
    (["test_one"], ["test_each[a", "test_each[b"], 1, "2 of its 3 tests have names that were cut off, or are not found"),
    (["test_each[a"], ["test_each[d]"], 4, "its test names are truncated; the tests that pass with the solution count"),
])
def test_names_that_were_cut_off_at_a_blank(box, repository, must, keep, tests, said):
    patch = "--- /dev/null\n+++ b/tests/test_each.py\n@@ -0,0 +1,11 @@\n" + "".join(f"+{line}\n" for line in PARAMETERS.splitlines())
    names = [[f"tests/test_each.py::{name}" for name in some] for some in (must, keep)]
    found = listed(box, repository.row(test_patch=patch, FAIL_TO_PASS=names[0], PASS_TO_PASS=names[1]))
    assert found.tasks["acme__shop-1"]["valid"] and found.tasks["acme__shop-1"]["tests"] == tests, found
    assert said in found.said, found.said


def test_files_without_content(box, repository):
    """A diff may only say that pictures differ; and a file may be made that is empty."""
    picture = "diff --git a/tests/{0} b/tests/{0}\nindex 1111111..2222222 100644\nBinary files a/tests/{0} and b/tests/{0} differ\n"
    empty = "diff --git a/tests/sub/__init__.py b/tests/sub/__init__.py\nnew file mode 100644\nindex 0000000..e69de29\n"
    row = repository.row(test_patch=picture.format("a.png") + repository.test_patch + empty + picture.format("b.png"),
                         patch=repository.patch + picture.format("c.png"))
    found = listed(box, row)
    assert found.tasks["acme__shop-1"]["valid"] and found.tasks["acme__shop-1"]["hidden"] == 3, found
    assert "acme__shop-1: 3 binary files of its patches have no content and stay as they are" in found.said


def test_a_short_commit_and_a_bare_repository(box, repository):
    bare = box.workspace / "repos/acme/shop.git"
    bare.parent.mkdir()
    box.caller.own(bare.parent)
    subprocess.run([*box.caller.prefix, "git", "clone", "-q", "--bare", str(repository.path), str(bare)], env=box.env, check=True)
    repository.path.rename(box.workspace / "elsewhere")
    found = listed(box, repository.row(base_commit=repository.base[:8]), check=False)
    assert list(found.tasks) == ["acme__shop-1"], found


SMITH_TEST = "from unittest import TestCase\n\nfrom shop.cart import total\n\n\nclass CartTest(TestCase):\n" \
             "    def test_sum(self):\n        self.assertEqual(total([1, 2]), 3)\n\n    def test_type(self):\n" \
             "        self.assertIsInstance(total([]), int)\n"


class Smith(Repository):
    """A repository in order, and the diff that breaks it."""

    def __init__(self, box, name):
        super().__init__(box, name)
        self.put("tests/test_smith.py", SMITH_TEST)
        self.base = self.commit("in order")
        self.bug = self.change({"shop/cart.py": BASE["shop/cart.py"]})
        self.git("checkout", "-q", "--", ".")

    def row(self, **changes):
        return {"instance_id": "acme__shop.1234abcd.func_basic__x1", "repo": "swesmith/acme__shop.1234abcd", "patch": self.bug,
                "image_name": "x/y", "problem_statement": "The total is wrong.",
                "FAIL_TO_PASS": ["tests/test_smith.py::CartTest::test_sum"],
                "PASS_TO_PASS": ["tests/test_smith.py::CartTest::test_type"], **changes}


@pytest.mark.parametrize("name", ["repos/swesmith__acme__shop.1234abcd", "repos/acme__shop.1234abcd", "repos/acme__shop"])
def test_rows_whose_patch_is_the_bug(box, name):
    """As SWE-smith has them, with its copy of the repository or the one it was made from. Tests that import TestCase have
    pytest collect that class, too; that is nothing that somebody has tampered with."""
    repository = Smith(box, name)
    found = listed(box, repository.row())
    task = found.tasks["acme__shop.1234abcd.func_basic__x1"]
    assert task["valid"] and task["tests"] == 2 and task["hidden"] == 0, found


def test_a_commit_that_has_the_bug_already(box):
    repository = Smith(box, "repos/acme__shop.1234abcd")
    repository.change({"shop/cart.py": BASE["shop/cart.py"]})
    broken = repository.commit("bug")
    found = listed(box, repository.row(base_commit=broken))
    assert found.tasks["acme__shop.1234abcd.func_basic__x1"]["valid"], found


def test_a_bug_that_removes_a_file(box):
    repository = Smith(box, "repos/acme__shop.1234abcd")
    repository.git("rm", "-q", "tests/helpers.py")
    row = repository.row(patch=repository.git("diff", "--cached"))
    done = box.hutch("gym", "tasks", "--from", rows_file(box, "rows.jsonl", json.dumps(row)), "--repos", box.workspace / "repos")
    assert done.returncode == 125 and "left out: its patch adds or removes tests/helpers.py" in done.stderr, done


def installed_package():
    """The name of some package that the host has."""
    find = "import importlib.util, sys\nfor n in sys.argv[1:]:\n    if importlib.util.find_spec(n): print(n); break\n"
    names = ("yaml", "six", "psutil", "idna", "setuptools", "pip")
    name = subprocess.run(["/usr/bin/python3", "-c", find, *names], capture_output=True, text=True, check=True).stdout.strip()
    return name or pytest.skip("no package is installed that a repository could have the name of")


def test_a_package_that_is_installed_as_well(box, repository):
    """The repository's is meant, not the host's."""
    name = installed_package()
    test = f"import {name}\n\n\ndef test_mine():\n    assert {name}.MINE == 2\n"
    repository.git("checkout", "-q", repository.base)
    repository.put(f"{name}.py", "MINE = 1\n")
    repository.base = repository.commit("mine")
    row = repository.row(patch=repository.change({f"{name}.py": "MINE = 2\n"}), FAIL_TO_PASS=["tests/test_mine.py::test_mine"],
                         PASS_TO_PASS=[], test_patch="--- /dev/null\n+++ b/tests/test_mine.py\n@@ -0,0 +1,5 @@\n"
                         + "".join(f"+{line}\n" for line in test.splitlines()))
    found = listed(box, row)
    assert found.tasks["acme__shop-1"]["valid"], found


def test_the_code_of_what_runs_the_tests(box, repository):
    repository.git("checkout", "-q", repository.base)
    (repository.path / "src/_pytest").mkdir(parents=True)
    for folder in (repository.path / "src", repository.path / "src/_pytest"):
        box.caller.own(folder)
    repository.put("src/_pytest/__init__.py", "")
    commit = repository.commit("pytest")
    found = listed(box, repository.row(base_commit=commit), repository.row(instance_id="good"), check=False)
    assert list(found.tasks) == ["good"], found
    assert "acme__shop-1: left out: its package _pytest is part of what runs the tests here" in found.said
