import io

import pytest

from fields import main

LINES = "a:b:c:d\ne:f\n"


def fields(*arguments, lines=LINES):
    """Runs the program; gives what it printed."""
    target, errors = io.StringIO(), io.StringIO()
    status = main(list(arguments), io.StringIO(lines), target, errors)
    assert status == 0 and type(status) is int
    assert errors.getvalue() == ""
    return target.getvalue()


def refused(*arguments):
    """Runs the program, which should not like its command line; gives its one line about it."""
    target, errors = io.StringIO(), io.StringIO()
    assert main(list(arguments), io.StringIO(LINES), target, errors) == 2
    assert target.getvalue() == ""
    (line,) = errors.getvalue().splitlines()
    assert line.startswith("fields: ")
    return line


def test_one_field():
    assert fields("2", "-d", ":") == "b\nf\n"


def test_fields_in_the_order_of_the_list():
    assert fields("3,1", "-d", ":") == "c:a\ne\n"


def test_a_range():
    assert fields("2-3", "-d", ":") == "b:c\nf\n"


def test_tabs_are_the_default():
    assert fields("2", lines="x y\tz\n") == "z\n"


def test_a_line_with_too_few_fields_is_an_empty_line():
    assert fields("3", "-d", ":") == "c\n\n"


def test_a_range_without_end_goes_to_the_end_of_the_line():
    assert fields("2-", "-d", ":") == "b:c:d\nf\n"


def test_a_range_without_start_begins_with_the_first():
    assert fields("-2", "-d", ":") == "a:b\ne:f\n"


def test_open_ranges_among_others():
    assert fields("4,-1,3-", "-d", ":") == "d:a:c:d\ne\n"


def test_a_range_without_end_of_a_long_line():
    line = ":".join(map(str, range(1, 2001)))
    assert fields("1998-", "-d", ":", lines=line + "\n") == "1998:1999:2000\n"


@pytest.mark.parametrize("bad", ["", "-", "x", "1,", "1-2-3", "1--", "2-x", "+1", "1 "])
def test_a_bad_list_is_refused(bad):
    assert "bad field list" in refused(bad, "-d", ":")


@pytest.mark.parametrize("bad", ["0", "0-2", "3-2", "-0"])
def test_fields_count_from_one_and_ranges_go_up(bad):
    assert "bad field list" in refused(bad, "-d", ":")


def test_a_delimiter_is_one_character():
    assert "-d" in refused("1", "-d", "::")
    assert "-d" in refused("1", "-d")


def test_without_a_list_it_says_how_it_is_used():
    assert "usage" in refused()
