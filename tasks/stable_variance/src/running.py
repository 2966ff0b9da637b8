"""Mean and variance of a stream of measurements, of which only sums are kept."""


class Running:
    def __init__(self):
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0

    def push(self, value):
        self.count += 1
        self._sum += value
        self._squares += value * value

    @property
    def mean(self):
        return self._sum / self.count if self.count else 0.0

    @property
    def variance(self):
        """The variance of the sample; of fewer than two values it is 0."""
        if self.count < 2:
            return 0.0
        return (self._squares - self._sum * self._sum / self.count) / (self.count - 1)
