"""Episodes that Python plays are recorded, and `hutch gym` plays them again."""
import json
import subprocess

from python_programs import gym_program as program


def play_again(programs):
    """Replays all that was recorded; how many steps each has."""
    steps = {}
    for path in sorted((programs.folder / "runs").glob("*.jsonl")):
        done = subprocess.run([*programs.caller.prefix, programs.place.build / "hutch", "gym", "episode", "--tasks",
                               programs.place.tasks, "--agent", "replay", "--trajectory", path], capture_output=True, text=True,
                              cwd=programs.folder, env=programs.env, check=False)
        assert done.returncode == 0 and done.stdout.endswith("\nas recorded\n"), done
        steps[path.name] = len(path.read_text().splitlines()) - 3
    return steps


def test_both_views_and_a_fork(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual", record="runs") as env:
            env.reset(seed=7)
            env.step(5)
            with env.fork() as other:
                other.step(3)
                other.step(7)
            env.step(0)
            env.step(7)
        with CodingEnv("bugfix_1", clock="virtual", actions="tools", record="runs", max_steps=6) as env:
            env.reset(seed=(1 << 64) - 1)
            env.step({"tool": "read_file", "path": "src/calc.py"})
            env.step("this is no call")
            env.step({"tool": "bash", "command": "printf '\\\\377\\\\0'; exit 3"})
            env.step({"tool": "submit"})
    """))
    assert play_again(gym) == {"bugfix_1-7.jsonl": 3, "bugfix_1-7-2.jsonl": 3, f"bugfix_1-{2 ** 64 - 1}.jsonl": 4}
    head, *_, end = map(json.loads, (gym.folder / "runs" / "bugfix_1-7-2.jsonl").read_text().splitlines())
    assert head["agent"] == "python" and head["seed"] == end["seed"] == 7 and end["pass_rate"] == 1.0
    assert round(end["return"], 4) == 0.9566


def test_many_at_once(gym):
    gym.run(program("""
        envs = CodingVectorEnv("bugfix_1", num_envs=4, clock="virtual", record="runs")
        envs.reset(seed=10)
        for actions in ([7, 0, 1, 2], [0, 7, 7, 7], [7, 0, 0, 0], [0, 0, 0, 0]):
            envs.step(actions)
        envs.close()
    """))
    names = [path.name for path in (gym.folder / "runs").glob("*.jsonl")]
    ended = [name for name in names if "return" in json.loads((gym.folder / "runs" / name).read_text().splitlines()[-1])]
    assert {"bugfix_1-10.jsonl", "bugfix_1-11.jsonl", "bugfix_1-12.jsonl", "bugfix_1-13.jsonl"} <= set(ended) and len(ended) == 5
    for name in set(names) - set(ended):
        (gym.folder / "runs" / name).unlink()
    assert sorted(play_again(gym).values()) == [1, 1, 2, 2, 2]


def test_nothing_is_written_where_nobody_asked(gym):
    gym.run(program("""
        with CodingEnv("bugfix_1", clock="virtual") as env:
            env.reset(seed=7)
            env.step(7)
    """))
    assert list(gym.folder.iterdir()) == []
