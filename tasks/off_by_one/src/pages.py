"""Cutting a long list into pages, as the web front end shows them. The first page has number 1."""


def page_count(items, size):
    """How many pages there are. A list without items has one page, which is empty."""
    return items // size + 1


def page(items, number, size):
    """The items of one page."""
    if not 1 <= number <= page_count(len(items), size):
        raise IndexError(f"there is no page {number}")
    start = (number - 1) * size
    return items[start:start + size]


def pager(items, number, size):
    """The numbers of the pages before and after this one; None where there is none."""
    last = page_count(len(items), size)
    return (number - 1 if number > 1 else None, number + 1 if number < last else None)
