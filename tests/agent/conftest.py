"""Fixtures of the tests of the agent: the scripted model server, and a person's surroundings."""
import pytest

from agent_env import AgentEnv
from model_server import ModelServer


@pytest.fixture
def model_server():
    """A server without a script yet; no request may break a rule of its protocol (clear `server.strict` to allow it)."""
    with ModelServer() as server:
        server.strict = True
        yield server
        if server.strict:
            server.check()


@pytest.fixture
def make_env(make_box, model_server):
    """Surroundings on demand: make_env("user")."""
    made = []

    def make(name):
        made.append(AgentEnv(make_box(name), model_server))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def agent_env(make_env, who):
    """As root, and as an ordinary user."""
    return make_env(who)


@pytest.fixture
def user_env(make_env):
    """As an ordinary user only, for what does not depend on who it is."""
    return make_env("user")
