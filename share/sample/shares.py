"""Splits a bill between friends, to the cent: python3 shares.py 10.00 Ann Ben Cleo"""
import sys
from decimal import Decimal


def split(total, people):
    """Each person's share; together they pay exactly the total."""
    cents = int(Decimal(total) * 100)
    share = cents // len(people)
    return {person: Decimal(share) / 100 for person in people}


def main(total, *people):
    for person, amount in split(total, people).items():
        print(f"{person:10} {amount:8.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
