"""Values that are loaded once, however many ask for them at the same time.

Everything that waits is a generator: it yields while there is nothing to do, and a scheduler that is none of our
business resumes it later, in whatever order it likes.
"""


class Flights:
    def __init__(self, load):
        """load(key) is a generator that yields while it waits and returns the value."""
        self._load = load
        self._values = {}

    def get(self, key):
        """A generator, too: it returns the value, or raises what loading raised. Only values are kept, not errors."""
        if key not in self._values:
            value = yield from self._load(key)
            self._values[key] = value
        return self._values[key]

    def forget(self, key):
        """The next one to ask loads anew."""
        self._values.pop(key, None)
