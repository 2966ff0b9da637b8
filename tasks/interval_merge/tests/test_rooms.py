import pytest

from rooms import Room, Taken
from spans import overlap


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def booked(*spans):
    room = Room()
    for start, end in spans:
        room.book(start, end)
    return room


def test_overlap_of_spans_that_share_a_moment():
    assert overlap((9, 11), (10, 12)) is True
    assert overlap((9, 12), (10, 11)) is True


def test_no_overlap_of_spans_that_only_touch():
    assert overlap((9, 10), (10, 11)) is False
    assert overlap((10, 11), (9, 10)) is False


def test_a_free_room_is_not_busy():
    assert same(Room().busy(), [])


def test_one_booking():
    assert same(booked((9, 10)).busy(), [(9, 10)])


def test_a_gap_is_kept():
    assert same(booked((9, 10), (11, 12)).busy(), [(9, 10), (11, 12)])


def test_one_right_after_the_other_can_be_booked():
    booked((9, 10), (10, 11), (8, 9))


def test_two_at_a_time_cannot():
    room = booked((9, 11))
    for span in (9, 11), (8, 10), (10, 12), (8, 12), (9, 10):
        with pytest.raises(Taken):
            room.book(*span)
    assert same(room.busy(), [(9, 11)])


def test_bookings_that_touch_are_one_busy_span():
    assert same(booked((9, 10), (10, 11)).busy(), [(9, 11)])


def test_busy_spans_come_in_order():
    assert same(booked((14, 15), (9, 10)).busy(), [(9, 10), (14, 15)])


def test_bookings_in_any_order_become_one_span():
    assert same(booked((11, 12), (9, 10), (10, 11), (15, 16)).busy(), [(9, 12), (15, 16)])


def test_asking_changes_nothing():
    room = booked((10, 11), (9, 10))
    assert same(room.busy(), room.busy())
    with pytest.raises(Taken):
        room.book(9, 10)


def test_an_empty_booking_is_refused():
    with pytest.raises(ValueError):
        Room().book(9, 9)
