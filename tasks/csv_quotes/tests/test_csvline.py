import pytest

from csvline import CsvError, split


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def test_plain_fields():
    assert same(split("a,b,c"), ["a", "b", "c"])


def test_empty_fields_are_kept():
    assert same(split(",a,,"), ["", "a", "", ""])


def test_an_empty_line_is_one_empty_field():
    assert same(split(""), [""])


def test_a_comma_in_quotes_is_text():
    assert same(split('"Doe, Jane",1970'), ["Doe, Jane", "1970"])


def test_an_empty_quoted_field():
    assert same(split('"",x'), ["", "x"])


def test_two_quotes_in_quotes_are_one():
    assert same(split('"say ""hi""!",2'), ['say "hi"!', "2"])


def test_a_doubled_quote_at_the_end_of_a_field():
    assert same(split('"5"" disk",x'), ['5" disk', "x"])
    assert same(split('"disk of 5""",x'), ['disk of 5"', "x"])


def test_a_field_of_nothing_but_quotes():
    assert same(split('""""'), ['"'])
    assert same(split('"""""",x'), ['""', "x"])


def test_a_comma_after_a_doubled_quote_is_text():
    assert same(split('"a"",b",c'), ['a",b', "c"])


def test_a_quote_inside_of_a_plain_field_is_an_error():
    with pytest.raises(CsvError, match="^column 2: "):
        split('a"b"')


def test_a_line_that_ends_within_quotes_is_an_error():
    with pytest.raises(CsvError, match="^column 5: "):
        split('"abc')
    with pytest.raises(CsvError, match="^column 6: "):
        split('"ab""')
