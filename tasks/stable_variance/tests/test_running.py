from math import isclose

from running import Running

SAMPLE = [4.0, 7.0, 13.0, 16.0]


def measured(values):
    running = Running()
    for value in values:
        running.push(value)
    assert type(running.mean) is float and type(running.variance) is float
    return running


def test_nothing_was_measured():
    assert measured([]).count == 0
    assert measured([]).mean == 0.0
    assert measured([]).variance == 0.0


def test_one_value_does_not_vary():
    assert measured([5.0]).variance == 0.0
    assert measured([5.0]).mean == 5.0


def test_mean():
    assert isclose(measured(SAMPLE).mean, 10.0)


def test_variance_of_a_sample():
    assert isclose(measured(SAMPLE).variance, 30.0)


def test_mean_far_from_zero():
    assert isclose(measured(1e9 + value for value in SAMPLE).mean, 1e9 + 10.0)


def test_variance_far_from_zero():
    assert isclose(measured(1e9 + value for value in SAMPLE).variance, 30.0, rel_tol=1e-6)


def test_variance_far_below_zero():
    assert isclose(measured(value - 1e9 for value in SAMPLE).variance, 30.0, rel_tol=1e-6)


def test_equal_values_do_not_vary():
    assert measured([1e8 + 0.1] * 1000).variance < 1e-9


def test_a_jump_within_the_stream():
    assert isclose(measured([0.0, 1e6, 0.0, 1e6]).variance, 1e12 / 3)


def test_variance_is_known_after_every_value():
    running = Running()
    seen = []
    for value in (1e9 + 1, 1e9 + 2, 1e9 + 3):
        running.push(value)
        seen.append(round(running.variance, 6))
    assert seen == [0.0, 0.5, 1.0]
