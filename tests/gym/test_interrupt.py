"""Signals while tests run that would take long: the first one ends everything at once, and nothing is left."""
import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import endless_task
import harness

COMMANDS = {
    "episode": ["--agent", "qlearn"],
    "train": ["--out", "out"],
    "eval": ["--agents", "qlearn,random", "--seeds", "3", "--episodes", "5"],
    "bench": ["--agent", "random", "--envs", "3"],
    "tasks": [],
}


@pytest.fixture(scope="session")
def endless(scratch):
    """Folders of tasks, by kind."""
    place = Path(scratch) / "endless"
    place.mkdir(mode=0o755)
    return {"sleeps": endless_task.write(place / "sleeps"), "loops": endless_task.write(place / "loops", endless_task.LOOPS),
            "patch": endless_task.write_patch(place / "patch"), "command": endless_task.write_command(place / "command")}


def is_napping(process):
    return any(harness.describe(pid).endswith(f": sleep {endless_task.NAP}") for pid in harness.descendants(process.pid))


def start(cli, command, task, *more):
    words = [task] if command == "tasks" else ["--task", task]
    process = cli.start(command, *words, *COMMANDS[command], *more)
    harness.wait_until(lambda: is_napping(process) or process.poll() is not None, 60, "the tests run")
    assert process.poll() is None, process.communicate()
    return process


def traces(cli):
    """What a program could leave behind beside processes."""
    files = [str(path) for top in (cli.folder, cli.box.caller.home) for path in Path(top).rglob("*")]
    return harness.mounts(), sorted(files)


def end(process, number=signal.SIGINT):
    """One signal, and how it ended."""
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + number, (process.returncode, out, err)
    return out, err


@pytest.mark.parametrize("kind", ["sleeps", "loops", "command"])
@pytest.mark.parametrize("command", ["episode", "eval", "bench", "tasks"])
def test_one_signal_is_enough(cli, endless, command, kind):
    before = traces(cli)
    out, err = end(start(cli, command, endless[kind]))
    begun = command == "episode" and kind != "command"  # a task by a command is still being prepared
    assert out == (f"{kind}: A sum\nagent qlearn, seed 1, wall clock\n\n" if begun else "")
    assert [line for line in err.splitlines() if not (begun and "qlearn is untrained" in line)] == []
    assert traces(cli) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_so_does_sigterm(user_cli, endless, command):
    end(start(user_cli, command, endless["sleeps"]), signal.SIGTERM)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_what_is_known(user_cli, endless, command):
    end(start(user_cli, command, endless["sleeps"], *([] if command == "tasks" else ["--no-cache"])))


def test_what_was_played_of_an_episode_is_recorded(cli, endless):
    process = start(cli, "episode", endless["sleeps"], "--agent", "greedy", "--record", "t.jsonl")
    end(process)
    lines = [json.loads(line) for line in (cli.folder / "t.jsonl").read_text().splitlines()]
    assert [line.get("step") for line in lines] == [None, 0], "the step that was under way is not told"


def read_rows(folder):
    return list(csv.DictReader((folder / "episodes.csv").open()))


def test_a_training_is_as_of_its_last_whole_episode(cli, endless):
    """As if it had been told to play no more than that: to the byte."""
    out, err = end(start(cli, "train", endless["patch"], "--clock", "virtual"))
    saved = json.loads((cli.folder / "out" / "checkpoint.json").read_text())
    rows = read_rows(cli.folder / "out")
    assert saved["episodes"] == len(rows) > 0
    assert out == "" and err.splitlines()[-1] == (
        f"hutch: interrupted; out has all {len(rows)} finished episodes; continue with --resume")
    assert (cli.folder / "out" / "curve.svg").exists()
    # What is best is looked for after that, and takes as long.
    again = cli.start("train", "--task", endless["patch"], "--clock", "virtual", "--out", "again", "--episodes", len(rows))
    harness.wait_until(lambda: is_napping(again), 60, "the search")
    end(again)
    for name in ("checkpoint.json", "episodes.csv"):
        assert (cli.folder / "out" / name).read_bytes() == (cli.folder / "again" / name).read_bytes(), name


def test_a_training_goes_on_from_there(user_cli, endless):
    end(start(user_cli, "train", endless["patch"]))
    count = len(read_rows(user_cli.folder / "out"))
    out, _ = end(start(user_cli, "train", endless["patch"], "--resume", "--json"))
    assert json.loads(out)["cancelled"] and json.loads(out)["greedy"] is None
    assert len(read_rows(user_cli.folder / "out")) == count


def test_ctrl_c_on_a_terminal_reaches_everybody(cli, endless):
    """The terminal sends it to all processes of its group; those of the boxes are not among them."""
    words = [*cli.box.caller.prefix, str(cli.box.program), "gym", "episode", "--agent", "qlearn", "--task", str(endless["loops"])]
    process = subprocess.Popen(words, env=cli.box.env, cwd=cli.folder, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    harness.wait_until(lambda: is_napping(process), 60, "the tests run")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, (out, err)
    assert [line for line in err.splitlines() if "qlearn is untrained" not in line] == []
