"""The gym in OpenEnv's shape, with the messages that OpenEnv's clients send and expect."""
import base64
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import jsonschema
import pytest

from live_server import nothing_left_running, server  # noqa: F401 (fixtures)

from hutch.client import Client, ServerError
from hutch.client._websocket import WebSocket, WebSocketClosed

TASK = "bugfix_1"
BASE = f"/v1/gym/{TASK}/openenv"


@pytest.fixture
def transport(server):
    client = server.client("olga")
    yield client.transport
    client.gym(TASK).close()


class Socket:
    """What OpenEnv's client does on its connection."""

    def __init__(self, transport):
        self.socket = WebSocket(transport, BASE + "/ws", timeout=120)

    def ask(self, message):
        self.socket.send(message if isinstance(message, str) else json.dumps(message))
        return json.loads(self.socket.receive(120))

    def result(self, message):
        """{"observation", "reward", "done"}, exactly."""
        answer = self.ask(message)
        assert set(answer) == {"type", "data"} and answer["type"] == "observation", answer
        return checked(answer["data"])

    def error(self, message):
        answer = self.ask(message)
        assert set(answer) == {"type", "data"} and answer["type"] == "error", answer
        assert isinstance(answer["data"]["message"], str)
        return answer["data"]["code"]

    def state(self):
        answer = self.ask({"type": "state"})
        assert set(answer) == {"type", "data"} and answer["type"] == "state", answer
        return answer["data"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def checked(result):
    assert set(result) == {"observation", "reward", "done"}, result
    assert isinstance(result["observation"], dict) and isinstance(result["done"], bool)
    assert result["reward"] is None or isinstance(result["reward"], float)
    assert not {"done", "reward", "metadata"} & set(result["observation"])
    return result


def test_episode_over_a_websocket(transport):
    with Socket(transport) as env:
        assert env.state() == {"episode_id": None, "step_count": 0}
        began = env.result({"type": "reset", "data": {"seed": 7, "episode_id": "mine", "clock": "virtual"}})
        assert began["reward"] is None and not began["done"] and began["observation"]["text"]
        first = env.result({"type": "step", "data": {"action": 0, "metadata": {}}})
        assert first["reward"] == pytest.approx(-0.011) and first["observation"]["features"][0] == 1
        listed = env.result({"type": "step", "data": {"tool": "bash", "command": "ls", "metadata": {}, "action": None}})
        assert "src" in listed["observation"]["text"]
        assert {k: env.state()[k] for k in ("episode_id", "step_count", "seed", "task")} == {
            "episode_id": "mine", "step_count": 2, "seed": 7, "task": TASK}
        last = env.result({"type": "step", "data": {"tool": "submit"}})
        assert last["done"] and last["observation"]["terminated"]
        assert env.error({"type": "step", "data": {"tool": "submit"}}) == "EXECUTION_ERROR"
        again = env.result({"type": "reset"})
        assert not again["done"] and env.state()["step_count"] == 0 and env.state()["episode_id"] != "mine"


def test_mistakes_are_error_messages(transport):
    with Socket(transport) as env:
        assert env.error("{") == "INVALID_JSON"
        assert env.error({"type": "jump"}) == "UNKNOWN_TYPE"
        assert env.error([1]) == "UNKNOWN_TYPE"
        assert env.error({"type": "step"}) == "VALIDATION_ERROR"
        assert env.error({"type": "step", "data": {"tool": "submit"}}) == "EXECUTION_ERROR"
        env.result({"type": "reset", "data": {}})
        assert env.error({"type": "step", "data": {}}) == "VALIDATION_ERROR"
        assert env.error({"type": "step", "data": {"action": 99}}) == "EXECUTION_ERROR"
        assert env.result({"type": "step", "data": {"action": 0}})["reward"] < 0
        env.socket.send(json.dumps({"type": "close"}))
        with pytest.raises(WebSocketClosed) as closed:
            env.socket.receive(120)
        assert closed.value.code == 1000


def test_each_connection_has_an_environment_that_ends_with_it(transport):
    task = Client(transport.server, transport._key).gym(TASK)

    def play(number):
        with Socket(transport) as env:
            env.result({"type": "reset", "data": {"seed": number}})
            said = env.result({"type": "step", "data": {"tool": "bash", "command": f"echo {number} >n; cat n"}})
            return said["observation"]["text"].split()[0], env.state()["env"]

    with ThreadPoolExecutor(6) as pool:
        played = list(pool.map(play, range(6)))
    assert [text for text, _ in played] == [str(number) for number in range(6)]
    assert len({env for _, env in played}) == 6
    for _ in range(600):  # each is a request
        if not task.envs():
            break
    assert task.envs() == []


def test_requests_share_an_environment(transport):
    def post(below, value):
        return checked(transport.json("POST", f"{BASE}/{below}", value=value, timeout=300))

    state = transport.json("GET", BASE + "/state")
    assert state == {"episode_id": None, "step_count": 0}
    with pytest.raises(ServerError) as early:
        post("step", {"action": {"tool": "submit"}})
    assert early.value.status == 404 and "reset" in early.value.detail
    assert post("reset", {})["reward"] is None
    assert post("step", {"action": {"action": 0}, "timeout_s": 60.0, "request_id": "r"})["reward"] < 0
    assert transport.json("GET", BASE + "/state")["step_count"] == 1
    assert post("step", {"action": {"tool": "submit"}})["done"]
    for wrong in ({}, {"action": 0}, {"action": {}, "timeout_s": 0}):
        with pytest.raises(ServerError) as refused:
            post("step", wrong)
        assert refused.value.status == 422


def test_descriptions(transport, server):
    metadata, schema = transport.json("GET", BASE + "/metadata"), transport.json("GET", BASE + "/schema")
    assert metadata["name"] == TASK and isinstance(metadata["description"], str)
    assert set(metadata) <= {"name", "description", "readme_content", "version", "author", "documentation_url"}
    assert set(schema) == {"action", "observation", "state"}
    for part in schema.values():
        jsonschema.Draft202012Validator.check_schema(part)
    jsonschema.validate({"tool": "bash", "command": "ls"}, schema["action"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tool": "git_push"}, schema["action"])
    with Socket(transport) as env:
        jsonschema.validate(env.state(), schema["state"])
        jsonschema.validate(env.result({"type": "reset"})["observation"], schema["observation"])
    described = transport.json("GET", BASE + "/openapi.json")
    assert described["info"]["version"].startswith("1.") and {"/reset", "/step", "/state"} <= set(described["paths"])
    assert transport.json("POST", BASE + "/mcp", value={})["jsonrpc"] == "2.0"
    anybody = Client(server.url, "").transport
    assert anybody.json("GET", BASE + "/health") == {"status": "healthy"}


def test_key_as_a_password(server):
    """OpenEnv's clients take a URL and nothing else."""
    address, key = urlsplit(server.url), server.key_for("olga")
    for password, status in ((key, 200), (key + "x", 401), ("", 401)):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        connection.request("GET", BASE + "/metadata", headers={
            "Authorization": "Basic " + base64.b64encode(f"key:{password}".encode()).decode()})
        assert connection.getresponse().status == status
        connection.close()


def test_nobody_gets_a_websocket_without_a_key(server):
    with pytest.raises((ServerError, WebSocketClosed)) as refused:
        socket = WebSocket(Client(server.url, "").transport, BASE + "/ws", timeout=120)
        socket.receive(120)
    assert getattr(refused.value, "status", None) == 401 or refused.value.code == 4401
