"""`hutch gym train`: it learns what is best, goes on exactly where it was, and writes what it promises."""
import csv
import json
import os
import signal
from xml.etree import ElementTree

import pytest

import harness

VIRTUAL = ["--clock", "virtual"]


def trained(cli, task, out, *words, **more):
    return cli.json("train", "--task", task, "--out", out, *VIRTUAL, *words, **more)


def test_qlearn_learns_what_is_best(cli):
    done = trained(cli, "bugfix_1", "out", "--episodes", "2000")
    assert done["greedy"]["return"] >= 0.99 * done["best"]["return"] and done["episodes"] == 2000
    assert done["greedy"]["actions"] == done["best"]["actions"] == ["apply subtract-discount", "submit"]


@pytest.mark.parametrize("task, seed", [("bank_transfer", 1), ("bank_transfer", 5), ("off_by_one", 2), ("csv_quotes", 3)])
def test_on_other_tasks_and_seeds(user_cli, task, seed):
    done = trained(user_cli, task, "out", "--seed", seed)
    assert done["greedy"]["pass_rate"] == 1.0 and done["ratio"] >= 0.99


def test_going_on_is_exact(user_cli, calc):
    trained(user_cli, calc, "parts", "--episodes", "150", "--epsilon-decay", "300")
    part = trained(user_cli, calc, "parts", "--episodes", "400", "--resume")
    whole = trained(user_cli, calc, "whole", "--episodes", "400", "--epsilon-decay", "300")
    assert part["played"] == 250 and whole["played"] == 400 and part["greedy"] == whole["greedy"]
    for name in ("checkpoint.json", "episodes.csv", "curve.svg"):
        assert (user_cli.folder / "parts" / name).read_bytes() == (user_cli.folder / "whole" / name).read_bytes(), name


def test_what_is_written(user_cli, calc):
    done = user_cli.run("train", "--task", calc, "--episodes", "60", "--seed", "4", *VIRTUAL)
    folder = user_cli.folder / "hutch-train" / "calc-4"
    assert f"written  hutch-train/calc-4: checkpoint.json, episodes.csv, curve.svg\n" in done.stdout
    assert "learnt   return 0.97" in done.stdout and "100.0 % of the best return" in done.stdout
    assert "⠉" in done.stdout or "⣀" in done.stdout, "the curve"
    assert "\033" not in done.stdout + done.stderr
    rows = list(csv.DictReader((folder / "episodes.csv").open()))
    assert list(rows[0]) == ["episode", "return", "pass_rate", "calls", "seconds", "epsilon"]
    assert [int(row["episode"]) for row in rows] == list(range(1, 61)) and rows[0]["epsilon"] == "1"
    assert ElementTree.parse(folder / "curve.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    checkpoint = json.loads((folder / "checkpoint.json").read_text())
    assert checkpoint["episodes"] == 60 and checkpoint["task"] == "calc" and checkpoint["seed"] == 4
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.json", "curve.svg", "episodes.csv"]
    lines = done.stderr.splitlines()
    assert len(lines) == 10 and all(line.startswith("hutch: ") and "episodes/s" in line for line in lines)


def test_the_options_of_learning_are_used(user_cli, calc):
    trained(user_cli, calc, "out", "--episodes", "5", "--epsilon-start", "0.5", "--epsilon-end", "0.25", "--epsilon-decay", "2",
            "--alpha", "0.7", "--gamma", "0.9")
    saved = json.loads((user_cli.folder / "out" / "checkpoint.json").read_text())["options"]
    assert saved == {"epsilon_start": 0.5, "epsilon_end": 0.25, "epsilon_decay": 2, "alpha": 0.7, "gamma": 0.9}
    rows = list(csv.DictReader((user_cli.folder / "out" / "episodes.csv").open()))
    assert [row["epsilon"] for row in rows] == ["0.5", "0.375", "0.25", "0.25", "0.25"]
    trained(user_cli, calc, "out", "--episodes", "6", "--resume", "--alpha", "0.2")
    saved = json.loads((user_cli.folder / "out" / "checkpoint.json").read_text())["options"]
    assert saved["alpha"] == 0.2 and saved["gamma"] == 0.9


def test_a_checkpoint_plays(user_cli, calc):
    trained(user_cli, calc, "out", "--episodes", "100")
    steps, sums = user_cli.episode("--task", calc, "--agent", "qlearn", "--checkpoint", "out/checkpoint.json")
    assert [step["action"]["tool"] for step in steps] == ["apply_diff", "submit"] and sums["pass_rate"] == 1.0
    steps, _ = user_cli.episode("--task", calc, "--agent", "qlearn")
    assert [step["action"]["tool"] for step in steps] == ["submit"], "it knows nothing yet"


def test_an_interrupt_saves_everything(cli, calc):
    process = cli.start("train", "--task", calc, "--episodes", "1000000", "--out", "out", *VIRTUAL)
    harness.wait_until(lambda: os.path.exists(cli.folder / "out" / "checkpoint.json"), what="the first checkpoint")
    process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=300)
    assert process.returncode == 130 and said == "" and "--resume" in told.splitlines()[-1]
    saved = json.loads((cli.folder / "out" / "checkpoint.json").read_text())["episodes"]
    assert saved >= 500 and len((cli.folder / "out" / "episodes.csv").read_text().splitlines()) == saved + 1
    assert (cli.folder / "out" / "curve.svg").exists()
    done = trained(cli, calc, "out", "--episodes", saved + 10, "--resume")
    assert done["played"] == 10


def test_lines_that_no_checkpoint_knows_of_are_dropped(user_cli, calc):
    trained(user_cli, calc, "out", "--episodes", "20")
    table = user_cli.folder / "out" / "episodes.csv"
    with table.open("a") as f:
        f.write("21,0.5,1,2,0.1,1\n22,0.5,1,2")
    trained(user_cli, calc, "out", "--episodes", "22", "--resume")
    assert [row["episode"] for row in csv.DictReader(table.open())] == [str(n) for n in range(1, 23)]
    assert "0.5,1,2,0.1,1" not in table.read_text()


def test_nothing_is_left_to_play(user_cli, calc):
    trained(user_cli, calc, "out", "--episodes", "20")
    done = user_cli.run("train", "--task", calc, "--out", "out", "--episodes", "20", "--resume", *VIRTUAL)
    assert "has 20 episodes already" in done.stderr and "learnt " in done.stdout


def test_mistakes_are_told_in_one_line(user_cli, calc):
    trained(user_cli, calc, "out", "--episodes", "3")
    whole = (user_cli.folder / "out" / "checkpoint.json").read_text()
    user_cli.box.put("file", "")
    for words, status, text in [
            (["--agent", "random"], 2, "the agent random does not learn"),
            (["--agent", "qlern"], 2, "did you mean 'qlearn'?"),
            (["--epsilon-start", "1.5"], 2, "is not a number from 0 to 1"),
            (["--alpha", "x"], 2, "is not a number from 0 to 1"),
            (["--episodes", "0"], 2, "is not a number of 1 or more"),
            (["--episodes", "1000001"], 2, "at most 1000000"),
            (["--out", "nowhere", "--resume"], 125, "there is no nowhere/checkpoint.json: nothing to resume"),
            (["--out", "file/x"], 125, "cannot make the folder file/x")]:
        done = user_cli.run("train", "--task", calc, *words, status=status)
        assert text in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", done
    for damaged, text in [(whole[:-20], "not JSON"), (whole.replace('"task":"calc"', '"task":"other"'), "trained on the task other"),
                          (whole.replace('"version":1', '"version":9'), "another version"), ("[]", "not a checkpoint of qlearn")]:
        (user_cli.folder / "out" / "checkpoint.json").write_text(damaged)
        done = user_cli.run("train", "--task", calc, "--out", "out", "--resume", status=125)
        assert text in done.stderr and done.stderr.count("\n") == 1, done
