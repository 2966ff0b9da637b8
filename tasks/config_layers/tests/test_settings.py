import pytest

from settings import load
from settings.environment import from_environment
from settings.layers import merge
from settings.text import parse

BUILTIN = {"colour": "auto", "server": {"host": "localhost", "port": 8080, "tls": False}}


def same(got, want):
    """Equal, and of the same types all the way down."""
    if type(got) is not type(want):
        return False
    if type(want) is dict:
        return got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    return got == want


def test_text_has_numbers_booleans_and_strings():
    text = 'a = 1\nb = true\nc = "true"\nd = plain\ne = -5\n'
    assert same(parse(text), {"a": 1, "b": True, "c": "true", "d": "plain", "e": -5})


def test_text_has_tables():
    text = "a = 1\n[server]\nport = 80\n[log]\nlevel = 2\n"
    assert same(parse(text), {"a": 1, "server": {"port": 80}, "log": {"level": 2}})


def test_comments_are_no_settings():
    assert same(parse("# all\na = 1 # one\n\n  # more\n"), {"a": 1})


def test_a_hash_in_quotes_is_text():
    assert same(parse('colour = "#ff0000"\n'), {"colour": "#ff0000"})


def test_a_comment_after_a_hash_in_quotes():
    assert same(parse('a = "x#y" # "z"\nb = "p" # q#r\n'), {"a": "x#y", "b": "p"})


def test_a_line_that_is_nothing_is_refused():
    with pytest.raises(ValueError):
        parse("hello\n")


def test_upper_layer_wins():
    assert same(merge({"a": 1, "b": 2}, {"b": 3}), {"a": 1, "b": 3})


def test_tables_are_merged():
    server = {"host": "localhost", "port": 80, "tls": False}
    assert same(merge(BUILTIN, {"server": {"port": 80}}), {"colour": "auto", "server": server})


def test_tables_in_tables_are_merged():
    assert same(merge({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"d": 3}}}), {"a": {"b": {"c": 1, "d": 3}}})


def test_a_table_and_a_value_do_not_mix():
    assert same(merge({"a": {"b": 1}}, {"a": 2}), {"a": 2})
    assert same(merge({"a": 2}, {"a": {"b": 1}}), {"a": {"b": 1}})


def test_merging_changes_neither_layer():
    lower, upper = {"a": {"b": 1}}, {"a": {"c": 2}}
    merge(lower, upper)
    assert lower == {"a": {"b": 1}} and upper == {"a": {"c": 2}}


def test_environment_with_prefix_only():
    assert same(from_environment({"APP_COLOUR": "never", "PATH": "/bin", "APPLE_A": "1"}, "APP"), {"colour": "never"})


def test_environment_reaches_into_tables():
    environment = {"APP_SERVER__PORT": "80", "APP_SERVER__TLS": "true"}
    assert same(from_environment(environment, "APP"), {"server": {"port": 80, "tls": True}})


def test_one_underscore_is_part_of_a_key():
    assert same(from_environment({"APP_LOG_LEVEL": "3", "APP_A__B_C": "4"}, "APP"), {"log_level": 3, "a": {"b_c": 4}})


def test_all_layers_together():
    text = 'colour = "#333"\n[server]\nport = 80\nhost = example.org\n'
    assert same(load(BUILTIN, text, {"APP_SERVER__PORT": "443", "APP_SERVER__TLS": "true"}, "APP"), {
        "colour": "#333", "server": {"host": "example.org", "port": 443, "tls": True}})
