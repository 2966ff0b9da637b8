import pytest

from join import join

PEOPLE = [{"id": 3, "name": "cleo"}, {"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}]
ORDERS = [{"id": 2, "item": "jam"}, {"id": 3, "item": "tea"}, {"id": 2, "item": "rum"}, {"id": 9, "item": "ink"}]


class Key:
    """A key that counts how often keys are compared or hashed."""

    work = 0

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        Key.work += 1
        return isinstance(other, Key) and self.number == other.number

    def __hash__(self):
        Key.work += 1
        return hash(self.number)


@pytest.fixture(autouse=True)
def count_anew():
    Key.work = 0


def table(numbers, name):
    return [{"key": Key(number), name: at} for at, number in enumerate(numbers)]


def pairs(rows):
    assert type(rows) is list and all(type(row) is dict for row in rows)
    return [(row["name"], row["item"]) for row in rows]


def test_rows_that_agree_are_joined():
    assert pairs(join(PEOPLE[2:], ORDERS[:1], "id")) == [("bob", "jam")]


def test_a_joined_row_has_the_columns_of_both():
    (row,) = join(PEOPLE[:1], ORDERS, "id")
    assert sorted(row.items()) == [("id", 3), ("item", "tea"), ("name", "cleo")]


def test_order_of_the_left_then_of_the_right():
    assert pairs(join(PEOPLE, ORDERS, "id")) == [("cleo", "tea"), ("bob", "jam"), ("bob", "rum")]


def test_many_with_many():
    names = [{"id": 1, "name": name} for name in "ab"]
    items = [{"id": 1, "item": item} for item in "xyz"]
    assert pairs(join(names, items, "id")) == [(name, item) for name in "ab" for item in "xyz"]


def test_no_rows_on_one_side():
    assert pairs(join([], ORDERS, "id")) == []
    assert pairs(join(PEOPLE, [], "id")) == []


def test_a_column_of_the_right_wins():
    (row,) = join([{"id": 1, "x": "left"}], [{"id": 1, "x": "right"}], "id")
    assert row["x"] == "right"


def test_the_tables_are_not_changed():
    left, right = [{"id": 1, "x": 1}], [{"id": 1, "y": 2}]
    join(left, right, "id")[0]["x"] = 7
    assert left == [{"id": 1, "x": 1}] and right == [{"id": 1, "y": 2}]


def test_a_missing_column_is_an_error():
    with pytest.raises(KeyError):
        join(PEOPLE, [{"item": "jam"}], "id")


def test_keys_that_only_can_be_compared_for_equality():
    rows = join(table([2, 1], "a"), table([1, 2], "b"), "key")
    assert [(row["a"], row["b"]) for row in rows] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("size", [100, 400])
def test_the_work_grows_with_the_rows_and_not_with_the_pairs(size):
    rows = join(table(range(size), "a"), table(reversed(range(size)), "b"), "key")
    assert [(row["a"], row["b"]) for row in rows] == [(at, size - 1 - at) for at in range(size)]
    assert 0 < Key.work <= 8 * size


def test_the_work_stays_small_when_nothing_agrees():
    assert join(table(range(300), "a"), table(range(1000, 1300), "b"), "key") == []
    assert 0 < Key.work <= 8 * 600
