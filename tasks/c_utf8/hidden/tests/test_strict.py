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


def test_more_bytes_than_needed_are_bad(decode):
    assert decode("c080", "c1bf", "e08080", "e09fbf", "f0808080", "f08fbfbf") == [["bad"]] * 6


def test_surrogates_are_bad(decode):
    assert decode("eda080", "edafbf", "edb080", "edbfbf") == [["bad"]] * 4


def test_beyond_the_last_character_is_bad(decode):
    assert decode("f4908080", "f5808080", "f7bfbfbf") == [["bad"]] * 3


def test_all_characters_of_a_kind(decode):
    chars = [chr(number) for number in range(0x20, 0xd000, 97)]
    assert decode(*(char.encode() for char in chars)) == [[f"U+{ord(char):04X}"] for char in chars]
