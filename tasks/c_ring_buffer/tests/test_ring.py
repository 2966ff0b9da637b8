import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("build") / "driver"
    sources = [ROOT / "tests" / "driver.c", ROOT / "src" / "ring.c"]
    subprocess.run(["cc", "-std=c17", "-O0", "-Wall", "-I", ROOT / "src", "-o", target, *sources], check=True)
    return target


@pytest.fixture
def ring(program):
    def play(*steps):
        done = subprocess.run([program, *steps], stdout=subprocess.PIPE, timeout=5, check=True)
        return done.stdout.decode().splitlines()
    return play


def test_a_fresh_ring_is_empty(ring):
    assert ring("?", "-5") == ["0", "0:"]


def test_what_is_written_is_read(ring):
    assert ring("+abc", "?", "-3", "?") == ["3", "3", "3:abc", "0"]


def test_first_in_first_out(ring):
    assert ring("+abc", "-1", "+de", "-9") == ["3", "1:a", "2", "4:bcde"]


def test_no_more_is_read_than_there_is(ring):
    assert ring("+ab", "-8", "-1") == ["2", "2:ab", "0:"]


def test_a_full_ring_is_not_empty(ring):
    assert ring("+abcdefgh", "?", "-8") == ["8", "8", "8:abcdefgh"]


def test_a_full_ring_takes_nothing(ring):
    assert ring("+abcdefgh", "+i", "-8") == ["8", "0", "8:abcdefgh"]


def test_what_does_not_fit_is_not_taken(ring):
    assert ring("+abcdef", "+ghijk", "-8", "?") == ["6", "2", "8:abcdefgh", "0"]


def test_over_the_end_of_the_array(ring):
    assert ring("+abcdef", "-5", "+ghijk", "?", "-9") == ["6", "5:abcde", "5", "6", "6:fghijk"]


def test_full_over_the_end_of_the_array(ring):
    assert ring("+abc", "-3", "+12345678", "+9", "?", "-8") == ["3", "3:abc", "8", "0", "8", "8:12345678"]


def test_many_rounds(ring):
    steps = ["+abcde", "-5"] * 50
    assert ring(*steps) == ["5", "5:abcde"] * 50
