"""The gym, boxes and sessions of a server, from Python."""
import sys

import harness
import pytest

sys.path.insert(0, str(harness.REPO / "tests" / "serve"))

from live_server import nothing_left_running, server  # noqa: E402,F401 (fixtures)

import hutch.gym  # noqa: E402
from hutch.client import ServerError  # noqa: E402

TASK = "bugfix_1"


@pytest.fixture(scope="module")
def client(server):
    with server.client("pia") as client:
        yield client
        client.gym(TASK).close()


def test_remote_environment_plays_as_one_here(client):
    here, there = hutch.gym.CodingEnv(TASK, clock="virtual"), hutch.gym.RemoteEnv(client, TASK, clock="virtual")
    assert there.action_space.n == here.action_space.n
    assert list(there.observation_space.nvec) == list(here.observation_space.nvec)
    (seen, info), (expected, known) = there.reset(seed=3), here.reset(seed=3)
    assert list(seen) == list(expected) and info["text"] == known["text"]
    for action in (0, here.action_space.n - 2, 1, here.action_space.n - 1):
        result, wanted = there.step(action), here.step(action)
        assert list(result[0]) == list(wanted[0]) and result[1:4] == wanted[1:4]
        assert result[4]["text"] == wanted[4]["text"] and result[4]["calls"] == wanted[4]["calls"]
        assert list(result[4]["action_mask"]) == list(wanted[4]["action_mask"])
    assert result[2]
    there.close()
    here.close()


def test_remote_vector_environment_begins_the_next_episode(client):
    envs = hutch.gym.RemoteVectorEnv(client, TASK, 16, clock="virtual")
    submit = envs.single_action_space.n - 1
    first, _ = envs.reset(seed=1)
    patched, rewards, ended, cut, infos = envs.step([0] * 16)
    assert all(row[0] == 1 for row in patched) and not any(ended) and all(reward < 0 for reward in rewards)
    _, rewards, ended, _, _ = envs.step([submit] * 8 + [0] * 8)
    assert list(ended) == [True] * 8 + [False] * 8
    again, rewards, ended, _, _ = envs.step([submit] * 16)
    assert [list(row) for row in again[:8]] == [list(row) for row in first[:8]] and list(rewards[:8]) == [0.0] * 8
    assert list(ended) == [False] * 8 + [True] * 8
    envs.close()
    assert client.gym(TASK).envs() == []


def test_task_without_a_discrete_view_is_refused(client):
    with pytest.raises(ServerError):
        hutch.gym.RemoteEnv(client, "nothing")
    env = hutch.gym.RemoteEnv(client, TASK)
    with pytest.raises(ValueError, match="there is no action 99"):
        env.step(99)


def test_box_runs_commands_and_has_files(client):
    with client.boxes.new(title="mine", memory="256M") as box:
        assert box.id in [one.id for one in client.boxes.list(state="running")]
        box.write("src/a.py", "print('a')\n")
        done = box.exec(["python3", "src/a.py"], check=True)
        assert done.stdout == "a\n" and done.ok
        assert box.exec("echo $X; cat", env={"X": "1"}, stdin="in").stdout == "1\nin"
        with pytest.raises(hutch.CommandFailed):
            box.exec("exit 3", check=True)
        assert box.read("src/a.py") == b"print('a')\n"
        assert "src/a.py" in [change.path for change in box.changes()] and b"+print" in box.diff()
        assert [name for name, _ in box.stream("echo one; echo two")][-1] == "result"
        assert "print" in box.tool("read_file", path="src/a.py").text
        begun = box.snapshot("begun")
        box.write("src/a.py", "print('b')\n")
        (fork,) = box.fork()
        box.restore(begun)
        assert box.exec("python3 src/a.py").stdout == "a\n" and fork.exec("python3 src/a.py").stdout == "b\n"
        assert [one.name for one in box.snapshots() if one.id == begun.id] == ["begun"]
        fork.close()
    with pytest.raises(ServerError):
        box.exec("true")


def test_terminal_of_a_box(client):
    with client.boxes.new() as box:
        with box.terminal() as terminal:
            terminal.resize(100, 40)
            terminal.send("stty size; echo do''ne\n")
            said = b""
            while b"done" not in said:
                said += terminal.receive(120)
            assert b"40 100" in said
        with box.terminal(id=terminal.id) as again:
            said = b""
            while b"done" not in said:
                said += again.receive(120)
            again.send("exit\n")
            while again.receive(120):
                pass


def test_session_begins_and_ends(client):
    with client.sessions.new(title="mine") as session:
        assert session.id in [one.id for one in client.sessions.list()]
        assert session.refresh().data["title"] == "mine"
    with pytest.raises(ServerError):
        session.state()
