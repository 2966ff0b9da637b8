import pytest

from pages import page, page_count, pager

TEN = list("abcdefghij")


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def test_count_of_a_list_that_does_not_fill_its_last_page():
    assert same(page_count(10, 4), 3)


def test_count_of_a_list_that_fills_its_last_page():
    assert same(page_count(10, 5), 2)


def test_count_of_pages_with_one_item_each():
    assert same(page_count(7, 1), 7)


def test_an_empty_list_has_one_page():
    assert same(page_count(0, 10), 1)
    assert same(page([], 1, 10), [])


def test_first_page_starts_with_the_first_item():
    assert same(page(TEN, 1, 4), ["a", "b", "c", "d"])


def test_last_page_holds_what_is_left():
    assert same(page(TEN, 3, 4), ["i", "j"])


def test_pages_together_are_the_list():
    for size in range(1, 12):
        pages = [page(TEN, number, size) for number in range(1, page_count(10, size) + 1)]
        assert same(sum(pages, []), TEN)
        assert all(pages), f"an empty page of size {size}"


def test_no_page_after_the_last():
    with pytest.raises(IndexError):
        page(TEN, 3, 5)


def test_no_page_zero():
    with pytest.raises(IndexError):
        page(TEN, 0, 5)


def test_pager_of_a_page_in_the_middle():
    assert same(pager(TEN, 2, 4), (1, 3))


def test_pager_of_the_last_full_page():
    assert same(pager(TEN, 2, 5), (1, None))
