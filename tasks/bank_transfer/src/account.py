"""An account: a balance in cents that never falls below what its owner may overdraw."""


class Refused(Exception):
    """The account does not allow it; nothing has changed."""


class Account:
    def __init__(self, owner, balance=0, overdraft=0, frozen=False):
        self.owner = owner
        self.balance = balance
        self.overdraft = overdraft
        self.frozen = frozen

    def deposit(self, amount):
        self._check(amount)
        self.balance += amount

    def withdraw(self, amount):
        self._check(amount)
        if self.balance - amount < 0:
            raise Refused(f"{self.owner} has only {self.balance}")
        self.balance -= amount

    def _check(self, amount):
        if self.frozen:
            raise Refused(f"the account of {self.owner} is frozen")
        if amount <= 0:
            raise ValueError("an amount is more than nothing")
