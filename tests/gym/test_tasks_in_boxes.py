"""The tasks that come with hutch, as hutch itself sees them: in boxes, with compilers and interpreters of the host."""

import json

import pytest

import listing

# One of each way in which tests are run: in the warm interpreter, with a compiler, with node; reports of both kinds;
# with hidden tests; with one, two and three patches.
KINDS = ["bugfix_1", "date_rollover", "config_layers", "c_utf8", "c_wordcount", "js_debounce", "js_emitter", "js_query_string"]


def test_every_kind_of_task_is_in_order_for_root(make_box, tasks):
    found = listing.tasks(make_box("root"), "--tasks", str(tasks), *KINDS)
    assert found.status == 0, found
    assert sorted(found.tasks) == sorted(KINDS)


def test_all_tasks_are_in_order_for_an_ordinary_user(make_box, tasks):
    names = sorted(entry.name for entry in tasks.iterdir())
    found = listing.tasks(make_box("user"), "--tasks", str(tasks), timeout=600)
    assert found.status == 0, found
    assert sorted(found.tasks) == names


@pytest.mark.parametrize("name", ["c_ring_buffer", "js_emitter", "lru_cache"])
def test_the_solution_is_worth_what_it_should_be(open_gym, who, tasks, name):
    """Played with the actions of the discrete view: the patches of the solution by their place, then submit."""
    task = json.loads((tasks / name / "task.json").read_text())
    patches = [patch["name"] for patch in json.loads((tasks / name / "patches.json").read_text())]
    submit = len(patches) + 1 + len(task["reads"])
    actions = [patches.index(step) for step in task["solution"]] + [submit]
    *_, end = open_gym(who, "--virtual", task=tasks / name).play(actions)
    assert end["step"]["terminated"] and end["step"]["pass_rate"] == 1.0
    assert [test["name"] for test in end["info"]["tests"]] == task["tests"]["expected"]
