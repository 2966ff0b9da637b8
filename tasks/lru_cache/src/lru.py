"""A cache of bounded size that forgets what was not used for the longest time."""


class Cache:
    def __init__(self, room):
        if room < 1:
            raise ValueError("a cache needs room for one item at least")
        self._room = room
        self._items = {}  # the one used longest ago comes first

    def __len__(self):
        return len(self._items)

    def __contains__(self, key):
        """Looking whether a key is there is not a use of it."""
        return key in self._items

    def get(self, key, default=None):
        return self._items.get(key, default)

    def put(self, key, value):
        self._items.pop(key, None)
        self._items[key] = value
        if len(self._items) > self._room:
            del self._items[next(iter(self._items))]
