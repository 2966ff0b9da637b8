import pytest

from pointer import NotThere, parse, resolve

DOCUMENT = {"orders": [{"item": "tea"}, {"item": "jam"}], "": 0, "a/b": 1, "m~n": 2, "~1": 3, "7": "seven", "no": None}


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def test_the_empty_pointer_is_the_document():
    assert resolve(DOCUMENT, "") is DOCUMENT


def test_members_and_elements():
    assert same(resolve(DOCUMENT, "/orders/1/item"), "jam")


def test_an_empty_name():
    assert same(parse("/"), [""])
    assert same(resolve(DOCUMENT, "/"), 0)


def test_null_is_a_value():
    assert resolve(DOCUMENT, "/no") is None


def test_a_slash_in_a_name():
    assert same(resolve(DOCUMENT, "/a~1b"), 1)


def test_a_tilde_in_a_name():
    assert same(resolve(DOCUMENT, "/m~0n"), 2)


def test_a_tilde_before_a_one():
    assert same(parse("/~01"), ["~1"])
    assert same(resolve(DOCUMENT, "/~01"), 3)


def test_escapes_in_a_row():
    assert same(parse("/~0~1~00~11/~1~01"), ["~/~0/1", "/~1"])


def test_digits_may_be_a_name():
    assert same(resolve(DOCUMENT, "/7"), "seven")


@pytest.mark.parametrize("pointer", ["/orders/2", "/orders/99", "/orders/-1", "/orders/x", "/orders/", "/none", "/7/0"])
def test_places_that_are_not_there(pointer):
    with pytest.raises(NotThere):
        resolve(DOCUMENT, pointer)


def test_a_pointer_without_slash_is_refused():
    with pytest.raises(ValueError):
        resolve(DOCUMENT, "orders")
