"""`hutch gym episode`: the same bytes for the same seed, the contract's JSON, trajectories and their replay, mistakes."""
import itertools
import json
from pathlib import Path

import pytest

import calc_task
import listing
from learning import STEP, SUMS

SEVEN = ["--task", "bugfix_1", "--agent", "random", "--seed", "7", "--clock", "virtual"]


def test_the_same_seed_prints_the_same_bytes(cli):
    first, second = cli.run("episode", *SEVEN), cli.run("episode", *SEVEN)
    assert first.stdout_bytes == second.stdout_bytes and first.stdout.startswith("bugfix_1: ")
    assert "\033" not in first.stdout
    again = cli.run("episode", *SEVEN, "--no-cache")
    assert again.stdout_bytes == first.stdout_bytes
    assert cli.run("episode", *SEVEN[:-3], "8", "--clock", "virtual").stdout != first.stdout


def test_json_lines(cli, calc):
    steps, sums = cli.episode("--task", calc, "--agent", "random", "--seed", "3")
    assert set(sums) == SUMS and all(set(step) == STEP for step in steps)
    assert [step["step"] for step in steps] == list(range(1, sums["calls"] + 1)) and sums["seed"] == 3
    assert abs(sum(step["reward"] for step in steps) - sums["return"]) < 1e-12
    assert [step["terminated"] or step["truncated"] for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1]["pass_rate"] == sums["pass_rate"]
    assert all(step["action"]["tool"] and set(step["observation"]) >= {"text", "failed"} for step in steps)


def test_the_wall_clock_is_the_default(user_cli, calc):
    done = user_cli.run("episode", "--task", calc, "--agent", "search")
    assert "wall clock" in done.stdout and "solved after 2 calls" in done.stdout
    assert "return 0.97" in done.stdout or "return 0.98" in done.stdout


def test_greedy_keeps_what_helps(user_cli, calc):
    steps, sums = user_cli.episode("--task", calc, "--agent", "greedy")
    assert [step["action"]["tool"] for step in steps] == ["run_tests", "apply_diff", "run_tests", "submit"]
    assert sums["pass_rate"] == 1.0


def test_greedy_takes_back_what_does_not_help(user_cli, scratch):
    task = calc_task.write(Path(scratch) / "turned")
    patches = [{"name": "useless", "diff": calc_task.diff("sum(prices)  + discount")}, *calc_task.PATCHES]
    (task / "patches.json").write_text(json.dumps(patches))
    steps, sums = user_cli.episode("--task", str(task), "--agent", "greedy")
    assert any(step["action"].get("reverse") for step in steps) and sums["pass_rate"] == 1.0


def test_search_is_as_good_as_trying_everything(open_gym, user_cli, calc):
    """All sequences of up to three actions, played one by one."""
    gym = open_gym("user", "--virtual")
    best = max(sum(answer["step"]["reward"] for answer in gym.play([*actions, calc_task.SUBMIT])[1:])
               for n in range(3) for actions in itertools.product(range(calc_task.SUBMIT), repeat=n))
    _, sums = user_cli.episode("--task", calc, "--agent", "search")
    assert sums["return"] == pytest.approx(best, abs=1e-12) and sums["pass_rate"] == 1.0


def test_an_episode_is_cut_at_its_limit(user_cli, calc):
    steps, sums = user_cli.episode("--task", calc, "--agent", "greedy", "--max-steps", "2")
    assert sums["calls"] == 2 and steps[-1]["truncated"] and not steps[-1]["terminated"]
    text = user_cli.run("episode", "--task", calc, "--agent", "greedy", "--max-steps", "2").stdout
    assert "truncated: the episode has reached its limit of steps" in text


def test_a_recorded_episode_is_replayed(cli, calc):
    cli.run("episode", "--task", calc, "--agent", "random", "--seed", "5", "--clock", "virtual", "--record", "t.jsonl")
    recorded = (cli.folder / "t.jsonl").read_text().splitlines()
    assert json.loads(recorded[0])["agent"] == "random" and json.loads(recorded[-1])["seed"] == 5
    replay = ["episode", "--task", calc, "--agent", "replay", "--trajectory", "t.jsonl", "--clock", "virtual"]
    assert "\nas recorded\n" in cli.run(*replay).stdout
    step = json.loads(recorded[2])
    step["reward"] += 0.5
    cli.box.put("t.jsonl", "\n".join([*recorded[:2], json.dumps(step), *recorded[3:]]) + "\n")
    done = cli.run(*replay, "--json", status=1)
    assert done.stderr.startswith("hutch: not as recorded: step 1: reward was ") and done.stderr.count("\n") == 1


def test_a_recording_says_what_it_was_recorded_with(user_cli):
    """Task, clock, limit and seed need not be said again."""
    words = ["episode", "--task", "bugfix_1", "--agent", "random", "--seed", "5", "--clock", "virtual", "--max-steps", "3", "--json"]
    recorded = user_cli.run(*words, "--record", "t.jsonl")
    again = user_cli.run("episode", "--agent", "replay", "--trajectory", "t.jsonl", "--json")
    assert again.stdout == recorded.stdout and again.stderr == "hutch: as recorded\n"
    done = user_cli.run("episode", "--trajectory", "t.jsonl", status=2)
    assert "no task: name one" in done.stderr


def test_who_has_learnt_nothing_is_told_so(user_cli, calc):
    done = user_cli.run("episode", "--task", calc, "--agent", "qlearn")
    assert done.stderr == "hutch: qlearn is untrained: give --checkpoint a file that 'hutch gym train' wrote\n"


def test_a_cut_recording_and_a_longer_one_differ(user_cli, calc):
    user_cli.run("episode", "--task", calc, "--agent", "greedy", "--clock", "virtual", "--record", "t.jsonl")
    lines = (user_cli.folder / "t.jsonl").read_text().splitlines()
    replay = ["episode", "--task", calc, "--agent", "replay", "--trajectory", "t.jsonl", "--clock", "virtual"]
    user_cli.box.put("t.jsonl", "\n".join(lines[:-2]) + "\n")
    assert "ends before its episode did" in user_cli.run(*replay, status=1).stdout
    more = {**json.loads(lines[-2]), "step": 5}
    user_cli.box.put("t.jsonl", "\n".join([*lines[:-1], json.dumps(more)]) + "\n")
    assert "continues in the recording" in user_cli.run(*replay, status=1).stdout


def test_mistakes_are_told_in_one_line(user_cli, calc):
    for words, status, text in [
            (["--task", "bugfix_2"], 125, "did you mean bugfix_1?"),
            (["--task", "nothing_like_it"], 125, "there is no task nothing_like_it"),
            ([], 2, "no task: name one with --task TASK"),
            (["--task", calc, "--agent", "rnadom"], 2, "did you mean 'random'?"),
            (["--task", calc, "--agent", "nobody"], 2, "there are random, greedy, qlearn, search, model and replay"),
            (["--task", calc, "--agent", "replay"], 125, "--trajectory FILE"),
            (["--task", calc, "--agent", "replay", "--trajectory", "/nowhere"], 125, "No such file"),
            (["--task", calc, "--agent", "qlearn", "--checkpoint", "/nowhere"], 125, "No such file"),
            (["--task", calc, "--seed", "-1"], 2, "--seed: '-1' is not a whole number"),
            (["--task", calc, "--seed", "99999999999999999999"], 2, "is too large"),
            (["--task", calc, "--clock", "sun"], 2, "--clock: 'sun' is not wall or virtual"),
            (["--task", calc, "--record", "/nowhere/t"], 125, "cannot write /nowhere/t"),
            (["--from", "moon:/x", "--task", "y"], 125, "moon")]:
        done = user_cli.run("episode", *words, status=status)
        assert done.stdout == "" and text in done.stderr, done
        assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1, done


HARBOR = {"instruction.md": "Write hello.\n", "task.toml": "[agent]\ntimeout_sec = 60.0\n",
          "environment/Dockerfile": "FROM x\nWORKDIR /app\n", "solution/solve.sh": "#!/bin/bash\ntouch /app/hello\n",
          "tests/test.sh": "#!/bin/bash\ntest -f /app/hello && echo 1 >/logs/verifier/reward.txt\n"}


def test_an_agent_that_chooses_needs_something_to_choose_from(user_cli):
    listing.write(user_cli.box, "greet", HARBOR)
    done = user_cli.run("episode", "--from", "harbor:greet", "--agent", "random", status=125)
    assert "needs candidate patches to choose from, and the task greet has none" in done.stderr
