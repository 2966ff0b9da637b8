"""Tests by a command line: reports, exit status, rewards; and what may not be believed of them."""
import json
import shutil
from pathlib import Path

import pytest

import honest_task
from playing import Gym

# A program in shell under test, and tests of it that print TAP.
CODE = "echo $(($1 - $2))\n"
FIXED = "echo $(($1 + $2))\n"
TAP = """echo 1..3
n=0
for case in "0 0 0" "1 2 3" "2 2 4"; do
    set -- $case
    n=$((n + 1))
    [ "$(sh src/add.sh $1 $2)" = $3 ] && echo "ok $n - $1 and $2" || echo "not ok $n - $1 and $2"
done
"""
EXPECTED = ["0 and 0", "1 and 2", "2 and 2"]
DIFF = "--- a/src/add.sh\n+++ b/src/add.sh\n@@ -1 +1 @@\n-" + CODE + "+" + FIXED


@pytest.fixture
def arena(callers, gym_run, scratch):
    """A program with a task of its own: arena("root", how("sh tests/run.sh >%R", "tap"))."""
    opened = []

    def start(name, tests):
        folder = Path(scratch) / f"command_{len(list(Path(scratch).glob('command_*')))}"
        patches = json.dumps([{"name": "fix", "diff": DIFF}])
        honest_task.write(folder, {"src/add.sh": CODE, "tests/run.sh": TAP, "patches.json": patches,
                                   "hidden/tests/test_hidden.py": None}, tests)
        caller, _ = callers(name)
        opened.append(Gym([*caller.prefix, str(gym_run), "--virtual", "--no-cache", str(folder)]))
        return opened[-1]

    yield start
    for gym in opened:
        gym.close()


def how(command, kind, **more):
    expected = {"expected": EXPECTED} if kind == "tap" else {}
    return {"runner": "command", "command": command, "format": kind, "own": ["tests"], **expected, **more}


def grade(gym, command=None):
    gym.reset()
    if command:
        assert not gym.step("bash", command=command)["step"]["truncated"]
    return gym.step("submit")["info"]


def outcomes(info):
    return [t["outcome"] for t in sorted(info["tests"], key=lambda t: t["name"])]


def fix(gym):
    return grade(gym, f"cat >src/add.sh <<'END'\n{FIXED}END")


def test_a_report(arena, who):
    gym = arena(who, how("sh tests/run.sh >%R", "tap"))
    info = grade(gym)
    assert outcomes(info) == ["passed", "failed", "failed"] and info["pass_rate"] == 1 / 3
    info = fix(gym)
    assert info["pass_rate"] == 1 and info["trouble"] is None


def test_what_is_printed_is_no_report(arena, who):
    gym = arena(who, how("sh tests/run.sh | grep -v not >%R; sh tests/run.sh", "tap"))
    assert outcomes(grade(gym)) == ["passed", "missing", "missing"]
    info = grade(gym, "echo 'kill -9 $PPID; kill -9 0' >src/add.sh")
    assert outcomes(info) == ["missing"] * 3 and info["trouble"]
    info = grade(arena(who, how("sh tests/run.sh; true %R", "tap")))
    assert outcomes(info) == ["missing"] * 3 and info["trouble"] == "the tests wrote no report"


def test_a_report_that_was_there_is_removed(arena, who):
    gym = arena(who, how("sh tests/run.sh >out.tap || true; [ -s src/skip ] && rm out.tap; true", "tap", report="out.tap"))
    assert outcomes(grade(gym, "printf '1..3\\nok 1 - 0 and 0\\nok 2 - 1 and 2\\nok 3 - 2 and 2\\n' >out.tap; chmod 400 out.tap")) == [
        "passed", "failed", "failed"]
    assert outcomes(grade(gym, "echo x >src/skip; ln -s /etc/passwd out.tap")) == ["missing"] * 3


def test_settings_at_home_are_not_read(arena, who):
    gym = arena(who, how('[ -e "$HOME/evil" ] && printf "1..1\\nok 1 - 1 and 2\\n" >%R || sh tests/run.sh >%R', "tap"))
    assert outcomes(grade(gym, "touch ~/evil")) == ["passed", "failed", "failed"]


def test_heard_of_twice(arena, who):
    gym = arena(who, how("sh tests/run.sh >%R; echo 'ok 4 - 1 and 2' >>%R; sed -i s/1..3/1..4/ %R", "tap"))
    assert outcomes(grade(gym)) == ["passed", "failed", "failed"]
    assert outcomes(fix(gym)) == ["passed", "failed", "passed"]


def test_the_exit_status(arena, who):
    gym = arena(who, how('[ "$(sh src/add.sh 1 2)" = 3 ]', "exit"))
    info = grade(gym)
    assert [(t["name"], t["outcome"]) for t in info["tests"]] == [("command", "failed")] and info["pass_rate"] == 0
    assert fix(gym)["pass_rate"] == 1
    assert grade(gym, "echo 'kill -9 $PPID' >src/add.sh")["pass_rate"] == 0


REWARD = "/tmp/logs/verifier/reward.txt"


def reward(arena, who, command):
    return arena(who, how(command, "reward", report=REWARD))


def test_a_reward(arena, who):
    gym = reward(arena, who, f'[ "$(sh src/add.sh 1 2)" = 3 ] && echo 0.75 >{REWARD} || echo 0.25 >{REWARD}')
    assert grade(gym)["pass_rate"] == 0.25
    assert fix(gym)["pass_rate"] == 0.75


def test_a_reward_that_was_there_does_not_count(arena, who):
    gym = reward(arena, who, "true")
    for plant in (f"mkdir -p /tmp/logs/verifier; echo 1 >{REWARD}", "mkdir -p /tmp/l /tmp/logs; echo 1 >/tmp/l/reward.txt; ln -s /tmp/l /tmp/logs/verifier"):
        info = grade(gym, plant)
        assert info["pass_rate"] == 0 and "no reward" in info["trouble"]


@pytest.mark.parametrize("number", ["2", "-1", "nan", "inf", "1 passed", "", "0x1", "1e400", "0" * 100])
def test_rewards_are_numbers_from_0_to_1(arena, number):
    info = grade(reward(arena, "root", f"echo '{number}' >{REWARD}"))
    assert info["pass_rate"] == 0 and info["trouble"]


def test_a_reward_is_read_as_a_file(arena, who):
    info = grade(reward(arena, who, f"mkfifo {REWARD}"))
    assert info["pass_rate"] == 0 and "FIFO" in info["trouble"]


def test_a_loop_ends(arena, who):
    gym = arena(who, how("sh tests/run.sh >%R", "tap"))
    info = grade(gym, "echo 'while :; do :; done' >src/add.sh")
    assert info["pass_rate"] == 0 and info["trouble"].startswith("the run was stopped: cpu-time")


ALL_OK = "printf '1..3\\nok 1 - 0 and 0\\nok 2 - 1 and 2\\nok 3 - 2 and 2\\n' >%R"


@pytest.mark.parametrize("command, why", [
    (ALL_OK + "; kill -9 $$", "killed"),
    (ALL_OK + "; sh -c 'kill -9 $$'", "killed"),
    (ALL_OK + "; while :; do :; done", "killed"),
    (ALL_OK + "; exit 3", "exit status"),
    (ALL_OK + "; echo 'Bail out!' >>%R; echo 'not ok 2 - 1 and 2' >>%R", "ends early"),
])
def test_reports_that_are_not_believed(arena, who, command, why):
    info = grade(arena(who, how(command, "tap")))
    assert info["pass_rate"] == 0 and why in str(info["trouble"]) + "".join(str(t["message"]) for t in info["tests"]), info


def test_a_report_with_failures_may_end_with_any_status(arena, who):
    gym = arena(who, how("sh tests/run.sh >%R; exit 1", "tap"))
    assert outcomes(grade(gym)) == ["passed", "failed", "failed"]


def test_a_reward_of_a_command_that_was_killed(arena, who):
    info = grade(reward(arena, who, f"echo 1 >{REWARD}; kill -9 $$"))
    assert info["pass_rate"] == 0 and info["trouble"]


STRANGE = ["1 and 2\\033[2K", "1 and 2\\0", "1 and 2 ", "1 and 2\\r"]


@pytest.mark.parametrize("name", STRANGE)
def test_a_name_that_looks_the_same_is_the_same(arena, name):
    gym = arena("root", how(f"printf '1..3\\nok 1 - 0 and 0\\nok 2 - {name}\\nnot ok 3 - 1 and 2\\n' >%R", "tap"))
    assert outcomes(grade(gym)) == ["passed", "failed", "missing"]


def test_a_report_that_breaks_off(arena, who):
    """What comes behind could say otherwise."""
    cases = "".join(f'<testcase name="{n}"/>' for n in EXPECTED)
    info = grade(arena(who, how(f"echo '<testsuites>{cases}<testcase name=' >%R", "junit", expected=EXPECTED)))
    assert info["pass_rate"] == 0 and "cannot read the test report" in info["trouble"], info


# What code in JavaScript may do to the tests that share a process with it.
SCRIPTS = {
    "assertions replaced": "for (const a of [require('node:assert'), require('node:assert/strict')])\n"
                           "  for (const k of Object.keys(a)) try { a[k] = () => {}; } catch (e) {}\n",
    "an early end": "process.exit(0);\n",
    "printed": "process.stdout.write(NAMES.map((n, i) => `ok ${i + 1} - ${n}\\n`).join('')); process.exit(0);\n",
    "the report written, its writer killed": """
const fs = require('fs');
const all = fs.readdirSync('/proc').map((p) => { try { return fs.readFileSync(`/proc/${p}/cmdline`, 'latin1'); } catch (e) { return ''; } });
const path = all.join(' ').match(/destination=([^\\0 ]+)/)[1];
process.on('exit', () => {
  fs.writeFileSync(path, path && TAP ? `1..${NAMES.length}\\n` + NAMES.map((n, i) => `ok ${i + 1} - ${n}\\n`).join('')
    : `<testsuites>${NAMES.map((n) => `<testcase name="${n}"/>`).join('')}</testsuites>`);
  process.kill(process.ppid, 'SIGKILL');
});
""",
}


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
@pytest.mark.parametrize("task, path", [("js_emitter", "src/emitter.js"), ("js_debounce", "src/debounce.js")])
def test_scripts_win_nothing(open_gym, tasks, who, task, path):
    gym = open_gym(who, "--virtual", "--no-cache", task=tasks / task)
    good = {t["name"] for t in grade(gym)["tests"] if t["outcome"] == "passed"}
    names = json.loads((tasks / task / "task.json").read_text())["tests"]["expected"]
    code = (tasks / task / path).read_text()
    for name, script in SCRIPTS.items():
        gym.reset()
        lines = f"const NAMES = {json.dumps(names)}, TAP = {json.dumps(task == 'js_emitter')};\n{script}"
        assert not gym.step("write_file", path=path, content=lines + code)["step"]["observation"]["failed"]
        info = gym.step("submit")["info"]
        assert {t["name"] for t in info["tests"] if t["outcome"] == "passed"} <= good, (name, info)
