"""`--from harbor:DIR`: scripts that fetch what they need, Dockerfiles that make things, settings, as real tasks have them."""
import json

import pytest

from listing import tasks, write
from test_import_harbor import GREET, OLD, TOML


def check(box, changes, where="greet"):
    """One task, made of GREET, and what `hutch gym tasks` says of it."""
    files = {path: text for path, text in {**GREET, **changes}.items() if text is not None}
    return tasks(box, "--from", f"harbor:{write(box, where, files)}").tasks["greet"]


FETCHING = """#!/bin/bash
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends curl
curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh
source "$HOME/.local/bin/env"
pip install pytest==8.4.1
python -m pip install pytest-json-ctrf
"""


@pytest.mark.parametrize("run", [
    "uvx --with pytest==8.4.1 --with pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_state.py -rA",
    "uvx -p 3.13 -w pytest pytest@8.4.1 /tests/test_state.py --ctrf=/logs/verifier/ctrf.json",
    "uv init && uv add pytest && uv run --with pytest python -m pytest --ctrf /logs/verifier/ctrf.json /tests/test_state.py",
    "uv venv .t && source .t/bin/activate && uv pip install pytest && pytest --ctrf /logs/verifier/ctrf.json /tests/test_state.py",
])
def test_tests_that_fetch_what_they_need(box, run):
    """Nothing is fetched: what installs says that it has, and the report that they ask for is there."""
    count = "import json; print(json.load(open('/logs/verifier/ctrf.json'))['results']['summary']['passed'] / 2)"
    task = check(box, {"tests/test.sh": f'{FETCHING}{run} || true\npython3 -c "{count}" > /logs/verifier/reward.txt\n'})
    assert task["valid"], task


def test_a_tool_that_is_not_there(box):
    script = "uvx ruff check 2> /logs/verifier/said\n" \
             "grep -q 'ruff is not installed' /logs/verifier/said && cp greeting.txt /logs/verifier/reward.txt\n"
    task = check(box, {"tests/test.sh": script, "solution/answer.txt": "1\n"})
    assert task["valid"], task


def test_several_rewards_are_one(box):
    """Their mean, where none is called reward."""
    script = "[ -e greeting.txt ] && fast=1\nprintf '{\"right\": 1.0,\\n \"fast\": %s}' ${fast:-0} > /logs/verifier/reward.json\n"
    assert check(box, {"tests/test.sh": script})["valid"]
    task = check(box, {"tests/test.sh": script, "solution/solve.sh": "true\n"}, where="other/greet")
    assert "with the solution the reward is 0.5" in task["findings"][0], task


def test_variables_of_dockerfile_and_settings(box):
    """Those that stand for the host's are not set, and PATH is the box's."""
    toml = TOML.replace('env = { KEY = "value" }', "env = { KEY = \"a b'c\", HOST = \"${HOME}\" }") + \
        '[environment.env]\nSIDE = "left"\n[solution.env]\nANSWER = "42"\n'
    docker = GREET["environment/Dockerfile"] + 'ENV TZ=Asia/Tokyo NAME="x y"\nENV PATH=/nowhere\n'
    test = """[ "$KEY" = "a b'c" ] && [ -z "${HOST-}" ] && [ "$SIDE$TZ$NAME" = "leftAsia/Tokyox y" ] && [ -z "${ANSWER-}" ] &&
        [ "$(cat said)" = "42 left" ] && echo 1 > /logs/verifier/reward.txt\n"""
    task = check(box, {"task.toml": toml, "environment/Dockerfile": docker, "tests/test.sh": test,
                       "solution/solve.sh": "echo $ANSWER $SIDE > said\n"})
    assert task["valid"], task


SET_UP = """FROM x
WORKDIR /srv/app
COPY data /data
RUN apt-get update && apt-get install -y python3 && mkdir -p out /nowhere/else
RUN cat > notes.txt <<'END'
it's $HOME
END
RUN python3 -c "print('made', file=open('out/made', 'w'))" && pip install nothing
"""


def test_run_lines_are_carried_out_in_the_box(box):
    """Files at another place, a working folder within another, texts, and commands that need no network."""
    test = """[ "$(cat out/made notes.txt /data/who.txt)" = "$(cat /tests/want)" ] && [ $PWD = /srv/app ] &&
        [ "$(cat greeting.txt)" = hello ] && echo 1 > /logs/verifier/reward.txt\n"""
    task = check(box, {"environment/Dockerfile": SET_UP, "tests/test.sh": test, "tests/want": "made\nit's $HOME\nworld\n"})
    assert task["valid"], task


def test_a_run_line_that_fails(box):
    docker = "FROM x\nWORKDIR /app\nRUN echo before; echo 'no such thing' >&2; exit 3\n"
    task = check(box, {"environment/Dockerfile": docker})
    assert len(task["findings"]) == 1 and task["findings"][0].endswith(
        "its set-up script failed: Dockerfile, line 3: RUN echo before; echo 'no such thing' >&2; exit 3: exit code 3: no such thing"), task


def test_run_tests_has_nothing_to_run(box):
    """The tests are not there while an agent works: it is told so, and not that a file is missing."""
    where = write(box, "greet", GREET)
    digest = tasks(box, "--no-check", "--from", f"harbor:{where}").tasks["greet"]["digest"]
    head = {"task": "greet", "digest": digest, "agent": "model", "seed": 1, "clock": "virtual", "hutch": "0", "max_steps": 100,
            "call_price": 0.01, "second_price": 0.01}
    common = {"observation": {"text": "", "failed": False, "data": None}, "reward": 0, "pass_rate": None, "seconds": 0,
              "terminated": False, "truncated": False}
    begin, look = {"step": 0, "action": None, **common}, {"step": 1, "action": {"tool": "run_tests"}, **common}
    box.put("t.jsonl", "".join(json.dumps(line) + "\n" for line in (head, begin, look)))
    done = box.hutch("gym", "episode", "--from", f"harbor:{where}", "--task", "greet", "--agent", "replay", "--clock", "virtual",
                     "--trajectory", box.workspace / "t.jsonl", "--json")
    assert "the tests of this task are run only when it is graded, after submit" in done.stdout, done
    assert '"test_command":null' in done.stderr, done


def test_terminal_bench_without_a_script_for_its_tests(box):
    where = write(box, "old", {path: text for path, text in OLD.items() if path != "run-tests.sh"})
    task = tasks(box, "--from", f"harbor:{where}").tasks["old"]
    assert task["valid"], task


def test_a_checkout_with_a_folder_tasks(box):
    where = write(box, "checkout", {"README.md": "x", **{f"tasks/greet/{path}": text for path, text in GREET.items()}})
    assert list(tasks(box, "--no-check", "--from", f"harbor:{where}").tasks) == ["greet"]


def test_long_texts(box):
    """Prose among the settings, and a title that is cut where a character ends."""
    where = write(box, "greet", {**GREET, "task.toml": '[metadata]\nwhy = """' + "prose " * 2000 + '"""\n',
                                 "instruction.md": "# x" + "é" * 80})
    task = tasks(box, "--no-check", "--from", f"harbor:{where}").tasks["greet"]
    assert task["title"] == "x" + "é" * 49 + "…", task


def test_what_is_left_out_of_a_dockerfile_is_one_line(box):
    docker = "FROM x\nRUN apt-get update && \\\n      apt-get install -y a\nRUN pip install b\nENV PATH=/x\nWORKDIR /app\nCOPY data data\n"
    where = write(box, "greet", {**GREET, "environment/Dockerfile": docker})
    said = tasks(box, "--no-check", "--from", f"harbor:{where}").said.splitlines()
    assert said == ["hutch: greet: Dockerfile, line 2: RUN apt-get update && apt-get install -y a: is skipped: "
                    "the packages must be installed already (and 2 more such lines)"], said
