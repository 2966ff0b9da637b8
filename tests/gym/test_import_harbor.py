"""`--from harbor:DIR`: task folders of Harbor and of Terminal-Bench, made up here, played in real boxes."""
import os
import shutil
import subprocess

import pytest

from listing import tasks, write

TOML = """schema_version = "1.1"
artifacts = []

[task]
name = "acme/greet"
description = "Greets the world"
keywords = ["a", "b"]
[[task.authors]]
name = "A"

[metadata]
difficulty = "easy"
tags = [{ a = 1 }, "x]"]

[verifier]
timeout_sec = 45.0
env = { KEY = "value" }

[environment]
build_timeout_sec = 600.0
memory_mb = 1024
storage_mb = 512
"""

TEST_SH = """#!/bin/bash
apt-get update
apt-get install -y curl
curl -LsSf https://example.org/uv/install.sh | sh
source $HOME/.local/bin/env

if [ "$PWD" = "/" ]; then
    echo "no working folder"
    exit 1
fi
uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_state.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""

TEST_STATE = """import json
from pathlib import Path


def test_greeting():
    assert Path("/app/greeting.txt").read_text() == "hello\\n"


def test_beside_the_data():
    assert json.loads(Path("/tests/expected.json").read_text()) == Path("/app/data/who.txt").read_text().strip()
"""

GREET = {
    "task.toml": TOML, "instruction.md": "# Greet\n\nWrite hello to /app/greeting.txt.\n",
    "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nRUN apt-get update && \\\n    apt-get install -y python3\n"
                              "COPY data /app/data\n",
    "environment/data/who.txt": "world\n",
    "tests/test.sh": TEST_SH, "tests/test_state.py": TEST_STATE, "tests/expected.json": '"world"',
    "solution/solve.sh": "#!/bin/bash\ncp /solution/answer.txt greeting.txt\n", "solution/answer.txt": "hello\n",
}

OLD = {
    "task.yaml": "# a comment\ninstruction: |-\n  Write hello to /app/greeting.txt.\n  Nothing else.\nauthor_name: a\n"
                 "difficulty: easy\ntags:\n  - x\nparser_name: pytest\nmax_agent_timeout_sec: 900.0\nmax_test_timeout_sec: 60\n",
    "Dockerfile": "FROM ghcr.io/acme/base:1\nWORKDIR /app\nCOPY who.txt ./\n", "who.txt": "world\n",
    "docker-compose.yaml": "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n",
    "run-tests.sh": "#!/bin/bash\nuv init\nuv add pytest\nuv run pytest $TEST_DIR/test_outputs.py -rA\n",
    "tests/test_outputs.py": "from pathlib import Path\n\n\ndef test_there():\n    assert Path('greeting.txt').exists()\n\n\n"
                             "def test_text():\n    assert Path('/app/greeting.txt').read_text() == 'hello\\n'\n\n\n"
                             "def test_who():\n    assert Path('/app/who.txt').read_text() == 'world\\n'\n",
    "solution.sh": "echo hello > greeting.txt\n",
}


def test_a_harbor_task_is_in_order(box):
    where = write(box, "set", {f"greet/{path}": text for path, text in GREET.items()})
    listed = tasks(box, "--from", f"harbor:{where}")
    task = listed.tasks["greet"]
    assert listed.status == 0 and task["valid"] and task["notes"] == [], listed
    assert task["title"] == "Greets the world" and task["runs"] == 3
    assert "greet: Dockerfile, line 3: RUN apt-get update" in listed.said, "what was left out is said"


def test_the_folder_of_one_task(box):
    where = write(box, "greet", GREET)
    assert list(tasks(box, "--no-check", "--from", f"harbor:{where}").tasks) == ["greet"]


def test_a_terminal_bench_task_is_in_order(box):
    where = write(box, "old", OLD)
    task = tasks(box, "--from", f"harbor:{where}").tasks["old"]
    assert task["valid"] and task["title"] == "Write hello to /app/greeting.txt.", task


@pytest.mark.parametrize("solution, passed", [("echo nothing > greeting.txt", "0.666667"), ("true", "0.333333")])
def test_part_of_the_tests_is_part_of_the_reward(box, solution, passed):
    where = write(box, "old", {**OLD, "solution.sh": solution + "\n"})
    task = tasks(box, "--from", f"harbor:{where}").tasks["old"]
    assert not task["valid"] and f"with the solution the reward is {passed}" in task["findings"][0], task


@pytest.mark.parametrize("script, finding", [
    ("echo '{\"reward\": 1.0, \"style\": 0.5}' > /logs/verifier/reward.json", "already passes"),
    ("echo 1 > /logs/verifier/reward.txt", "already passes"),
    ("echo 0.25 > /logs/verifier/reward.txt", "with the solution the reward is 0.25"),
    ("echo nonsense > /logs/verifier/reward.txt", "with the solution the reward is 0"),
    ("true", "with the solution the reward is 0"),
])
def test_the_reward_is_what_the_file_says(box, script, finding):
    where = write(box, "greet", {**GREET, "tests/test.sh": script + "\n"})
    task = tasks(box, "--from", f"harbor:{where}").tasks["greet"]
    assert not task["valid"] and finding in task["findings"][0], task


def test_a_planted_reward_is_cleared(box):
    """The solution leaves a reward and makes its folder one that cannot be written; the tests then fail to write theirs."""
    plant = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; chmod 500 /logs/verifier\n"
    where = write(box, "greet", {**GREET, "solution/solve.sh": plant})
    task = tasks(box, "--from", f"harbor:{where}").tasks["greet"]
    assert any("with the solution the reward is 0" in line for line in task["findings"]), task


def test_tests_and_solution_are_nowhere_while_an_agent_works(box):
    """The solution stands for an agent here: it leaves what it can see for the tests to find."""
    look = "ls -A /tests/ /workspace/.harbor/ > greeting.txt 2>&1; ls -A /workspace >> greeting.txt; true\n"
    test = TEST_STATE.replace('== "hello\\n"', "== Path('/tests/seen.txt').read_text()")
    seen = ("ls: cannot access '/tests/': No such file or directory\n"
            "ls: cannot access '/workspace/.harbor/': No such file or directory\n.harbor-solution\ndata\ngreeting.txt\n")
    where = write(box, "greet", {**GREET, "solution/solve.sh": look, "tests/test_state.py": test, "tests/seen.txt": seen})
    task = tasks(box, "--from", f"harbor:{where}").tasks["greet"]
    assert task["valid"], task


@pytest.mark.parametrize("changes, why", [
    ({"environment/Dockerfile": "FROM x\nRUN apt-get update &&  \\\n   git clone x\n"},
     "its Dockerfile, line 2: RUN apt-get update && git clone x: needs the network; give a root filesystem"),
    ({"environment/Dockerfile": "FROM x\nRUN useradd -m bob\n"}, "line 2: RUN useradd -m bob: needs a root user"),
    ({"environment/Dockerfile": "FROM x\nCOPY data /etc/data\n"}, "is a path that a box uses for something else"),
    ({"environment/Dockerfile": "FROM x\nWORKDIR /usr/src/app\n"}, "its working folder /usr/src/app is a path that a box uses for something else"),
    ({"environment/Dockerfile": "FROM x\nWORKDIR /usr\n"}, "its working folder /usr is a path that a box uses for something else"),
    ({"environment/Dockerfile": None, "task.toml": TOML + 'docker_image = "acme/greet:1"\n'},
     "it has no Dockerfile; give the root filesystem of acme/greet:1 (--image)"),
    ({"task.toml": TOML.replace("timeout_sec = 45.0", 'environment_mode = "separate"')},
     "its tests are made for a container of their own"),
    ({"instruction.md": b"Gr\xfc\xdfe\n"}, "its instruction is not UTF-8"),
    ({"environment/Dockerfile": "FROM x\nWORKDIR /\n"}, "its working folder is the whole root filesystem"),
    ({"environment/docker-compose.yaml": "services:\n  main: {}\n  db: {}\n"}, "has more than one service"),
    ({"task.toml": "[[steps]]\nname = 'one'\n"}, "tasks of several steps are not supported"),
    ({"task.toml": "[verifier\n"}, "task.toml: line 1: unterminated table name"),
    ({"instruction.md": " \n"}, "it has no instruction"),
    ({"instruction.md": ("link", "/etc/passwd")}, "instruction.md: is a symlink"),
    ({"tests/evil": ("link", "/etc/passwd")}, "is a symlink that leads out of the workspace"),
    ({"tests/test.sh": None}, "it has no tests/test.sh"),
])
def test_what_cannot_be_played_is_left_out_with_the_reason(box, changes, why):
    files = {path: text for path, text in {**GREET, **changes}.items() if text is not None}
    where = write(box, "set", {**{f"bad/{path}": text for path, text in files.items()},
                               **{f"good/{path}": text for path, text in GREET.items()}})
    listed = tasks(box, "--no-check", "--from", f"harbor:{where}")
    assert list(listed.tasks) == ["good"], listed
    line = next(line for line in listed.said.splitlines() if "bad: left out: " in line)
    assert why in line, line


@pytest.mark.parametrize("changes, why", [
    ({"task.yaml": "instruction: x\nparser_name: swebench\n"}, "parser_name: swebench is not supported"),
    ({"task.yaml": "instruction: [\n"}, "task.yaml: line"),
    ({"task.yaml": "difficulty: easy\n"}, "it has no instruction"),
    ({"run-tests.sh": None, "tests/test_outputs.py": None}, "run-tests.sh: No such file"),
])
def test_the_same_for_terminal_bench(box, changes, why):
    where = write(box, "bad", {path: text for path, text in {**OLD, **changes}.items() if text is not None})
    done = box.hutch("gym", "tasks", "--no-check", "--from", f"harbor:{where}")
    assert done.returncode == 125 and why in done.stderr, done


def make_image(box, root):
    """A root filesystem with the few programs that the task below needs."""
    for name in ("bash", "sh", "mkdir", "cat", "tr", "sed", "cp"):
        program = shutil.which(name)
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
        for path in [program, *(word for word in libraries if word.startswith("/"))]:
            copy = root / path.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(os.path.realpath(path), copy)
    (root / "bin").mkdir(exist_ok=True)
    for name in ("bash", "sh"):
        if not (root / "bin" / name).exists():
            shutil.copy2(os.path.realpath(shutil.which(name)), root / "bin" / name)
    (root / "app").mkdir()
    (root / "app/built").write_text("by make\n")
    subprocess.run(["chown", "-R", f"{box.caller.uid}:{box.caller.gid}", root], check=True)


def test_an_image_has_what_the_dockerfile_does(box):
    """RUN is not carried out, but the image has what came of it; its working folder is the workspace."""
    test = "#!/bin/bash\n[ $(cat /app/built | tr -d ' ') = bymake ] && [ \"$(cat greeting.txt)\" = hello ] && " \
           "echo 1 > /logs/verifier/reward.txt\n"
    files = {**GREET, "environment/Dockerfile": "FROM x\nWORKDIR /app\nRUN make\n", "tests/test.sh": test}
    where = write(box, "greet", files)
    make_image(box, box.workspace / "images/greet")
    for image in (box.workspace / "images", box.workspace / "images/greet"):
        task = tasks(box, "--from", f"harbor:{where}", "--image", image).tasks["greet"]
        assert task["valid"], task
    done = box.hutch("gym", "tasks", "--from", f"harbor:{where}", "--image", "nope")
    assert done.returncode == 125 and "there is no image 'nope'; unpack its root filesystem to" in done.stderr, done


def test_a_folder_without_tasks(box):
    done = box.hutch("gym", "tasks", "--from", f"harbor:{box.workspace}")
    assert done.returncode == 125 and "contains no task" in done.stderr, done
