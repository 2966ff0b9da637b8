"""What goes wrong in an episode stays in it; and nothing is left behind."""
import os
import signal
import subprocess
import time
from pathlib import Path

import harness
from calc_task import FIX, READ, SUBMIT, TESTS
from playing import seen, text



def test_a_killed_box_truncates_its_episode_alone(open_gym, who):
    for options in (["--virtual"], ["--virtual", "--no-cache"]):
        gym = open_gym(who, *options)
        for env in (0, 1):
            gym.reset(env)
            gym.step("bash", env=env, command=f"echo {env} >mine")
        victim = gym.look(0)["pid"]
        assert victim > 0 and victim != gym.look(1)["pid"]
        os.kill(victim, signal.SIGKILL)
        end = gym.step("bash", env=0, command="cat mine")
        assert end["step"]["truncated"] and not end["step"]["terminated"]
        assert end["info"]["reason"] .startswith("the box has ended: something killed") and end["step"]["pass_rate"] == 0
        assert seen(end)["failed"]
        assert "over" in gym.step("bash", env=0, command="true")["error"]
        assert text(gym.step("bash", env=1, command="cat mine")) == "1\n"
        *_, again = gym.play([FIX, SUBMIT], env=0)
        assert again["step"]["pass_rate"] == 1.0


def test_a_box_that_dies_while_it_works(open_gym, who):
    gym = open_gym(who, "--virtual")
    gym.reset()
    gym.step("bash", command="true")
    pid = gym.look()["pid"]
    killer = f"(sleep 0.3; kill -9 {pid}) &"
    subprocess.Popen(["sh", "-c", killer])
    end = gym.step("bash", command="sleep 60")
    assert end["step"]["truncated"] and end["info"]["reason"].startswith("the box has ended")
    assert gym.reset()["step"]["step"] == 0


def test_submit_after_the_box_was_killed(gym):
    gym.reset()
    gym.step("bash", command="true")
    os.kill(gym.look()["pid"], signal.SIGKILL)
    end = gym.act(SUBMIT)
    assert end["step"]["truncated"] and end["step"]["pass_rate"] == 0 and "the box has ended" in end["info"]["reason"]


def limit_descriptors(caller, pid, soft):
    """By the same user: nobody else may."""
    subprocess.run([*caller.prefix, "prlimit", "--pid", str(pid), f"--nofile={soft}:"], check=True)


def test_a_host_without_descriptors(open_gym, callers, who):
    """What the host cannot do truncates the episode and says so; the program goes on."""
    gym = open_gym(who, "--virtual", "--no-cache")
    *_, fine = gym.play([FIX, SUBMIT])
    assert fine["step"]["pass_rate"] == 1.0
    caller, _ = callers(who)
    limit_descriptors(caller, gym.process.pid, 3)
    gym.reset()
    end = gym.act(FIX)
    limit_descriptors(caller, gym.process.pid, 1024)
    assert end["step"]["truncated"] and end["step"]["pass_rate"] == 0
    assert "Too many open files" in end["info"]["reason"]
    *_, again = gym.play([FIX, SUBMIT])
    assert again["step"]["pass_rate"] == 1.0


def test_limits_of_the_task_are_the_boxes(gym):
    gym.reset()
    answer = gym.step("bash", command="head -c 40M /dev/zero >big || true; echo still here")
    assert "No space left" in text(answer) or "disk" in str(seen(answer)), answer
    assert not answer["step"]["truncated"]
    forks = gym.step("bash", command="rm -f big; for i in $(seq 100); do sleep 5 & done 2>&1 | tail -1; true")
    assert not forks["step"]["truncated"]
    assert text(gym.step("bash", command="echo $((1 + 1))")) == "2\n"


def test_a_background_process(gym):
    """It makes the episode live: without names, in its own box. It does not reach the grading."""
    gym.reset()
    started = gym.step("bash", command="while sleep 0.05; do echo cheat >>/workspace/alive; done", background=True)
    assert seen(started)["data"]["handle"] == 1 and started["info"]["state"] is None
    gym.step("bash", command="until [ -s alive ]; do sleep 0.01; done")
    assert seen(gym.step("bash", handle=1))["data"]["running"]
    assert gym.look()["pid"] > 0
    gym.ask("fork", to=1)
    assert seen(gym.step("bash", env=1, handle=1))["failed"], "processes do not cross"
    assert "alive" in text(gym.step("bash", env=1, command="ls"))
    gym.act(FIX)
    assert gym.act(TESTS)["step"]["pass_rate"] == 1.0
    assert gym.act(SUBMIT)["step"]["pass_rate"] == 1.0
    assert gym.act(FIX, env=1)["info"]["state"] is None
    assert gym.act(SUBMIT, env=1)["step"]["pass_rate"] == 1.0
    assert gym.counts()["cache_hits"] == 0, "what is live is not known from before"


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds, patience=20):
    end = time.monotonic() + patience
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def test_many_environments_leave_nothing_behind(open_gym, who):
    before = harness.mounts()
    gym = open_gym(who, "--virtual", "--no-cache")
    gym.ask("many", envs=4, episodes=1, numbers=[FIX, TESTS, SUBMIT])
    descriptors = gym.counts()["descriptors"]
    done = gym.ask("many", envs=64, episodes=3, numbers=[READ, FIX, TESTS, SUBMIT])
    assert done["errors"] == []
    assert len(set(done["sums"])) == 1 and done["sums"][0] > 2.7
    counts = gym.counts()
    assert counts["resets"] == 4 + 64 * 3 and counts["test_runs"] == 2 * (4 + 64 * 3)
    assert wait_until(lambda: gym.counts()["descriptors"] <= descriptors), "boxes given back are ended"
    assert harness.mounts() == before
    gym.close()


def test_a_killed_program_leaves_nothing_behind(open_gym, who):
    """Boxes end with whoever holds them (nothing_left_running looks)."""
    gym = open_gym(who, "--virtual")
    for env in range(4):
        gym.reset(env)
        gym.step("bash", env=env, command="sleep 300", background=True)
    boxes = [gym.look(env)["pid"] for env in range(4)]
    gym.process.kill()
    gym.process.wait()
    gym.process.returncode = 0  # that is how it should end here
    assert wait_until(lambda: not any(is_alive(pid) for pid in boxes))
