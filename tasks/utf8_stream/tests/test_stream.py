import pytest

from stream import LineReader

TEXT = "naïve café\n漢字かな\n🦊 runs\nend"


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def read(pieces):
    reader = LineReader()
    lines = [line for piece in pieces for line in reader.feed(piece)]
    return lines + reader.finish()


def pieces_of(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def test_whole_lines_in_one_piece():
    assert same(read([b"one\ntwo\n"]), ["one", "two"])


def test_a_line_over_two_pieces():
    assert same(read([b"on", b"e\ntwo\n"]), ["one", "two"])


def test_a_line_without_end_comes_last():
    assert same(read([b"one\ntwo"]), ["one", "two"])


def test_empty_lines_are_lines():
    assert same(read([b"\n\nx\n"]), ["", "", "x"])


def test_nothing_comes_before_its_line_is_complete():
    reader = LineReader()
    assert same(reader.feed("é".encode()), [])
    assert same(reader.feed(b"\n"), ["é"])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pieces_do_not_matter(size):
    assert same(read(pieces_of(TEXT.encode(), size)), TEXT.split("\n"))


def test_bytes_that_are_not_utf8_are_replaced():
    assert same(read([b"a\xff", b"b\n"]), ["a\ufffdb"])
    assert same(read([b"\xc3", b"(\n"]), ["\ufffd("])


def test_half_a_character_at_the_end_is_replaced():
    assert same(read([b"caf\xc3"]), ["caf\ufffd"])


def test_a_reader_starts_anew_after_the_end():
    reader = LineReader()
    assert same(reader.feed(b"caf\xc3"), [])
    assert same(reader.finish(), ["caf\ufffd"])
    assert same(reader.feed(b"\xa9\n"), ["\ufffd"])
    assert same(reader.finish(), [])
