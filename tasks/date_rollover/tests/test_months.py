from datetime import date

from months import add_months, due_dates


def same(got, want):
    """Equal, and of the same type."""
    return type(got) is type(want) and got == want


def test_the_same_day_of_the_next_month():
    assert same(add_months(date(2023, 3, 15), 1), date(2023, 4, 15))


def test_no_months_are_no_change():
    assert same(add_months(date(2023, 1, 31), 0), date(2023, 1, 31))


def test_a_long_month_keeps_its_last_day():
    assert same(add_months(date(2023, 7, 31), 1), date(2023, 8, 31))


def test_a_short_month_ends_earlier():
    assert same(add_months(date(2023, 3, 31), 1), date(2023, 4, 30))
    assert same(add_months(date(2023, 1, 30), 1), date(2023, 2, 28))


def test_february_of_a_leap_year():
    assert same(add_months(date(2024, 1, 31), 1), date(2024, 2, 29))


def test_november_to_december():
    assert same(add_months(date(2023, 11, 5), 1), date(2023, 12, 5))


def test_december_to_january():
    assert same(add_months(date(2023, 12, 5), 1), date(2024, 1, 5))


def test_years_forward():
    assert same(add_months(date(2020, 2, 29), 48), date(2024, 2, 29))


def test_back_over_the_new_year():
    assert same(add_months(date(2023, 1, 31), -2), date(2022, 11, 30))


def test_due_dates_come_back_to_the_31st():
    assert [str(day) for day in due_dates(date(2022, 12, 31), 4)] == [
        "2022-12-31", "2023-01-31", "2023-02-28", "2023-03-31"]
