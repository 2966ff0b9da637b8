"""The chat's tests use the surroundings and the scripted model of the agent's tests."""
import importlib.util
import sys
from pathlib import Path

import pytest

AGENT = Path(__file__).resolve().parent.parent / "agent"
sys.path.insert(0, str(AGENT))

_spec = importlib.util.spec_from_file_location("agent_conftest", AGENT / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
model_server, make_env = _fixtures.model_server, _fixtures.make_env
agent_env, user_env = _fixtures.agent_env, _fixtures.user_env


@pytest.fixture
def open_chat():
    """Chats on demand, each on a terminal of its own; ended with the test."""
    from chat_screen import ChatScreen  # needs what lies beside the agent's tests

    opened = []

    def make(env, *opts, **more):
        opened.append(ChatScreen(env, *opts, **more))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
