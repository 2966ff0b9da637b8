"""The bookings of a meeting room."""

from spans import overlap


class Taken(Exception):
    """Somebody else has the room then."""


class Room:
    def __init__(self):
        self._bookings = []

    def book(self, start, end):
        if start >= end:
            raise ValueError("a booking ends after it starts")
        for booking in self._bookings:
            if overlap(booking, (start, end)):
                raise Taken(booking)
        self._bookings.append((start, end))

    def busy(self):
        """When the room is in use, as few spans as can be, in order."""
        spans = []
        for span in self._bookings:
            if spans and overlap(spans[-1], span):
                spans[-1] = (spans[-1][0], max(spans[-1][1], span[1]))
            else:
                spans.append(span)
        return spans
