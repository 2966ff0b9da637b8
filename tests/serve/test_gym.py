"""The gym over HTTP: episodes that a worker plays."""
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from live_server import nothing_left_running, server  # noqa: F401 (fixtures)

from hutch.client import ServerError
from hutch.client.gym import GymStep

TASK = "bugfix_1"


@pytest.fixture(scope="module")
def task(server):
    """As alice, on a server with a worker."""
    task = server.client("alice").gym(TASK)
    yield task
    task.close()


def problem(call, *arguments, **more):
    with pytest.raises(ServerError) as refused:
        call(*arguments, **more)
    return refused.value


def problem_of_gone(env):
    """A request that is on its way while the job loses its worker gets 503."""
    while True:
        refused = problem(env.step, 0)
        if refused.status != 503:
            return refused


def post(task, below, value):
    return task._json("POST", below, value=value)


def command_line(server, *words):
    done = server.box.hutch("gym", "episode", "--task", TASK, "--clock", "virtual", "--json", *words, timeout=300)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("seed", [1, 7])
def test_episode_has_the_steps_of_the_command_line(server, task, seed):
    *lines, sums = command_line(server, "--agent", "random", "--seed", str(seed))
    with task.env(clock="virtual") as env:
        env.reset(seed)
        for line in lines:
            step = env.step(line["action"])
            assert {name: getattr(step, name) for name in line if name != "action"} == {k: v for k, v in line.items() if k != "action"}
        state = env.state()
        assert (state["return"], state["calls"], state["seed"]) == (sums["return"], sums["calls"], seed)
        assert state["over"]


def test_actions_by_number_are_those_of_the_task(task):
    assert task.actions[0].startswith("apply ") and task.actions[-1] == "submit"
    with task.env(clock="virtual") as env:
        assert env.reset().features == (0,) * len(task.feature_sizes)
        assert env.step(0).features[0] == 1
        assert env.step(len(task.actions) - 1).terminated


def test_list_of_64_environments(task):
    """All of an episode in four requests; each environment has a box of its own."""
    envs = [task.env(clock="virtual") for _ in range(64)]
    began = task.reset(envs, range(64))
    assert len({step.env for step in began}) == 64
    said = task.step([(env, {"tool": "bash", "command": f"echo {number} >n; cat n"}) for number, env in enumerate(envs)])
    assert [step.text.split()[0] for step in said] == [str(number) for number in range(64)]
    task.step([(env, 0) for env in envs[:32]])
    ended = task.step([(env, {"tool": "submit"}) for env in envs])
    assert all(isinstance(step, GymStep) and step.terminated for step in ended)
    assert {step.pass_rate for step in ended[:32]} != {step.pass_rate for step in ended[32:]}
    for env in envs:
        env.close()
    assert task.envs() == []


def test_items_of_a_list_fail_alone(task):
    with task.env() as env, task.env() as gone:
        env.reset()
        gone.reset()
        name = gone.id
        gone.close()
        answers = task.play([{"env": env.id, "tool": "run_tests"}, {"env": name, "action": 0}, {"env": env.id, "action": 0},
                             {"env": env.id + "0", "action": 0}, {"reset": True, "seed": 3}])
        kinds = [getattr(answer, "type", None) for answer in answers]
        assert kinds == [None, "no-environment", "busy", "no-environment", None]
        assert answers[0].step == 1 and answers[4].step == 0
        task.env(answers[4].env).close()


def test_mistakes_are_named(task):
    with task.env() as env:
        env.reset()
        assert problem(env.step, 99).status == 409
        assert "there is no action 99" in problem(env.step, 99).detail
        assert problem(post, task, "step", {"env": env.id}).status == 422
        assert problem(post, task, "step", {"env": env.id, "action": "run"}).status == 422
        assert problem(post, task, "reset", {"seed": -1}).status == 422
        assert problem(post, task, "reset", {"options": {"clock": "sundial"}}).status == 422
        assert problem(post, task, "step", {"steps": []}).status == 422
        assert problem(post, task, "step", {"steps": [{"env": env.id, "action": 0}] * 1025}).status == 422
        wrong = env.step({"tool": "bahs", "command": "ls"})
        assert wrong.observation["failed"] and "did you mean 'bash'" in wrong.text
        assert env.step({"tool": "submit"}).terminated
        assert "reset" in problem(env.step, 0).detail


@pytest.mark.parametrize("name", ["nothing", "..", "../tasks/bugfix_1", "/etc", "a/b", "a" * 300, "bugfix_1 ", "bugfix_1%00"])
def test_task_that_does_not_exist(server, name):
    task = server.client("alice").gym(name)
    for call in (lambda: task.data, lambda: task.env().reset()):
        assert problem(call).status in (400, 404)


def test_environment_of_another_task_is_not_found(server, task):
    other = server.client("alice").gym("off_by_one")
    with task.env() as env:
        env.reset()
        foreign = other.env(env.id)
        assert problem(foreign.step, 0).status == 404 and problem(foreign.state).status == 404
        assert env.step(0).step == 1


def test_fork_goes_on_by_itself(task):
    with task.env(clock="virtual") as env:
        env.reset(5)
        env.step({"tool": "bash", "command": "echo one >file"})
        with env.fork() as copy:
            assert copy.state()["calls"] == 1 and copy.state()["seed"] == 5
            copy.step({"tool": "bash", "command": "echo two >file"})
            assert env.step({"tool": "bash", "command": "cat file"}).text.startswith("one")
            assert copy.step({"tool": "bash", "command": "cat file"}).text.startswith("two")


def test_users_have_environments_of_their_own(server, task):
    bob = server.client("bob").gym(TASK)
    with task.env() as mine, bob.env() as theirs:
        mine.reset()
        theirs.reset()
        assert problem(bob.env(mine.id).step, 0).type == "no-environment"
        assert problem(bob.env(mine.id).state).status == 404
        assert problem(bob.env(mine.id).fork).status == 404
        assert mine.id not in bob.envs() and theirs.id in bob.envs()
        bob.env(mine.id).close()
        assert mine.step(0).step == 1
    bob.close()


def test_requests_at_the_same_time_find_it_busy(task):
    with task.env() as env, ThreadPoolExecutor(1) as pool:
        env.reset()
        slow = pool.submit(env.step, {"tool": "bash", "command": "touch begun; sleep 5"})
        refused = None
        while refused is None and not slow.done():
            try:
                env.state()
            except ServerError as error:
                refused = error.type
        assert refused == "busy"
        assert slow.result().step == 1


def test_request_that_is_broken_off_ends_its_step(server, task):
    """The command ends with the client; the episode must begin anew."""
    impatient = server.client("alice").gym(TASK)
    with task.env() as env:
        env.reset()
        with pytest.raises(Exception):
            impatient._transport.json("POST", f"/v1/gym/{TASK}/step", timeout=2,
                                      value={"env": env.id, "tool": "bash", "command": "sleep 1000"})
        end = time.monotonic() + 120
        while True:
            refused = problem(env.step, 0)
            if refused.type != "busy":
                break
            assert time.monotonic() < end
            time.sleep(0.1)
        assert "reset" in refused.detail
        assert env.reset().step == 0 and env.step(0).step == 1


def test_answers_may_be_large(task):
    """More than a message of the channel: 64 observations of 64 KiB."""
    envs = [task.env(clock="virtual") for _ in range(64)]
    task.reset(envs)
    steps = task.step([(env, {"tool": "bash", "command": "yes 0123456789abcdef | head -c 200000"}) for env in envs])
    assert all(len(step.text) > 30000 for step in steps)
    for env in envs:
        env.close()


def test_everybody_may_read_the_tasks(server):
    reader = server.client("carol", "read-only")
    tasks = reader.gym_tasks()
    assert TASK in [task["name"] for task in tasks] and len(tasks) >= 24
    assert reader.gym(TASK).instruction in [task["instruction"] for task in tasks]
    assert problem(reader.gym(TASK).env().reset).status == 403


def test_lost_worker_loses_its_environments(server):
    """The error says to reset, and reset works."""
    task = server.client("dora").gym(TASK)
    env, other = task.env(clock="virtual"), task.env(clock="virtual")
    env.reset(3)
    other.reset(4)
    for pid in server.worker_pids():
        os.kill(pid, signal.SIGKILL)
    lost = problem_of_gone(env)
    assert lost.type == "no-environment" and "reset" in lost.detail
    assert env.reset(3).step == 0 and env.step(0).step == 1
    assert env.id != other.id
    task.close()


def test_close_ends_all_environments(server):
    task = server.client("erik").gym(TASK)
    env = task.env()
    env.reset()
    task.close()
    assert problem_of_gone(env).type == "no-environment"
    assert task.envs() == []
    assert env.reset().step == 0
    task.close()
