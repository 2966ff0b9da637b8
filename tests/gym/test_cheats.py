"""Honest grading: what an agent may try, as root and as an ordinary user, with the warm runner and without."""
from pathlib import Path

import pytest

import cheats
import honest_task
from honest_task import EXPECTED, FIXED, HIDDEN_TESTS, UNTOUCHED
from playing import Gym


@pytest.fixture
def arena(callers, gym_run, scratch):
    """A program with the task of honest_task.py: arena("root", "--cold")."""
    task = Path(scratch) / "honest"
    if not task.exists():
        honest_task.write(task)
    opened = []

    def start(name, *options, task=task):
        caller, _ = callers(name)
        opened.append(Gym([*caller.prefix, str(gym_run), "--virtual", "--no-cache", *options, str(task)]))
        return opened[-1]

    yield start
    for gym in opened:
        gym.close()


def grade(gym, files=None, command=None):
    """An episode in which these files are written and this is run: what was said at its end."""
    gym.reset()
    for path, content in (files or {}).items():
        step = gym.step("write_file", path=path, content=content)
        assert not step["step"]["observation"]["failed"], step
    if command:
        step = gym.step("bash", command=command)
        assert not step["step"]["truncated"], step
    end = gym.step("submit")
    assert end["step"]["terminated"], end
    return end["info"]


def passed(info):
    return {t["name"] for t in info["tests"] if t["outcome"] == "passed"}


def everything_told(info):
    return str(info["trouble"]) + "".join(str(t["message"]) for t in info["tests"])


def try_all(gym, table, good):
    """Grades all of a table in one arena, one after the other: none leaves a trace for the next. Those that are not good."""
    wrong = {}
    for name, cheat in table.items():
        info = grade(gym, **cheat)
        assert len(info["tests"]) + info["hidden"]["count"] == len(EXPECTED)
        if not good(info):
            wrong[name] = (sorted(passed(info) - UNTOUCHED), sorted(UNTOUCHED - passed(info)), everything_told(info))
    return wrong


def wins_nothing(info):
    return passed(info) <= UNTOUCHED and info["hidden"]["passed"] == 0 and info["pass_rate"] <= len(UNTOUCHED) / len(EXPECTED)


def scores_the_same(info):
    return wins_nothing(info) and passed(info) == UNTOUCHED


def is_noticed(info):
    return wins_nothing(info) and "tampered" in everything_told(info)


def some(table, *names):
    return {name: table[name] for name in names}


def test_what_lies_in_the_box_does_not_count(arena, who):
    gym = arena(who)
    assert not try_all(gym, cheats.EQUAL, scores_the_same)
    assert gym.counts()["warm"]


def test_what_the_code_does_wins_nothing(arena, who):
    assert not try_all(arena(who), cheats.FEWER, wins_nothing)


def test_meddling_is_noticed(arena, who):
    assert not try_all(arena(who), cheats.TOLD, is_noticed)


def test_nobody_sees_the_hook_at_work(arena, who):
    gym = arena(who)
    for name in ("the hook's own calls", "keys that compare"):
        gym.reset()
        gym.step("write_file", path="src/calc.py", content=cheats.TOLD[name]["files"]["src/calc.py"])
        assert "found it" not in str(gym.step("run_tests"))


def test_plain_functions(arena, who, scratch):
    """The same for a task whose tests are called without pytest's machinery."""
    task = Path(scratch) / "plain"
    if not task.exists():
        honest_task.write(task, honest_task.PLAIN_FILES, {**honest_task.TASK["tests"], "expected": honest_task.PLAIN_EXPECTED})
    gym = arena(who, task=task)
    same, fewer = honest_task.PLAIN_UNTOUCHED, {**cheats.FEWER, **cheats.TOLD}
    info = grade(gym, {"src/calc.py": FIXED})
    assert info["pass_rate"] == 1.0 and info["trouble"] is None, info
    assert passed(grade(gym)) == same
    wrong = {}
    for name, cheat in fewer.items():
        info = grade(gym, **cheat)
        without_effect = passed(info) == same  # two of them look for items of pytest's, and there are none
        noticed = name not in cheats.TOLD or without_effect or "tampered" in everything_told(info)
        if not passed(info) <= same or info["hidden"]["passed"] or not noticed:
            wrong[name] = info
    assert not wrong


def test_the_same_without_a_warm_runner(arena, who):
    gym = arena(who, "--cold")
    same = some(cheats.EQUAL, "tests edited", "conftest among the tests", "plugin by other settings", "sitecustomize",
                "modules of the library's names", "planted bytecode", "descriptors that are guessed",
                "tests changed while they run")
    fewer = some(cheats.FEWER, "leaves in a call", "a child goes on", "the token searched for")
    told = some(cheats.TOLD, "tests replaced", "modules put in place", "the runner called", "a plugin registered")
    assert not try_all(gym, same, scores_the_same) and not try_all(gym, fewer, wins_nothing)
    assert not try_all(gym, told, is_noticed)
    assert not gym.counts()["warm"]


def test_the_solution_passes(arena, who):
    for options in ([], ["--cold"]):
        info = grade(arena(who, *options), {"src/calc.py": FIXED})
        assert info["pass_rate"] == 1.0 and passed(info) == set(EXPECTED) - HIDDEN_TESTS and info["trouble"] is None, info


def test_what_was_changed_is_told(arena, who):
    info = grade(arena(who), {"tests/test_first.py": "", "tests/conftest.py": "x", "tests/deep/er.py": "", "tests/test_hidden.py": "x"},
                 "rm tests/test_later.py")
    assert sorted(info["discarded"]) == ["A tests/conftest.py", "A tests/deep/", "A tests/test_hidden.py", "D tests/test_later.py",
                                         "M tests/test_first.py"]


def test_a_crash_takes_what_comes_after_it(arena, who):
    lines = "import os\n\n\ndef total(prices, discount=0):\n    if discount == 3:\n        os.kill(os.getpid(), 11)\n    return sum(prices) - discount\n"
    info = grade(arena(who), {"src/calc.py": lines})
    assert passed(info) == {EXPECTED[0], EXPECTED[1], EXPECTED[2]}
    assert info["trouble"] == "the run was ended by SIGSEGV, in " + EXPECTED[3]


def test_a_loop_is_stopped_by_cpu_time(arena, who):
    info = grade(arena(who), **cheats.FEWER["an endless loop"])
    assert info["trouble"].startswith("the run was stopped: cpu-time, in " + EXPECTED[1])
    assert passed(info) == {EXPECTED[0]}


def test_a_sleep_is_stopped_by_time(arena, who, scratch):
    task = Path(scratch) / "short_time"
    if not task.exists():
        honest_task.write(task, test_time="5s")
    info = grade(arena(who, task=task), **cheats.SLEEP)
    assert info["trouble"].startswith("the run was stopped: timeout") and wins_nothing(info)


def test_the_search_found_nothing(arena, who):
    """The cheat above is worth its name: it looks at many things, and the token is not among them."""
    gym = arena(who)
    gym.reset()
    gym.step("write_file", path="src/calc.py", content=cheats.SEARCH["files"]["src/calc.py"])
    said = gym.step("run_tests")["step"]["observation"]["data"]["output"]
    found, looked_at = next(line for line in said.splitlines() if line.startswith("searched")).split()[1:]
    assert int(found) == 0 and int(looked_at) > 5000
