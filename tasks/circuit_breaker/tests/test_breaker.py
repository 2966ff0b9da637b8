import pytest

from breaker import Breaker, Open


class Service:
    """Answers or fails as it is told, and counts its calls."""

    def __init__(self):
        self.calls, self.now, self.works = 0, 100.0, True

    def __call__(self):
        self.calls += 1
        if not self.works:
            raise OSError("down")
        return self.calls


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def breaker(service):
    return Breaker(3, 10.0, lambda: service.now)


def fail(breaker, service, times):
    service.works = False
    for _ in range(times):
        with pytest.raises(OSError):
            breaker.call(service)
    service.works = True


def test_results_go_through(breaker, service):
    assert [breaker.call(service), breaker.call(service)] == [1, 2]
    assert breaker.state == "closed"


def test_failures_go_through(breaker, service):
    fail(breaker, service, 2)
    assert breaker.state == "closed" and service.calls == 2


def test_it_opens_after_so_many_failures(breaker, service):
    fail(breaker, service, 3)
    assert breaker.state == "open"


def test_an_open_breaker_spares_the_service(breaker, service):
    fail(breaker, service, 3)
    with pytest.raises(Open):
        breaker.call(service)
    assert service.calls == 3


def test_it_is_half_open_after_the_pause(breaker, service):
    fail(breaker, service, 3)
    service.now += 9.5
    assert breaker.state == "open"
    service.now += 0.5
    assert breaker.state == "half open"


def test_a_success_closes_it(breaker, service):
    fail(breaker, service, 3)
    service.now += 10.0
    assert breaker.call(service) == 4
    assert breaker.state == "closed"


def test_a_failure_when_half_open_opens_it_for_another_pause(breaker, service):
    fail(breaker, service, 3)
    service.now += 12.0
    fail(breaker, service, 1)
    assert breaker.state == "open"
    service.now += 9.5
    assert breaker.state == "open"
    service.now += 0.5
    assert breaker.state == "half open"


def test_it_opens_again_and_again(breaker, service):
    fail(breaker, service, 3)
    for _ in range(5):
        service.now += 10.0
        fail(breaker, service, 1)
        assert breaker.state == "open"


def test_only_failures_in_a_row_count(breaker, service):
    for _ in range(4):
        fail(breaker, service, 2)
        breaker.call(service)
    assert breaker.state == "closed"


def test_after_closing_it_takes_as_many_failures_as_at_first(breaker, service):
    fail(breaker, service, 3)
    service.now += 10.0
    breaker.call(service)
    fail(breaker, service, 2)
    assert breaker.state == "closed"
    fail(breaker, service, 1)
    assert breaker.state == "open"
