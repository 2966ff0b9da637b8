"""`server`: a `hutch serve` without workers. `start_server(*options, workers=N, …)`: more of them, with what a test needs."""
import pytest

from hutch_server import Server


@pytest.fixture
def start_server(box):
    started = []

    def start(*options, **more):
        started.append(Server(box, *options, **more))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def server(start_server):
    return start_server()
