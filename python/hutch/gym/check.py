"""Checks that an environment keeps what Gymnasium promises: with gymnasium and without it.

    python3 -m hutch.gym.check bugfix_1

check_env() takes a function that makes an environment, since some promises are about fresh ones. It raises AssertionError with
what is broken. Where gymnasium is installed its own checker runs as well.
"""
from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Dict, List, Tuple

from ..errors import HutchError
from .base import HAVE_GYMNASIUM
from .env import CodingEnv
from .vector import CodingVectorEnv

__all__ = ["check_env", "check_vector_env", "same"]

INFO_KEYS = {"calls", "seconds", "pass_rate", "reward", "text"}
REWARD_KEYS = {"pass_rate", "calls", "seconds"}
DISCRETE_KEYS = {"action_names", "action_mask"}


def same(one: Any, other: Any) -> bool:
    """Whether two observations or infos are equal to the last bit, arrays and NaN included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "tobytes") and hasattr(one, "dtype"):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return same(one.tolist(), other.tolist()) if one.dtype == object else bool(one.tobytes() == other.tobytes())
    return bool(one == other or (one != one and other != other))


def check_env(make: Callable[[], CodingEnv], *, gymnasium_too: bool = True) -> None:
    """All checks of an environment that this module knows."""
    check_order(make)
    env = make()
    try:
        check_shape(env)
        check_reset(env)
        check_step(env)
        check_episodes(env)
        check_determinism(env)
        check_fork(env)
    finally:
        env.close()
    env.close()
    if HAVE_GYMNASIUM and gymnasium_too:
        check_with_gymnasium(make)


def check_shape(env: CodingEnv) -> None:
    """What every environment has, with the signatures that Gymnasium gives them."""
    for name in ("action_space", "observation_space", "metadata", "render_mode", "spec", "np_random", "np_random_seed"):
        assert hasattr(env, name), f"there is no {name}"
    assert env.unwrapped is env, "unwrapped is something else"
    assert env.metadata["render_fps"] > 0 and "ansi" in env.metadata["render_modes"], "metadata does not say how it renders"
    parameters = inspect.signature(env.reset).parameters
    for name in ("seed", "options"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY, f"reset's {name} is not keyword-only"
        assert parameters[name].default is None, f"reset's {name} has another default than None"
    assert list(inspect.signature(env.step).parameters) == ["action"], "step takes something else than an action"
    for space in (env.action_space, env.observation_space):
        assert space == space and space.sample() in space, f"{space} does not contain what it draws"


def check_reset(env: CodingEnv) -> None:
    """reset() gives a pair, in the space, the same for the same seed; the random generator follows the seed."""
    first = env.reset(seed=123)
    assert type(first) is tuple and len(first) == 2, "reset did not give a pair"
    _check_observation(env, first[0], first[1])
    drawn = _draw(env)
    again = env.reset(seed=123)
    assert same(first, again), "two resets with one seed differ"
    assert _draw(env) == drawn, "np_random does not follow the seed"
    env.reset(seed=456)
    assert _draw(env) != drawn, "np_random is the same for another seed"
    env.reset()
    env.reset(options={})


def check_step(env: CodingEnv) -> None:
    """step() gives five things of the right types."""
    env.reset(seed=1)
    result = env.step(_actions(env)[0])
    assert type(result) is tuple and len(result) == 5, "step did not give five things"
    observation, reward, terminated, truncated, info = result
    assert type(reward) is float and reward == reward, f"the reward is {reward!r}"
    assert type(terminated) is bool and type(truncated) is bool, "terminated or truncated is no bool"
    _check_observation(env, observation, info)


def check_order(make: Callable[[], CodingEnv]) -> None:
    """A step before the first reset and one after the end are errors; a closed environment says that it is closed."""
    env = make()
    action = _actions(env)[0]
    _assert_fails(lambda: env.step(action), "a step before reset")
    env.close()
    _assert_fails(lambda: env.reset(), "a reset after close")


def check_episodes(env: CodingEnv) -> None:
    """An episode ends, a step after that is an error, and after a reset everything is as at first."""
    first = env.reset(seed=5)
    while True:
        _, _, terminated, truncated, info = env.step(_actions(env)[-1])
        if terminated or truncated:
            break
    assert info["pass_rate"] is not None and 0 <= info["pass_rate"] <= 1, "the last step does not know the pass rate"
    _assert_fails(lambda: env.step(_actions(env)[0]), "a step after the end")
    assert same(first, env.reset(seed=5)), "a reset after the end differs from the first"


def check_determinism(env: CodingEnv) -> None:
    """With the virtual clock the same seed and actions give the same of everything, bit for bit."""
    if env.arena.clock == "virtual":
        assert same(_play(env), _play(env)), "two equal episodes under the virtual clock differ"


def check_fork(env: CodingEnv) -> None:
    """A fork goes on from the same state, and the two do not see each other."""
    actions = _actions(env)
    env.reset(seed=9)
    env.step(actions[0])
    with env.fork() as other:
        ahead = [other.step(action)[:4] for action in actions]
    mine = [env.step(action)[:4] for action in actions]
    for one, two in zip(ahead, mine):
        assert same(one[0], two[0]) and one[2:] == two[2:], "a fork went another way than its origin"
        assert env.arena.clock != "virtual" or one[1] == two[1], "a fork's rewards differ"


def check_vector_env(make: Callable[[], CodingVectorEnv]) -> None:
    """The same promises for many environments at once."""
    envs = make()
    try:
        assert envs.unwrapped is envs and envs.num_envs > 0
        first = envs.reset(seed=3)
        assert first[0] in envs.observation_space, "the first observations are not in the space"
        for key in INFO_KEYS:
            assert len(first[1]["_" + key]) == envs.num_envs and all(first[1]["_" + key]), f"infos have no mask for {key}"
        envs.action_space.seed(3)
        played = [envs.step(envs.action_space.sample()) for _ in range(6)]
        for observations, rewards, terminations, truncations, infos in played:
            assert observations in envs.observation_space, "observations are not in the space"
            assert len(rewards) == len(terminations) == len(truncations) == envs.num_envs
        if envs.arena.clock == "virtual":
            assert same(envs.reset(seed=3), first), "two resets with one seed differ"
            envs.action_space.seed(3)
            assert same([envs.step(envs.action_space.sample()) for _ in range(6)], played), "two equal runs differ"
    finally:
        envs.close()
    envs.close()


def check_with_gymnasium(make: Callable[[], CodingEnv]) -> None:
    """gymnasium.utils.env_checker.check_env."""
    from gymnasium.utils.env_checker import check_env as check

    env = make()
    try:
        check(env, skip_render_check=env.spec is None)
    finally:
        env.close()


def _check_observation(env: CodingEnv, observation: Any, info: Dict[str, Any]) -> None:
    assert observation in env.observation_space, f"{observation!r:.200} is not in {env.observation_space}"
    assert type(info) is dict, "info is no dict"
    wanted = INFO_KEYS | (DISCRETE_KEYS if env.arena.action_names else set())
    assert wanted <= info.keys(), f"info has no {', '.join(sorted(wanted - info.keys()))}"
    assert REWARD_KEYS <= info["reward"].keys(), "info does not say what the reward is made of"


def _actions(env: CodingEnv) -> List[Any]:
    """Some actions of which the last one ends the episode."""
    names = env.arena.action_names
    if env.action_space.contains(0):
        tests = next(number for number, name in enumerate(names) if not name.startswith("apply "))
        return [0, tests, len(names) - 1]
    return [{"tool": "list_files"}, '{"tool": "bash", "command": "echo hello"}', {"tool": "submit"}]


def _play(env: CodingEnv) -> List[Tuple[Any, ...]]:
    seen: List[Tuple[Any, ...]] = [env.reset(seed=77)]
    for action in _actions(env):
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def _draw(env: CodingEnv) -> float:
    return float(env.np_random.random())


def _assert_fails(work: Callable[[], Any], what: str) -> None:
    try:
        work()
    except HutchError:
        return
    raise AssertionError(f"{what} is no error")


def main(arguments: List[str]) -> int:
    for task in arguments or ["bugfix_1"]:
        check_env(lambda: CodingEnv(task, clock="virtual"))
        check_env(lambda: CodingEnv(task, clock="virtual", actions="tools"), gymnasium_too=False)
        check_vector_env(lambda: CodingVectorEnv(task, 4, clock="virtual"))
        print(f"{task}: all promises kept, {'with' if HAVE_GYMNASIUM else 'without'} gymnasium")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
