import pytest

from lru import Cache

NOTHING = object()


def filled(room, keys):
    cache = Cache(room)
    for key in keys:
        cache.put(key, key.upper())
    return cache


def keys(cache):
    return [key for key in "abcdef" if cache.get(key, NOTHING) is not NOTHING]


def test_what_was_put_is_there():
    assert filled(3, "ab").get("a") == "A"


def test_what_was_not_put_is_the_default():
    cache = Cache(1)
    assert cache.get("a") is None
    assert cache.get("a", NOTHING) is NOTHING
    assert len(cache) == 0


def test_the_oldest_goes_when_it_is_full():
    assert keys(filled(3, "abcd")) == ["b", "c", "d"]


def test_a_get_is_a_use():
    cache = filled(3, "abc")
    cache.get("a")
    cache.put("d", "D")
    assert keys(cache) == ["a", "c", "d"]


def test_a_second_put_is_a_use():
    cache = filled(3, "abc")
    cache.put("a", "new")
    cache.put("d", "D")
    assert keys(cache) == ["a", "c", "d"]
    assert cache.get("a") == "new"


def test_looking_is_not_a_use():
    cache = filled(3, "abc")
    assert "a" in cache
    cache.put("d", "D")
    assert "a" not in cache


def test_a_miss_evicts_nothing():
    cache = filled(2, "ab")
    assert cache.get("c") is None
    assert len(cache) == 2 and "c" not in cache
    assert keys(cache) == ["a", "b"]


def test_none_is_a_value_like_others():
    cache = Cache(2)
    cache.put("a", None)
    cache.put("b", "B")
    assert cache.get("a", NOTHING) is None
    cache.put("c", "C")
    assert "a" in cache and "b" not in cache


def test_many_gets_leave_one_entry():
    cache = filled(2, "ab")
    for _ in range(5):
        assert cache.get("a") == "A"
    assert len(cache) == 2


def test_room_for_nothing_is_refused():
    with pytest.raises(ValueError):
        Cache(0)
