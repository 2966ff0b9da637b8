"""Moving money from one account to another: all of it, or nothing."""


def transfer(source, target, amount, journal):
    """Every transfer that was made gets one line in the journal."""
    source.withdraw(amount)
    target.deposit(amount)
    journal.append((source.owner, target.owner, amount))
