import pytest

from account import Account, Refused
from transfer import transfer


def accounts(**more):
    return Account("ann", 500), Account("bob", 100, **more)


def balances(*these):
    assert all(type(account.balance) is int for account in these)
    return [account.balance for account in these]


def test_money_moves():
    ann, bob = accounts()
    transfer(ann, bob, 200, [])
    assert balances(ann, bob) == [300, 300]


def test_all_of_it_may_move():
    ann, bob = accounts()
    transfer(ann, bob, 500, [])
    assert balances(ann, bob) == [0, 600]


def test_the_journal_tells():
    ann, bob = accounts()
    journal = []
    transfer(ann, bob, 200, journal)
    transfer(bob, ann, 50, journal)
    assert journal == [("ann", "bob", 200), ("bob", "ann", 50)]


def test_more_than_there_is_is_refused():
    ann, bob = accounts()
    journal = []
    with pytest.raises(Refused):
        transfer(ann, bob, 501, journal)
    assert balances(ann, bob) == [500, 100] and journal == []


def test_nothing_and_less_are_refused():
    ann, bob = accounts()
    for amount in (0, -5):
        with pytest.raises(ValueError):
            transfer(ann, bob, amount, [])
    assert balances(ann, bob) == [500, 100]


def test_a_frozen_account_gives_nothing():
    ann, bob = accounts(frozen=True)
    with pytest.raises(Refused):
        transfer(bob, ann, 50, [])
    assert balances(ann, bob) == [500, 100]


def test_what_a_frozen_account_does_not_take_stays_where_it_was():
    ann, bob = accounts(frozen=True)
    journal = []
    with pytest.raises(Refused):
        transfer(ann, bob, 200, journal)
    assert balances(ann, bob) == [500, 100] and journal == []


def test_the_sum_of_all_accounts_never_changes():
    ann, bob, eve = Account("ann", 500), Account("bob", 100, frozen=True), Account("eve", 5, overdraft=100)
    for source, target in (ann, bob), (bob, ann), (ann, eve), (eve, bob), (eve, ann):
        for amount in (1, 70, 450, 900):
            try:
                transfer(source, target, amount, [])
            except Refused:
                pass
            assert sum(balances(ann, bob, eve)) == 605


def test_an_overdraft_can_be_used():
    ann, bob = accounts(overdraft=300)
    transfer(bob, ann, 400, [])
    assert balances(ann, bob) == [900, -300]


def test_an_overdraft_ends_somewhere():
    ann, bob = accounts(overdraft=300)
    with pytest.raises(Refused):
        transfer(bob, ann, 401, [])
    assert balances(ann, bob) == [500, 100]


def test_what_was_used_of_an_overdraft_is_gone():
    bob = Account("bob", 100, overdraft=300)
    bob.withdraw(350)
    with pytest.raises(Refused):
        bob.withdraw(51)
    bob.withdraw(50)
    assert balances(bob) == [-300]


def test_a_transfer_to_oneself_changes_nothing():
    ann = Account("ann", 500)
    transfer(ann, ann, 500, [])
    assert balances(ann) == [500]
