from calc import total


def same(got, want):
    return type(got) is type(want) and got == want


def test_an_empty_basket_costs_nothing():
    assert same(total([]), 0)


def test_prices_are_summed():
    assert same(total([250, 125, 75]), 450)


def test_a_discount_makes_it_cheaper():
    assert same(total([250, 125], 75), 300)


def test_a_discount_may_cover_everything():
    assert same(total([250], 250), 0)


def test_a_surcharge_is_a_negative_discount():
    assert same(total([100, 100], -30), 230)


def test_fractions_stay_fractions():
    assert same(total([1.5, 2.25], 0.5), 3.25)
