import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("build") / "wordcount"
    sources = [ROOT / "src" / "wordcount.c", ROOT / "src" / "count.c"]
    subprocess.run(["cc", "-std=c17", "-O0", "-Wall", "-I", ROOT / "src", "-o", target, *sources], check=True)
    return target


@pytest.fixture
def count(program, tmp_path):
    """Runs the program, with a text as its input or with files; gives (exit status, output, errors)."""
    def run(*names, text="", files={}):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        done = subprocess.run([program, *names], cwd=tmp_path, env=environment, input=text.encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=5, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return run


def test_nothing(count):
    assert count(text="") == (0, "0 0 0\n", "")


def test_a_text_of_one_block(count):
    assert count(text="one two\nthree 45\n") == (0, "2 4 17\n", "")


def test_exactly_one_block(count):
    assert count(text="0123456 89abcde\n") == (0, "1 2 16\n", "")


def test_a_short_text(count):
    assert count(text="hi\n") == (0, "1 1 3\n", "")


def test_a_last_line_without_end_has_words_but_is_no_line(count):
    assert count(text="one\ntwo three") == (0, "1 3 13\n", "")


def test_a_word_over_two_blocks_is_one(count):
    assert count(text="0123456789abcdefghij and more\n") == (0, "1 3 30\n", "")


def test_a_word_over_many_blocks_is_one(count):
    assert count(text="x" * 200_000) == (0, "0 1 200000\n", "")


def test_a_word_that_ends_with_its_block(count):
    assert count(text="0123456789abcdef ghij") == (0, "0 2 21\n", "")
    assert count(text="0123456789abcde fghij") == (0, "0 2 21\n", "")


def test_all_kinds_of_space(count):
    assert count(text=" a\tb\n\n c\r\nd  ") == (0, "3 4 13\n", "")


def test_a_zero_is_a_byte_like_others(count):
    assert count(text="a b\0c\nd\n") == (0, "2 3 8\n", "")


def test_files_and_their_total(count):
    files = {"a": "one two\n", "b": "three\nfour five\n"}
    assert count("a", "b", files=files) == (0, "1 2 8 a\n2 3 16 b\n3 5 24 total\n", "")


def test_a_file_that_is_not_there(count):
    status, output, errors = count("none", "a", files={"a": "x\n"})
    assert status == 1
    assert output == "1 1 2 a\n1 1 2 total\n"
    assert errors == "wordcount: none: No such file or directory\n"
