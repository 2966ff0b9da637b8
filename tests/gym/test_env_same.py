"""The same actions give the same bytes: again, in another program, without the cache, from a file, in a fork."""
import json

import pytest

from calc_task import FIX, READ, SUBMIT, TESTS, WRONG


MIXED = [
    ("list_files", {}),
    READ,
    TESTS,
    ("bash", {"command": "seq 20000; echo done >made"}),
    ("bash", {"command": "ls /tmp/.hutch/output; sleep 0.01; no-such-program"}),
    ("edit_file", {"path": "src/calc.py", "old": "nowhere", "new": "x"}),
    ("write_file", {"path": "notes.txt", "content": "n\n"}),
    ("search_files", {"pattern": "discount"}),
    ("plan", {"items": [{"text": "think", "state": "active"}]}),
    ("plan", {}),
    WRONG,
    ("run_tests", {"command": "python3 -m pytest -q tests"}),
    ("run_tests", {"path": "tests/test_calc.py", "filter": "empty"}),
    ("nothing", {}),
    ("edit_file", {"path": "src/calc.py", "unknown": 1, "also": 2}),
    TESTS,
    SUBMIT,
]
MORE = ["--max-steps", "50"]


def steps(answers):
    return [json.dumps(answer, sort_keys=True) for answer in answers]


@pytest.mark.parametrize("options", [[], ["--no-cache"], ["--cold"]], ids=["cache", "no-cache", "cold"])
def test_twice_in_one_program_and_once_in_another(open_gym, who, options):
    first = open_gym(who, "--virtual", *MORE, *options)
    second = open_gym(who, "--virtual", *MORE, *options)
    played = steps(first.play(MIXED))
    assert len(played) == len(MIXED) + 1 and json.loads(played[-1])["step"]["terminated"]
    assert steps(first.play(MIXED)) == played
    assert steps(second.play(MIXED)) == played


def test_cache_and_no_cache(open_gym, who):
    known = open_gym(who, "--virtual", *MORE)
    known.play(MIXED)
    before = known.counts()
    cached = steps(known.play(MIXED))
    after = known.counts()
    assert after["cache_hits"] - before["cache_hits"] == len(MIXED), "everything was known"
    assert after["boxes"] == before["boxes"], "and no box was made"
    fresh = open_gym(who, "--virtual", "--no-cache", *MORE)
    assert steps(fresh.play(MIXED)) == cached
    assert fresh.counts()["cache_hits"] == 0


def test_half_known(open_gym, who):
    """What is not known yet is found out in a box in which the known actions are done again first."""
    gym = open_gym(who, "--virtual", *MORE)
    common = [("bash", {"command": "cd src; echo one >>log"}), ("write_file", {"path": "two", "content": "2"}), FIX]
    gym.play(common)
    boxes = gym.counts()["boxes"]
    answers = gym.play([*common, ("bash", {"command": "pwd; cat log ../two; grep -c 'prices) - ' calc.py"})])
    assert answers[-1]["step"]["observation"]["text"] == "/workspace/src\none\n21\n"
    assert gym.counts()["boxes"] == boxes + 1


def test_useless_actions_lead_nowhere_new(gym):
    """A diff that does not apply leaves the state as it was, so that what is known about it stays known."""
    gym.play([FIX, SUBMIT])
    before = gym.counts()
    *_, end = gym.play([FIX, FIX, SUBMIT])
    after = gym.counts()
    assert end["step"]["pass_rate"] == 1.0
    assert after["test_runs"] == before["test_runs"]


def record(gym, actions, path):
    lines = [gym.reset()["step"]]
    lines.insert(0, gym.ask("head"))
    for action in actions:
        answer = gym.act(action) if isinstance(action, int) else gym.step(action[0], **action[1])
        lines.append(answer["step"])
    lines.append(gym.ask("end"))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.chmod(0o644)
    return lines


@pytest.fixture
def file(scratch, request):
    from pathlib import Path
    return Path(scratch) / (request.node.name.replace("/", "_") + ".jsonl")


def test_replay(open_gym, who, file):
    recorder = open_gym(who, "--virtual", *MORE)
    lines = record(recorder, MIXED, file)
    assert lines[0]["task"] == "calc" and lines[0]["seed"] == 7 and lines[0]["clock"] == "virtual"
    assert set(lines[-1]) == {"return", "pass_rate", "calls", "seconds", "seed"}
    other = open_gym(who, "--virtual", "--no-cache", *MORE)
    assert other.ask("replay", path=str(file)) == {"steps": len(MIXED) + 1, "why": ""}


def test_replay_notices(open_gym, who, file):
    gym = open_gym(who, "--virtual", *MORE)
    lines = record(gym, [FIX, SUBMIT], file)
    lines[3]["reward"] += 1e-12
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert gym.ask("replay", path=str(file))["why"].startswith("step 2: reward was")


@pytest.mark.parametrize("options", [[], ["--no-cache"]], ids=["cache", "no-cache"])
def test_forks_are_independent(open_gym, who, options):
    gym = open_gym(who, "--virtual", *options)
    gym.reset()
    gym.step("bash", command="cd src; echo common >file")
    gym.act(READ)
    assert gym.ask("fork", to=1) == {"env": 1}
    assert gym.look(0)["features"] == gym.look(1)["features"] and gym.look(1)["calls"] == 2
    gym.step("bash", env=0, command="echo first >>file")
    gym.step("bash", env=1, command="echo second >>file; touch ../more")
    assert gym.step("bash", env=0, command="cat file; ls ../more")["step"]["observation"]["text"].startswith(
        "common\nfirst\n")
    assert gym.step("bash", env=1, command="cat file; ls ../more")["step"]["observation"]["text"] == (
        "common\nsecond\n../more\n")
    gym.act(FIX, env=1)
    assert gym.act(SUBMIT, env=1)["step"]["pass_rate"] == 1.0
    assert not gym.look(0)["over"]
    assert gym.act(SUBMIT, env=0)["step"]["pass_rate"] == 1 / 4
