from datetime import date

from months import add_months, days_in


def test_2100_is_no_leap_year():
    assert str(add_months(date(2100, 1, 31), 1)) == "2100-02-28"


def test_2000_was_a_leap_year():
    assert str(add_months(date(2000, 1, 31), 1)) == "2000-02-29"


def test_every_month_of_four_centuries_has_the_days_of_the_calendar():
    for year in range(1890, 2290):
        for month in range(1, 13):
            after = date(year + month // 12, month % 12 + 1, 1)
            assert days_in(year, month) == (after - date(year, month, 1)).days


def test_there_and_back():
    for months in range(-30, 30):
        there = add_months(date(2023, 6, 15), months)
        assert add_months(there, -months) == date(2023, 6, 15)
