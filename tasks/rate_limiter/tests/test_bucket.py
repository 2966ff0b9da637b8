import pytest

from bucket import Bucket


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self, now=5_000):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def granted(bucket, clock, every, times):
    """How many of so many requests, one every so many milliseconds, may go on."""
    answers = []
    for _ in range(times):
        clock.now += every
        answers.append(bucket.take())
    assert all(type(answer) is bool for answer in answers)
    return sum(answers)


def test_a_burst_is_granted_at_once(clock):
    bucket = Bucket(10, 3, clock)
    assert granted(bucket, clock, 0, 5) == 3


def test_a_full_second_brings_the_rate(clock):
    bucket = Bucket(2, 2, clock)
    granted(bucket, clock, 0, 2)
    clock.now += 1000
    assert granted(bucket, clock, 0, 5) == 2


def test_tokens_do_not_pile_up_beyond_the_burst(clock):
    bucket = Bucket(10, 3, clock)
    clock.now += 60_000
    assert granted(bucket, clock, 0, 10) == 3


def test_a_token_comes_when_it_is_due_and_not_before(clock):
    bucket = Bucket(4, 1, clock)
    assert bucket.take() is True
    clock.now += 249
    assert bucket.take() is False
    clock.now += 1
    assert bucket.take() is True


def test_impatient_clients_get_their_rate_too(clock):
    bucket = Bucket(10, 2, clock)
    assert bucket.take(2) is True
    assert granted(bucket, clock, 30, 100) == 30


def test_a_client_every_millisecond_gets_the_rate(clock):
    bucket = Bucket(3, 2, clock)
    assert bucket.take(2) is True
    assert granted(bucket, clock, 1, 10_000) == 30


def test_the_rate_holds_for_odd_intervals(clock):
    bucket = Bucket(3, 5, clock)
    granted(bucket, clock, 0, 5)
    assert granted(bucket, clock, 7, 3_000) == 63


def test_a_full_bucket_saves_no_time(clock):
    bucket = Bucket(4, 1, clock)
    clock.now += 999
    assert granted(bucket, clock, 0, 2) == 1
    clock.now += 1
    assert bucket.take() is False


def test_a_request_may_take_several(clock):
    bucket = Bucket(1, 5, clock)
    assert bucket.take(4) is True
    assert bucket.take(2) is False
    assert bucket.take(1) is True


def test_a_refused_request_costs_nothing(clock):
    bucket = Bucket(1, 2, clock)
    assert bucket.take(3) is False
    assert bucket.take(2) is True
