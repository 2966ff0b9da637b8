class _Defaults:
    """pytest's parser and its configuration, where no option was given."""

    def __init__(self):
        self._values, self.option = {}, self

    def addoption(self, *names, default=None, action=None, dest=None, **more):
        if default is None and action in ("store_true", "store_false"):
            default = action == "store_false"
        for name in (*names, dest or names[0]):
            self._values[name.lstrip("-").replace("-", "_")] = default

    def getoption(self, name, default=None, *more):
        return self._values.get(name.lstrip("-").replace("-", "_"), default)

    def getgroup(self, *more, **named):
        return self

    def __getattr__(self, name):
        return self._values[name] if name in self._values else lambda *more, **named: None


_defaults = _Defaults()
for _hook in ("pytest_addoption", "pytest_configure"):
    if _hook in globals():
        globals().pop(_hook)(_defaults)
