"""Learns to solve a task by Q-learning, in plain Python: python3 train.py [TASK [EPISODES]]"""
import random
import sys
from collections import defaultdict

from hutch.gym import CodingEnv

task = sys.argv[1] if len(sys.argv) > 1 else "bugfix_1"
episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
env = CodingEnv(task, clock="virtual")
values = defaultdict(lambda: [0.0] * int(env.action_space.n))
rng = random.Random(0)


def episode(epsilon):
    state, done, total, names = tuple(env.reset(seed=0)[0]), False, 0.0, []
    while not done:
        row = values[state]
        action = rng.randrange(len(row)) if rng.random() < epsilon else row.index(max(row))
        observation, reward, terminated, truncated, info = env.step(action)
        after, done = tuple(observation), terminated or truncated
        row[action] += 0.5 * (reward + (0.0 if done else 0.98 * max(values[after])) - row[action])
        state, total, names = after, total + reward, names + [info["action_names"][action]]
    return total, info["pass_rate"], names


for number in range(episodes):
    episode(max(0.05, 1 - 2 * number / episodes))
total, pass_rate, names = episode(epsilon=0)
print(f"learnt: return {total:.3f}, pass rate {pass_rate:.0%}: {', '.join(names)}")
