"""A circuit breaker: it spares a service that keeps failing.

    closed     calls go through; `limit` failures in a row open it
    open       calls are refused at once; after `pause` seconds it is half open
    half open  one call goes through: if it succeeds the breaker closes, if it fails it is open for another pause
"""


class Open(Exception):
    """The service is being spared."""


class Breaker:
    def __init__(self, limit, pause, clock):
        self._limit, self._pause, self._clock = limit, pause, clock
        self._failures = 0
        self._opened_at = None

    @property
    def state(self):
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() < self._opened_at + self._pause else "half open"

    def call(self, function):
        if self.state == "open":
            raise Open()
        try:
            result = function()
        except Exception:
            self._failed()
            raise
        self._opened_at = None
        return result

    def _failed(self):
        self._failures += 1
        if self._failures == self._limit:
            self._opened_at = self._clock()
