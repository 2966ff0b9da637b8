"""hutch.gym.CodingEnv, with Gymnasium and without it. Rewards are checked as a sum: what the tests count for is tests/gym's."""
import os
import signal

import harness
from python_programs import gym_program as program


def test_all_promises_are_kept(gym):
    said = gym.run(program("""
        assert check.main(["bugfix_1"]) == 0
    """), timeout=300)
    assert ("without" in said) == (gym.gymnasium is None)


def test_the_checker_finds_what_is_broken(gym):
    gym.run(program("""
        class Unseeded(CodingEnv):
            def reset(self, *, seed=None, options=None):
                return super().reset(options=options)
        class Lists(CodingEnv):
            def step(self, action):
                return list(super().step(action))
        class Outside(CodingEnv):
            def reset(self, *, seed=None, options=None):
                return [99], super().reset(seed=seed)[1]
        class Drifting(CodingEnv):
            drift = 0.0
            def step(self, action):
                Drifting.drift += 1e-16
                seen = super().step(action)
                return (seen[0], Drifting.drift, *seen[2:])
        class Positional(CodingEnv):
            def reset(self, seed=None, options=None):
                return super().reset(seed=seed)
        for kind, part in ((Unseeded, "seed"), (Lists, "five"), (Outside, "is not in"), (Drifting, "virtual clock differ"),
                           (Positional, "keyword-only")):
            fails(AssertionError, part, lambda: check.check_env(lambda: kind("bugfix_1", clock="virtual"), gymnasium_too=False))
    """), timeout=300)


def test_the_best_sequence_has_the_return_that_it_should(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual") as env:
            names = env.arena.action_names
            env.reset(seed=1)
            solved = []
            for number in range(env.arena.patches):
                env.reset(seed=1)
                total = env.step(number)[1]
                observation, reward, terminated, truncated, info = env.step(names.index("submit"))
                assert terminated and not truncated
                parts = info["reward"]
                assert abs(sum(parts.values()) - reward) < 1e-12
                assert parts["pass_rate"] == info["pass_rate"]
                solved.append(info["pass_rate"])
            assert solved.count(1.0) == 1 and max(solved) == 1.0, solved
    """))


def test_masks_and_names_tell_what_is_left_to_do(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual") as env:
            observation, info = env.reset(seed=3)
            assert len(info["action_names"]) == env.action_space.n and list(info["action_mask"]) == [1] * env.action_space.n
            assert list(observation) == [0] * len(observation)
            observation, *_, info = env.step(2)
            assert observation[2] == 1 and list(info["action_mask"])[:3] == [1, 1, 0], info
            for _ in range(50):
                assert env.action_space.sample(mask=info["action_mask"]) != 2
            if HAVE_GYMNASIUM:
                import numpy
                assert observation.dtype == numpy.int64 and info["action_mask"].dtype == numpy.int8
            else:
                assert hash(observation) is not None
    """))


def test_actions_that_are_none_are_refused(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual") as env:
            env.reset(seed=1)
            for action in (-1, env.action_space.n, "0", None, 1.0):
                fails(ValueError, "action", lambda: env.step(action))
        with CodingEnv("bugfix_1", actions="tools", clock="virtual") as env:
            env.reset(seed=1)
            for action in (1, None, {}, {"tool": 3}, ["bash"]):
                fails(ValueError, "tool", lambda: env.step(action))
        fails(ValueError, "discrete", lambda: CodingEnv("bugfix_1", actions="sideways"))
        fails(ValueError, "render_mode", lambda: CodingEnv("bugfix_1", render_mode="rgb_array"))
        fails(hutch.HutchError, "no_such_task", lambda: CodingEnv("no_such_task"))
        fails(hutch.HutchError, "clock", lambda: CodingEnv("bugfix_1", clock="sundial"))
    """))


def test_tool_calls_as_dicts_and_as_text(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", actions="tools", clock="virtual") as env:
            text, info = env.reset(seed=1)
            assert text == info["text"] == env.arena.instruction or env.arena.instruction in text
            one = env.step({"tool": "read_file", "path": "src/calc.py"})
            env.reset(seed=1)
            two = env.step('{"tool": "read_file", "path": "src/calc.py"}')
            assert check.same(one, two) and "def " in one[0]
            # What a model got wrong costs a call, and it is told.
            for wrong in ("I would read the file.", "[1]", '{"tool": 5}', "[" * 100000):
                text, reward, terminated, truncated, info = env.step(wrong)
                assert "JSON object" in text and info["failed"] and reward < 0 and not terminated, text
            text, *_, info = env.step({"tool": "no_such_tool"})
            assert info["failed"] and "no_such_tool" in text, text
            assert info["calls"] == 6, info
            text, reward, terminated, truncated, info = env.step({"tool": "submit"})
            assert terminated and info["pass_rate"] is not None
            env.action_space.seed(1)
            for _ in range(100):
                assert env.action_space.sample() in env.action_space
            assert {"tool": "no_such_tool"} not in env.action_space and "any text" in env.action_space
    """))


def test_a_fork_goes_its_own_way(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", actions="tools", clock="virtual") as env:
            env.reset(seed=1)
            env.step({"tool": "write_file", "path": "note", "content": "one"})
            with env.fork() as other:
                assert other.arena is env.arena and other.observation_space == env.observation_space
                other.step({"tool": "write_file", "path": "note", "content": "two"})
                assert "two" in other.step({"tool": "read_file", "path": "note"})[0]
                assert "one" in env.step({"tool": "read_file", "path": "note"})[0]
            assert env.np_random_seed == 1
    """))


def test_episodes_are_truncated_at_their_last_step(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual", max_steps=2) as env:
            env.reset(seed=1)
            run = env.arena.action_names.index("run tests")
            assert env.step(run)[2:4] == (False, False)
            *_, terminated, truncated, info = env.step(run)
            assert truncated and not terminated and info["pass_rate"] is not None and info["reason"], info
            fails(hutch.HutchError, "reset", lambda: env.step(run))
    """))


def test_unseeded_resets_follow_the_last_seed(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual") as env:
            drawn = []
            for _ in range(2):
                env.reset(seed=11)
                env.reset()
                drawn.append(float(env.np_random.random()))
            assert drawn[0] == drawn[1]
    """))


def test_environments_share_what_is_made_ready(gym):
    gym.run(program("""
        import gc
        one, two = CodingEnv("bugfix_1", clock="virtual"), CodingEnv("bugfix_1", clock="virtual")
        other = CodingEnv("bugfix_1", clock="virtual", cache=False)
        assert one.arena is two.arena and one.arena is not other.arena
        with Arena("bugfix_1") as arena:
            third = CodingEnv(arena)
        third.reset(seed=1)  # the arena lives on
        for env in (one, two, other, third):
            env.reset(seed=1)
            env.close()
    """))


def test_rendering(gym):
    said = gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual", render_mode="ansi", actions="tools") as env:
            env.reset(seed=1)
            env.step({"tool": "bash", "command": "printf '\\\\033[2Jred'"})
            frame = env.render()
            assert isinstance(frame, str) and "bash" in frame and "red" in frame and "\\x1b" not in frame, frame
        with CodingEnv("bugfix_1", clock="virtual", render_mode="human") as env:
            env.reset(seed=1)
            env.step(0)
            assert env.render() is None
    """))
    assert "> reset" in said and "> apply " in said and "reward -0.0" in said


def test_environments_are_not_pickled(gym):
    gym.run(program("""
        import pickle
        with CodingEnv("bugfix_1") as env:
            fails(TypeError, "cannot be pickled or copied", lambda: pickle.dumps(env))
            child = os.fork()
            if child == 0:
                try:
                    env.reset(seed=1)
                except hutch.HutchError as why:
                    os._exit(0 if "forked" in str(why) else 1)
                os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            env.reset(seed=1)
    """))


def test_ctrl_c_ends_a_step_and_its_episode(python):
    process = python.start(program("""
        env = CodingEnv("bugfix_1", actions="tools")
        env.reset(seed=1)
        try:
            env.step({"tool": "bash", "command": "sleep 100", "timeout": 100})
        except KeyboardInterrupt:
            fails(hutch.HutchError, "reset", lambda: env.step({"tool": "submit"}))
            env.reset(seed=2)
            assert not env.step({"tool": "bash", "command": "true"})[4]["failed"]
            print("interrupted")
        env.close()
    """))
    try:
        harness.wait_until(lambda: any(harness.describe(pid).endswith(": sleep 100") for pid in harness.descendants(process.pid)))
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, "interrupted\n"), err


def test_without_gymnasium_nothing_is_registered(python):
    python.run(program("""
        import hutch.gym
        assert hutch.gym.register_all() == [] and not HAVE_GYMNASIUM
    """))


def test_gymnasium_makes_them_by_name(gymnasium):
    gymnasium.run(program("""
        import gymnasium, warnings
        import hutch.gym
        warnings.simplefilter("error")
        names = [f"hutch/{task['name']}-v0" for task in hutch.gym.tasks()]
        assert set(names) <= set(gymnasium.registry) and "hutch/bugfix_1-v0" in names
        assert hutch.gym.register_all() == names
        with gymnasium.make("hutch/bugfix_1-v0") as env:
            assert isinstance(env.unwrapped, CodingEnv) and env.unwrapped.arena.clock == "virtual"
            env.reset(seed=1)
            env.step(env.action_space.sample())
            from gymnasium.utils.env_checker import check_env
            check_env(env.unwrapped)
        with gymnasium.make("hutch.gym:hutch/bugfix_1-v0", actions="tools", clock="wall", render_mode="ansi") as env:
            env.reset(seed=1)
            env.step({"tool": "list_files"})
            assert "list_files" in env.render()
        envs = gymnasium.make_vec("hutch/bugfix_1-v0", num_envs=3)
        assert isinstance(envs, CodingVectorEnv) and envs.num_envs == 3
        envs.reset(seed=1)
        envs.close()
    """))


def test_other_peoples_vectors_take_them_too(gymnasium):
    gymnasium.run(program("""
        import gymnasium
        for actions in ("discrete", "tools"):
            envs = gymnasium.make_vec("hutch/bugfix_1-v0", num_envs=2, vectorization_mode="sync", actions=actions)
            envs.reset(seed=1)
            envs.action_space.seed(1)
            for _ in range(3):
                observations, *_ = envs.step(envs.action_space.sample())
                assert observations in envs.observation_space
            envs.close()
        envs = gymnasium.make_vec("hutch/bugfix_1-v0", num_envs=2, vectorization_mode="async")
        envs.reset(seed=1)
        assert envs.step([0, 1])[0] in envs.observation_space
        envs.close()
    """))


def test_nothing_is_left_of_many_environments(gym):
    gym.run(program("""
        import gc, time
        def children():
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                return f.read().split()
        def counts():
            gc.collect()
            deadline = time.monotonic() + 15
            while children() and time.monotonic() < deadline:
                time.sleep(0.01)
            return len(os.listdir("/proc/self/fd")), len(children()), len(os.listdir("/proc/self/task"))
        def play():
            env = CodingEnv("bugfix_1", clock="virtual", cache=False)
            env.reset(seed=1)
            env.step(0)
            return env
        play().close()
        before = counts()
        for n in range(20):
            env = play()
            fork = env.fork()
            if n % 2:
                env.close()
        del env, fork
        assert counts() == before, (before, counts())
    """), timeout=300)


def test_tasks_of_others(python):
    """They are listed, played, and where one is left out it is said why."""
    python.run(program("""
        files = {"instruction.md": "Write hello.", "task.toml": "[agent]\\ntimeout_sec = 60.0\\n",
                 "environment/Dockerfile": "FROM x\\nWORKDIR /app\\n",
                 "tests/test.sh": "#!/bin/bash\\ntest -f /app/hello && echo 1 >/logs/verifier/reward.txt\\n"}
        for name in ("greet", "compiled"):
            for path, text in files.items():
                os.makedirs(os.path.dirname(f"others/{name}/{path}"), exist_ok=True)
                open(f"others/{name}/{path}", "w").write(text)
        open("others/compiled/environment/Dockerfile", "a").write("COPY --from=build /out /app/\\n")
        assert [task["name"] for task in hutch.gym.tasks(source="harbor:others")] == ["greet"]
        with CodingEnv("greet", source="harbor:others", clock="virtual") as env:
            assert env.reset(seed=1)[0] == "Write hello."
            env.step({"tool": "bash", "command": "echo hi >/app/hello"})
            assert env.step({"tool": "submit"})[4]["pass_rate"] == 1.0
        fails(hutch.HutchError, "compiled: left out: ", lambda: CodingEnv("compiled", source="harbor:others"))
        fails(hutch.HutchError, "there is no task", lambda: CodingEnv("other", source="harbor:others"))
        fails(hutch.HutchError, "there is no image", lambda: CodingEnv("greet", source="harbor:others", image="none_such"))
    """))


def test_wrappers_of_gymnasium(gymnasium):
    gymnasium.run(program("""
        import gymnasium, numpy
        from gymnasium.wrappers import FlattenObservation, FrameStackObservation, RecordEpisodeStatistics, TimeLimit
        from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordStatistics
        with RecordEpisodeStatistics(FlattenObservation(gymnasium.make("hutch/bugfix_1-v0"))) as env:
            assert env.reset(seed=1)[0] in env.observation_space and len(env.observation_space.shape) == 1
            *_, info = [env.step(action) for action in (3, 7)][-1]
            assert info["episode"]["l"] == 2 and round(float(info["episode"]["r"]), 4) == 0.9728
        with TimeLimit(FrameStackObservation(CodingEnv("bugfix_1"), 2), 1) as env:
            env.reset(seed=1)
            observation, reward, terminated, truncated, info = env.step(5)
            assert observation in env.observation_space and truncated and not terminated
        envs = RecordStatistics(gymnasium.make_vec("hutch/bugfix_1-v0", num_envs=2))
        envs.reset(seed=1)
        infos = [envs.step(numpy.array(actions))[4] for actions in ([3, 7], [7, 0])]
        assert list(infos[0]["_episode"]) == [False, True] and list(infos[1]["_episode"]) == [True, False]
        assert round(float(infos[1]["episode"]["r"][0]), 4) == 0.9728
        envs.close()
    """))
