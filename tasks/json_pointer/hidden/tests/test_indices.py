import pytest

from pointer import NotThere, resolve


@pytest.mark.parametrize("index", ["00", "01", "+1", " 1", "1_0", "\u0661"])
def test_an_index_has_one_spelling_only(index):
    with pytest.raises(NotThere):
        resolve(list(range(20)), "/" + index)


def test_zero_is_an_index():
    assert resolve(["first"], "/0") == "first"


def test_large_indices():
    assert resolve(list(range(200)), "/120") == 120
