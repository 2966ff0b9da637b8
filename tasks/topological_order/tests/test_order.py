import random

import pytest

from order import Cycle, build_order


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def test_nothing_to_do():
    assert same(build_order({}), [])


def test_a_chain():
    assert same(build_order({3: [2], 2: [1], 1: []}), [1, 2, 3])


def test_a_step_that_is_only_needed_is_done():
    assert same(build_order({2: [1]}), [1, 2])


def test_small_numbers_happen_to_come_in_order():
    assert same(build_order({1: [], 2: [], 3: []}), [1, 2, 3])


def test_large_numbers_come_in_order():
    assert same(build_order({64: [], 9: [], 33: [], 1: []}), [1, 9, 33, 64])


def test_negative_numbers_come_first():
    assert same(build_order({1: [], -3: [], -8: [], 0: []}), [-8, -3, 0, 1])


def test_a_step_that_becomes_ready_takes_its_turn():
    assert same(build_order({40: [], 50: [], 8: [40], 16: [8]}), [40, 8, 16, 50])


def test_a_diamond():
    assert same(build_order({100: [32, 17], 32: [5], 17: [5], 5: []}), [5, 17, 32, 100])


def test_how_it_is_written_down_does_not_matter():
    steps = [(step, [before for before in (step // 2, step // 3) if before]) for step in range(1, 80)]
    want = build_order(dict(steps))
    for seed in range(20):
        random.Random(seed).shuffle(steps)
        assert same(build_order(dict(steps)), want)
    assert same(want, list(range(1, 80)))


def test_one_more_step_moves_no_other():
    needs = {step * 11 % 97: [] for step in range(1, 20)}
    before = build_order(needs)
    after = build_order({**needs, 1000: []})
    assert same(before, sorted(needs))
    assert same(after, before + [1000])


def test_what_is_given_is_not_changed():
    needs = {2: [1], 1: []}
    build_order(needs)
    assert needs == {2: [1], 1: []}


def test_a_cycle_is_refused():
    with pytest.raises(Cycle) as caught:
        build_order({1: [], 2: [1, 3], 3: [2]})
    assert caught.value.args == ([2, 3],)


def test_a_step_that_needs_itself_is_refused():
    with pytest.raises(Cycle):
        build_order({1: [1]})
