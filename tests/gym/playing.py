"""Playing episodes through tests/unit/gym/gym_run: one JSON line for each thing that is done."""
import json
import subprocess


class Gym:
    """One program with one arena, and environments by number."""

    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, what, env=0, **more):
        self.process.stdin.write(json.dumps({"do": what, "env": env, **more}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        return json.loads(line)

    def reset(self, env=0, seed=7):
        return self.ask("reset", env, seed=seed)

    def step(self, tool, env=0, **input):
        return self.ask("step", env, tool=tool, input=input)

    def act(self, number, env=0):
        return self.ask("act", env, number=number)

    def play(self, actions, env=0, seed=7):
        """An episode; an action is a number, or a tool and its input. All answers, reset's first."""
        answers = [self.reset(env, seed)]
        for action in actions:
            answers.append(self.act(action, env) if isinstance(action, int) else self.step(action[0], env, **action[1]))
        return answers

    def look(self, env=0):
        return self.ask("look", env)

    def counts(self):
        return self.ask("counts")

    def close(self):
        """Ends the program as it should end; what it said on the way."""
        said = self.process.communicate(timeout=300)[1].decode()
        assert self.process.returncode == 0, said
        return said


def seen(answer):
    """What an agent sees of a step."""
    return answer["step"]["observation"]


def outcomes(answer):
    """{name: outcome} of a run of the tests."""
    assert "tests" in seen(answer)["data"], answer
    return {test["name"]: test["outcome"] for test in seen(answer)["data"]["tests"]}


def text(answer):
    return seen(answer)["text"]
