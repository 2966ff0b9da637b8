import pytest

from webroot import Forbidden, locate, normalise


def same(got, want):
    """Equal, and of the same type."""
    return type(got) is type(want) and got == want


def test_a_plain_path_stays():
    assert same(normalise("a/b/c.txt"), "a/b/c.txt")


def test_slashes_at_the_ends_go():
    assert same(normalise("/a/b/"), "a/b")


def test_doubled_slashes_are_one():
    assert same(normalise("a//b///c"), "a/b/c")


def test_dots_go():
    assert same(normalise("./a/./b/."), "a/b")


def test_two_dots_lead_up():
    assert same(normalise("a/b/../c"), "a/c")
    assert same(normalise("a/b/../../c/.."), "")


def test_names_that_begin_with_dots_are_names():
    assert same(normalise(".well-known/...a/..b"), ".well-known/...a/..b")


@pytest.mark.parametrize("path", ["..", "/../etc/passwd", "a/../../b", "a/b/../../../c/d"])
def test_leading_out_is_forbidden(path):
    with pytest.raises(Forbidden):
        normalise(path)


def test_out_and_back_in_is_forbidden_too():
    with pytest.raises(Forbidden):
        locate("/srv", "/../srv/index.html")


def test_up_to_the_root_is_allowed():
    assert same(locate("/srv", "/a/../b.html"), "/srv/b.html")


def test_a_folder_is_its_index():
    assert same(locate("/srv", "/a/"), "/srv/a/index.html")
    assert same(locate("/srv", "/"), "/srv/index.html")
    assert same(locate("/srv", "/."), "/srv/index.html")
