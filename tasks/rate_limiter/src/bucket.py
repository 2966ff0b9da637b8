"""A token bucket: so many requests per second, with bursts up to its size. Times are whole milliseconds."""


class Bucket:
    def __init__(self, per_second, burst, clock):
        """clock() gives the milliseconds since whenever; it never goes back."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock()

    def _fill(self):
        now = self._clock()
        fresh = (now - self._filled_at) * self._per_second // 1000
        self._tokens = min(self._burst, self._tokens + fresh)
        self._filled_at = now

    def take(self, tokens=1):
        """Whether a request may go on now. One that may not costs nothing."""
        self._fill()
        if tokens > self._tokens:
            return False
        self._tokens -= tokens
        return True
