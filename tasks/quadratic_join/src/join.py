"""Joining two tables, which are lists of dicts, on a column that both have."""


def join(left, right, column):
    """One row for each pair of rows that agree in the column: in the order of `left`, then of `right`."""
    return [{**one, **other} for one in left for other in right if one[column] == other[column]]
