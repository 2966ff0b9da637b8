"""hutch.gym.CodingVectorEnv: in step, and asynchronously; with Gymnasium and without it."""
import os
import signal

import harness
from python_programs import gym_program as program


def test_every_environment_does_what_one_alone_would(gym):
    gym.run(program("""
        actions = [[0, 1, 2, 3], [5, 5, 5, 5], [7, 7, 7, 7]]
        alone = []
        for env_id in range(4):
            with CodingEnv("bugfix_1", clock="virtual") as env:
                alone.append([env.reset(seed=10 + env_id), *(env.step(row[env_id]) for row in actions)])
        envs = CodingVectorEnv("bugfix_1", num_envs=4, clock="virtual")
        observations, infos = envs.reset(seed=10)
        for env_id in range(4):
            assert list(observations[env_id]) == list(alone[env_id][0][0])
            assert infos["text"][env_id] == alone[env_id][0][1]["text"] and infos["_text"][env_id]
        for number, row in enumerate(actions, 1):
            observations, rewards, terminations, truncations, infos = envs.step(row)
            for env_id in range(4):
                one = alone[env_id][number]
                assert list(observations[env_id]) == list(one[0]) and rewards[env_id] == one[1]
                assert (bool(terminations[env_id]), bool(truncations[env_id])) == one[2:4]
                assert infos["reward"]["calls"][env_id] == one[4]["reward"]["calls"]
                assert list(infos["action_mask"][env_id]) == list(one[4]["action_mask"])
        envs.close()
    """))


def test_spaces_are_batched(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1") as env:
            single = env.observation_space, env.action_space
        envs = CodingVectorEnv("bugfix_1", 3)
        assert (envs.single_observation_space, envs.single_action_space) == single
        assert envs.observation_space.shape == (3, *single[0].shape) and envs.action_space.shape == (3,)
        assert envs.reset(seed=1)[0] in envs.observation_space and envs.action_space.sample() in envs.action_space
        assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP and envs.num_envs == 3
        envs.close()
        envs.close()
        fails(hutch.HutchError, "closed", lambda: envs.reset())
        tools = CodingVectorEnv("bugfix_1", 2, actions="tools", clock="virtual")
        texts, _ = tools.reset(seed=1)
        assert texts in tools.observation_space
        texts, *_ = tools.step([{"tool": "list_files"}, '{"tool": "read_file", "path": "src/calc.py"}'])
        assert isinstance(texts, tuple) and "def " in texts[1]
        tools.close()
    """))


def test_an_episode_is_followed_by_the_next(gym):
    """The three ways to begin again, as Gymnasium names them."""
    gym.run(program("""
        submit = 7
        envs = CodingVectorEnv("bugfix_1", 2, clock="virtual")
        first, _ = envs.reset(seed=1)
        *_, terminations, truncations, infos = envs.step([submit, 0])
        assert truths(terminations) == [True, False]
        observations, rewards, terminations, truncations, infos = envs.step([3, 1])  # the 3 is not carried out
        assert list(observations[0]) == list(first[0]) and rewards[0] == 0 and infos["calls"][0] == 0
        assert truths(terminations) == [False, False] and infos["calls"][1] == 2
        envs.close()

        envs = CodingVectorEnv("bugfix_1", 2, clock="virtual", autoreset_mode="SameStep")
        envs.reset(seed=1)
        observations, rewards, terminations, truncations, infos = envs.step([submit, 0])
        assert truths(terminations) == [True, False] and rewards[0] != 0
        assert list(observations[0]) == list(first[0]) and infos["calls"][0] == 0
        assert truths(infos["_final_obs"]) == [True, False] and infos["final_info"]["calls"][0] == 1
        assert envs.step([0, 0])[4]["calls"][0] == 1
        envs.close()

        envs = CodingVectorEnv("bugfix_1", 2, clock="virtual", autoreset_mode=AutoresetMode.DISABLED)
        envs.reset(seed=1)
        envs.step([submit, 0])
        fails(hutch.HutchError, "reset it first", lambda: envs.step([0, 0]))
        mask = [True, False]
        if HAVE_GYMNASIUM:
            import numpy
            mask = numpy.array(mask)
        observations, infos = envs.reset(options={"reset_mask": mask})
        assert truths(infos["_calls"]) == [True, False] and list(observations[1])[0] == 1
        envs.step([0, 1])
        envs.close()
    """))


def test_send_and_receive(gym):
    gym.run(program("""
        envs = CodingVectorEnv("bugfix_1", 8, threads=3)
        fails(hutch.HutchError, "never reset", lambda: envs.send([0], [1]))
        envs.async_reset(seed=1)
        steps, episodes, ids = 0, 0, set()
        while steps < 120:
            observations, rewards, terminations, truncations, infos = envs.recv(2)
            here = [int(one) for one in infos["env_id"]]
            assert len(here) >= 2 and len(observations) == len(rewards) == len(here) == len(set(here))
            assert envs.pending == 8 - len(here)
            ids |= set(here)
            steps += len(here)
            episodes += sum(truths(terminations)) + sum(truths(truncations))
            envs.send([envs.single_action_space.sample() for _ in here], here)
        assert ids == set(range(8)) and episodes > 0
        fails(hutch.HutchError, "still at work", lambda: envs.step([0] * 8))
        assert len(envs.recv(8)[1]) == 8 and envs.pending == 0
        assert len(envs.recv(1)[1]) == 0 and len(envs.recv(1)[4]["env_id"]) == 0, "nothing is under way"
        fails(ValueError, "twice", lambda: envs.send([0, 1], [3, 3]))
        fails(ValueError, "no environment 8", lambda: envs.send([0], [8]))
        fails(ValueError, "1 actions for 2", lambda: envs.send([0], [1, 2]))
        envs.send([0], [1])
        envs.reset(seed=4)  # drops what is under way
        envs.step_async([0] * 8)
        envs.step_wait()
        envs.step_async([5] * 8)
        try:
            envs.step_wait(timeout=0)
        except TimeoutError:
            pass
        assert len(envs.step_wait()[1]) == 8 if envs.pending else True
        envs.close()
    """))


def test_a_slow_environment_holds_up_nobody(python):
    python.run(program("""
        envs = CodingVectorEnv("bugfix_1", 2, actions="tools", threads=2)
        envs.reset(seed=1)
        envs.send([{"tool": "bash", "command": "sleep 60", "timeout": 60}], [0])
        for _ in range(5):
            envs.send([{"tool": "list_files"}], [1])
            assert list(envs.recv(1)[4]["env_id"]) == [1]
        assert len(envs.recv(1, timeout=0.05)[1]) == 0
        envs.close()
    """))


def test_one_box_that_dies_hurts_no_other(python):
    python.run(program("""
        import signal, time
        envs = CodingVectorEnv("bugfix_1", 3, actions="tools", clock="virtual", cache=False, pool=1)
        envs.reset(seed=1)
        envs.step([{"tool": "bash", "command": f"sleep 9000{n}", "background": True} for n in range(3)])
        def running(pid, what):
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    return f.read().replace("\\0", " ").strip() == what
            except OSError:
                return False
        mark, deadline = [], time.monotonic() + 30
        while not mark and time.monotonic() < deadline:  # a background command is answered before it has begun
            mark = [pid for pid in os.listdir("/proc") if pid.isdigit() and running(pid, "sleep 90001")]
        assert len(mark) == 1, mark
        # Up to the process 1 of that box.
        def parent(pid):
            return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
        pid = int(mark[0])
        while parent(pid) != os.getpid():
            pid = parent(pid)
        os.kill(pid, signal.SIGKILL)
        texts, rewards, terminations, truncations, infos = envs.step([{"tool": "bash", "command": "echo alive"}] * 3)
        assert truths(truncations) == [False, True, False] and not any(truths(terminations)), (truncations, texts)
        assert "alive" in texts[0] and "alive" in texts[2]
        assert infos["reason"][1], infos["reason"]
        envs.step([{"tool": "bash", "command": "true"}] * 3)
        texts, *_, truncations, infos = envs.step([{"tool": "bash", "command": "echo again"}] * 3)
        assert "again" in texts[1] and not any(truths(truncations))
        envs.close()
    """))


def test_ctrl_c_while_waiting(python):
    process = python.start(program("""
        envs = CodingVectorEnv("bugfix_1", 2, actions="tools", threads=2)
        envs.reset(seed=1)
        try:
            envs.step([{"tool": "bash", "command": "sleep 100", "timeout": 100}, {"tool": "list_files"}])
        except KeyboardInterrupt:
            print("interrupted", envs.pending)
        envs.close()
    """))
    try:
        harness.wait_until(lambda: any(harness.describe(pid).endswith(": sleep 100") for pid in harness.descendants(process.pid)))
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 and out in ("interrupted 1\n", "interrupted 2\n"), err


def test_nothing_is_left_of_many_episodes(python):
    python.run(program("""
        import gc, random, time
        def children():
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                return f.read().split()
        def counts():
            gc.collect()
            deadline = time.monotonic() + 15
            while children() and time.monotonic() < deadline:
                time.sleep(0.01)
            return len(os.listdir("/proc/self/fd")), len(children()), len(os.listdir("/proc/self/task"))
        def play(steps):
            rng = random.Random(1)
            envs = CodingVectorEnv("bugfix_1", 16, clock="virtual")
            envs.reset(seed=1)
            for _ in range(steps):
                envs.step([rng.randrange(envs.single_action_space.n) for _ in range(16)])
            envs.close()
        play(2)
        before = counts()
        play(60)
        assert counts() == before, (before, counts())
    """), timeout=300)
