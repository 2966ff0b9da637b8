"""Counting in months, for contracts that run from one day of a month to the same day of another."""

import datetime


def days_in(year, month):
    if month == 2:
        return 29 if year % 4 == 0 else 28
    return 30 if month in (4, 6, 9, 11) else 31


def add_months(day, months):
    """The same day so many months later, or earlier; the last of the month where it has no such day."""
    count = day.month + months
    return datetime.date(day.year + count // 12, count % 12, min(day.day, 28))


def due_dates(start, count):
    """The first days of `count` months of a contract."""
    return [add_months(start, number) for number in range(count)]
