import unittest
from decimal import Decimal

from shares import split


class TestSplit(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split("9.00", ["Ann", "Ben", "Cleo"]), dict.fromkeys(["Ann", "Ben", "Cleo"], Decimal("3.00")))

    def test_one_person_pays_all(self):
        self.assertEqual(split("12.34", ["Ann"]), {"Ann": Decimal("12.34")})

    def test_shares_add_up(self):
        shares = split("10.00", ["Ann", "Ben", "Cleo"])
        self.assertEqual(sum(shares.values()), Decimal("10.00"))


if __name__ == "__main__":
    unittest.main()
