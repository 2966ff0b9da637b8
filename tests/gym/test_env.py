"""An episode: what steps show, what they cost, when it ends."""
import math

from calc_task import EXPECTED, FIX, PASSED_AT_FIRST, READ, SUBMIT, TESTS, WRONG
from playing import seen, text

CALL, SECOND = 0.01, 0.01


def test_reset_tells_the_task(gym):
    first = gym.reset()
    assert "subtract the discount" in text(first)
    assert seen(first)["data"]["task"] == "calc"
    assert first["step"]["action"] is None and first["step"]["step"] == 0 and first["step"]["reward"] == 0
    assert gym.look()["features"] == [0] * 4


def test_the_winning_episode(gym):
    _, applied, end = gym.play([FIX, SUBMIT])
    assert not seen(applied)["failed"] and applied["step"]["seconds"] == 0.1
    assert applied["step"]["reward"] == -CALL + -(SECOND * 0.1)
    assert end["step"]["terminated"] and not end["step"]["truncated"]
    assert end["step"]["pass_rate"] == 1.0
    assert end["info"]["reward"] == {"pass_rate": 1.0, "calls": -CALL, "seconds": -(SECOND * 0.58)}
    assert end["step"]["reward"] == 1.0 + -CALL + -(SECOND * 0.58)
    assert [test["outcome"] for test in end["info"]["tests"]] == ["passed"] * EXPECTED
    assert end["info"]["discarded"] == [] and end["info"]["trouble"] is None
    now = gym.look()
    assert now["over"] and now["calls"] == 2 and now["features"] == [1, 0, 1 + EXPECTED, 0]
    assert now["return"] == 1.0 - CALL * 2 - SECOND * 0.68
    assert math.isclose(now["return"], applied["step"]["reward"] + end["step"]["reward"])


def test_features_follow_the_actions(gym):
    gym.reset()
    gym.act(READ)
    assert gym.look()["features"] == [0, 0, 0, 1]
    run = gym.act(TESTS)
    assert run["step"]["pass_rate"] == PASSED_AT_FIRST / EXPECTED
    assert gym.look()["features"] == [0, 0, 1 + PASSED_AT_FIRST, 1]
    changed = gym.act(WRONG)
    assert changed["step"]["pass_rate"] is None, "what was found before a change says nothing about what is there now"
    assert gym.look()["features"] == [0, 1, 0, 1]
    gym.act(TESTS)
    assert gym.look()["features"][2] > 1
    again = gym.act(FIX)
    assert seen(again)["failed"], "the second patch no longer applies"
    assert gym.look()["features"][:2] == [0, 1]
    assert gym.look()["features"][2] > 1, "a diff that does not apply changes nothing"
    undone = gym.step("apply_diff", diff=seen_diff(changed), reverse=True)
    assert not seen(undone)["failed"]
    assert gym.look()["features"][:2] == [0, 0]


def seen_diff(answer):
    return answer["step"]["action"]["diff"]


def test_states_have_names(gym):
    names = [answer["info"]["state"] for answer in gym.play([READ, TESTS, FIX, FIX, ("bash", {"command": "true"}), TESTS])]
    begin, read, run, fixed, failed, ran, again = names
    assert begin == read == run, "looking changes nothing"
    assert fixed != begin and failed == fixed and ran not in (fixed, begin) and again == ran


def test_the_tests_leave_no_trace(gym):
    """run_tests as the task means it runs in a fork that is thrown away."""
    gym.reset()
    gym.step("write_file", path="tests/test_litter.py",
             content="def test_it():\n    open('/workspace/litter', 'w').close()\n    open('/tmp/litter', 'w').close()\n")
    assert "test_litter.py" in str(seen(gym.act(TESTS))["data"])
    assert "litter\n" not in text(gym.step("bash", command="ls /workspace /tmp"))


def test_the_tests_of_the_tool_have_the_same_form(gym):
    gym.reset()
    ours = seen(gym.act(TESTS))["data"]
    tools = seen(gym.step("run_tests", command="python3 -m pytest -q tests"))["data"]
    for member in ("passed", "failed", "errors", "skipped", "framework", "command", "output", "truncated"):
        assert type(ours[member]) in (type(tools[member]), type(None)), member
    assert (ours["passed"], ours["failed"]) == (tools["passed"], tools["failed"]) == (1, 3)
    names = {test["name"].split("::")[-1] for test in ours["tests"]}
    assert names == {test["name"].split("::")[-1].split(".")[-1] for test in tools["tests"]}


def test_the_shell_goes_on_from_step_to_step(open_gym, who):
    for options in (["--virtual"], ["--virtual", "--no-cache"]):
        gym = open_gym(who, *options)
        gym.reset()
        gym.step("bash", command="cd src; export NAME=value; f() { echo called; }")
        gym.act(TESTS)
        assert text(gym.step("bash", command="pwd; echo $NAME; f")) == "/workspace/src\nvalue\ncalled\n"


def test_what_does_not_fit_together_is_an_observation(gym):
    gym.reset()
    for tool, input, says in [
        ("read_fil", {}, "did you mean 'read_file'?"),
        ("nothing_like_it", {}, "there is no tool 'nothing_like_it'"),
        ("git_push", {}, "there is no tool 'git_push'"),
        ("read_file", {}, "path"),
        ("read_file", {"path": 5}, "path"),
        ("bash", {"command": "true", "handle": 1}, "either command"),
        ("submit", {"now": True}, "submit takes no input"),
        ("bash", {"handle": 99}, "99"),
    ]:
        answer = gym.step(tool, **input)
        assert seen(answer)["failed"] and says in text(answer), (tool, answer)
        assert not answer["step"]["terminated"]
    assert gym.look()["calls"] == 8, "they cost as any other call"
    broken = gym.ask("step", tool="bash", input=["no object"])
    assert seen(broken)["failed"] and "object" in text(broken)


def test_steps_out_of_turn_are_errors(gym):
    assert "was not reset" in gym.step("submit")["error"]
    gym.play([SUBMIT])
    late = gym.act(READ)
    assert late["code"] == 22 and "over" in late["error"]
    assert "no action 5" in gym.ask("act", number=5)["error"]
    assert gym.reset()["step"]["step"] == 0


def test_limit_of_steps(open_gym, who):
    gym = open_gym(who, "--virtual", "--max-steps", "3")
    *_, last = gym.play([READ, FIX, READ])
    assert last["step"]["truncated"] and not last["step"]["terminated"]
    assert "limit of steps" in last["info"]["reason"]
    assert last["step"]["pass_rate"] == 1.0, "it is graded as it stands"
    assert last["step"]["reward"] == 1.0 + -CALL + -(SECOND * 0.05)
    assert len(last["info"]["tests"]) == EXPECTED
    assert gym.look()["over"]
    *_, submitted = gym.play([READ, FIX, SUBMIT])
    assert submitted["step"]["terminated"] and not submitted["step"]["truncated"]


def test_wall_clock(open_gym, who):
    gym = open_gym(who)
    gym.reset()
    slow = gym.step("bash", command="sleep 0.2")
    assert 0.2 <= slow["step"]["seconds"] < 30
    assert slow["step"]["reward"] == -CALL + -(SECOND * slow["step"]["seconds"])
    gym.reset()
    known = gym.step("bash", command="sleep 0.2")
    assert known["step"]["seconds"] == slow["step"]["seconds"], "what is known costs what it took to find it out"
    assert gym.counts()["cache_hits"] == 1


def test_long_output_is_bounded(gym):
    gym.reset()
    gym.step("write_file", path="long", content="".join(f"{n:06}: {'x' * 90}\n" for n in range(40000)))
    answer = gym.step("bash", command="cat long")
    assert len(text(answer)) < 70000 and "left out" in text(answer)
    everything = seen(answer)["data"]["output_file"]
    assert everything in text(answer)
    assert text(gym.step("bash", command=f"tail -c 8 {everything}; cmp long {everything} && echo same")) == "x" * 7 + "\nsame\n"


def test_changed_tests_do_not_count(gym):
    gym.reset()
    gym.step("write_file", path="tests/test_calc.py", content="def test_nothing():\n    pass\n")
    end = gym.act(SUBMIT)
    assert end["step"]["pass_rate"] == PASSED_AT_FIRST / EXPECTED
    assert end["info"]["discarded"] == ["M tests/test_calc.py"]
    assert "M tests/test_calc.py" in text(end)
