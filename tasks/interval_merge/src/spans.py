"""Spans of time, [start, end): the end is no part of it."""


def overlap(one, other):
    """Whether there is a moment that both contain."""
    return one[0] < other[1] and other[0] < one[1]
