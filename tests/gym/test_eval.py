"""`hutch gym eval` and `hutch gym bench`."""
import pytest

FEW = ["--seeds", "4", "--episodes", "40", "--clock", "virtual"]


def test_agents_are_compared(cli, calc):
    rows = cli.json("eval", "--task", calc, "--agents", "random,greedy,qlearn,search", *FEW)
    by = {row["agent"]: row for row in rows}
    assert [row["agent"] for row in rows] == ["random", "greedy", "qlearn", "search"]
    assert all(row["task"] == "calc" and row["episodes"] == 4 and row["failed"] == 0 and row["why"] is None for row in rows)
    assert by["qlearn"]["return"] == by["search"]["return"] and by["qlearn"]["trained"] == 160
    assert by["qlearn"]["return"]["low"] > by["random"]["return"]["mean"], "it beats random"
    assert by["qlearn"]["solved"] == {"mean": 1.0, "low": 1.0, "high": 1.0} and by["greedy"]["calls"]["mean"] == 4
    for row in rows:
        for name in ("return", "pass_rate", "solved", "calls"):
            assert row[name]["low"] <= row[name]["mean"] <= row[name]["high"]


def test_it_is_the_same_every_time(user_cli, calc):
    first = user_cli.run("eval", "--task", calc, "--agents", "random,qlearn", *FEW)
    second = user_cli.run("eval", "--task", calc, "--agents", "random,qlearn", *FEW, "--jobs", "1")
    assert first.stdout == second.stdout
    assert "qlearn was trained for 40 episodes per task and seed" in first.stdout
    assert "TASK" in first.stdout and "[" in first.stdout


def test_several_tasks_and_all_of_them(user_cli):
    rows = user_cli.json("eval", "--task", "bugfix_1,off_by_one", "--agents", "random,greedy", "--seeds", "2", "--clock", "virtual")
    assert [(row["task"], row["agent"]) for row in rows] == [
        ("bugfix_1", "random"), ("bugfix_1", "greedy"), ("off_by_one", "random"), ("off_by_one", "greedy"),
        ("all", "random"), ("all", "greedy")]
    assert rows[4]["episodes"] == 4
    assert rows[5]["return"]["mean"] == pytest.approx((rows[1]["return"]["mean"] + rows[3]["return"]["mean"]) / 2)


def test_a_checkpoint_is_gone_by(user_cli, calc):
    user_cli.run("train", "--task", calc, "--episodes", "60", "--out", "out", "--clock", "virtual")
    done = user_cli.run("eval", "--task", calc, "--agents", "qlearn", "--checkpoint", "out/checkpoint.json", *FEW)
    assert "qlearn was not trained: it uses out/checkpoint.json" in done.stdout


def test_mistakes_are_told_in_one_line(user_cli, calc):
    for words, status, text in [
            (["--agents", "random,nobody"], 2, "there is no agent 'nobody'"),
            (["--agents", "replay"], 2, "eval does not support the agent replay"),
            (["--checkpoint", "x"], 2, "--checkpoint is for one task"),
            (["--seeds", "10001"], 2, "--seeds: at most 10000"),
            (["--task", "bugfix_1,bugfxi_1"], 125, "did you mean bugfix_1?")]:
        done = user_cli.run("eval", *words, status=status)
        assert text in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", done


def test_bench_measures(cli, calc):
    done = cli.json("bench", "--task", calc, "--envs", "2", "--episodes", "6", "--no-cache")
    assert done["episodes"] == done["solved"] == 6 and done["envs"] == 2 and done["agent"] == "solution" and not done["cache"]
    assert done["reset"]["count"] == done["last_step"]["count"] == done["step"]["count"] == 6
    assert done["episodes_per_second"] > 0 and done["last_step"]["p50_ms"] <= done["last_step"]["p99_ms"]
    assert done["steps_per_second"] == pytest.approx(2 * done["episodes_per_second"])


def test_bench_tells_people(user_cli, calc):
    text = user_cli.run("bench", "--task", calc, "--envs", "1", "--episodes", "3", "--agent", "random").stdout
    assert "calc, 1 environment, random, cache on" in text and "episodes/s" in text and "memory per environment" in text
    done = user_cli.run("bench", "--task", calc, "--agent", "qlearn", status=2)
    assert "is not random or solution" in done.stderr
    done = user_cli.run("bench", "--task", calc, "--envs", "4097", status=2)
    assert "at most 4096" in done.stderr
