import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("build") / "driver"
    sources = [ROOT / "tests" / "driver.c", ROOT / "src" / "utf8.c"]
    subprocess.run(["cc", "-std=c17", "-O0", "-Wall", "-I", ROOT / "src", "-o", target, *sources], check=True)
    return target


@pytest.fixture
def decode(program):
    def play(*texts):
        arguments = [text if isinstance(text, str) else text.hex() for text in texts]
        done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, timeout=5, check=True)
        return [line.split() for line in done.stdout.decode().splitlines()]
    return play


def names(text):
    return [f"U+{ord(char):04X}" for char in text]


def test_ascii(decode):
    assert decode(b"A~", b"\0") == [["U+0041", "U+007E"], ["U+0000"]]


def test_two_three_and_four_bytes(decode):
    assert decode("é".encode(), "漢".encode(), "🦊".encode()) == [["U+00E9"], ["U+6F22"], ["U+1F98A"]]


def test_the_first_and_the_last_of_each_length(decode):
    edges = "\u0080\u07ff\u0800\uffff\U00010000\U0010ffff"
    assert decode(*(char.encode() for char in edges)) == [[name] for name in names(edges)]


def test_around_the_surrogates(decode):
    assert decode("\ud7ff\ue000".encode()) == [["U+D7FF", "U+E000"]]


def test_one_after_the_other(decode):
    assert decode("aé漢🦊b".encode()) == [names("aé漢🦊b")]


def test_a_cut_off_character_is_bad(decode):
    assert decode("é".encode()[:1], "漢".encode()[:2], "🦊".encode()[:3]) == [["bad"]] * 3


def test_a_continuation_byte_alone_is_bad(decode):
    assert decode("80", "bf", "6180") == [["bad"], ["bad"], ["U+0061", "bad"]]


def test_a_character_is_not_continued_by_a_letter(decode):
    assert decode("c341", "e6bc41", "f09fa641", "e641a2") == [["bad"]] * 4


def test_a_character_is_not_continued_by_another(decode):
    assert decode("c3c3a9", "f09fc3a9") == [["bad"]] * 2


def test_bytes_that_never_occur_are_bad(decode):
    assert decode("f8888080", "fe", "ff") == [["bad"]] * 3
