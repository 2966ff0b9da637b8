"""The validator agrees with python3-jsonschema on thousands of random schemas of the keywords that it
checks (src/base/schema.h), and refuses nothing that is valid when there are others."""
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import harness

jsonschema = pytest.importorskip("jsonschema", reason="no python3-jsonschema on this host")
CASES = 4000
WORDS = ["a", "b", "ab", "xyz", "", "ä"]


def value(rng, depth=3):
    kind = rng.randrange(9 if depth else 7)
    if kind < 7:
        return [None, True, False, rng.randint(-3, 6), rng.choice([0.5, 1.0, 2.5, -1.5]), rng.choice(WORDS), 3][kind]
    if kind == 7:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: value(rng, depth - 1) for name in rng.sample(WORDS, rng.randrange(4))}


def keyword(rng, depth, extended):
    """One random keyword with its value."""
    def inner():
        return schema(rng, depth - 1, extended)
    simple = {
        "type": lambda: rng.choice(["string", "integer", "number", "object", "array", "null", "boolean", ["string", "null"]]),
        "enum": lambda: [value(rng, 0) for _ in range(3)],
        "const": lambda: value(rng, 0),
        "minimum": lambda: rng.randint(-2, 4), "maximum": lambda: rng.randint(-2, 4),
        "exclusiveMinimum": lambda: rng.randint(-2, 4), "exclusiveMaximum": lambda: rng.randint(-2, 4),
        "minLength": lambda: rng.randrange(4), "maxLength": lambda: rng.randrange(4),
        "pattern": lambda: rng.choice(["^a", "b$", "[xy]", "^.{2}$"]),
        "minItems": lambda: rng.randrange(3), "maxItems": lambda: rng.randrange(3),
        "minProperties": lambda: rng.randrange(3), "maxProperties": lambda: rng.randrange(3),
        "required": lambda: rng.sample(WORDS, rng.randrange(3)),
        "dependentRequired": lambda: {rng.choice(WORDS): [rng.choice(WORDS)]},
        "title": lambda: "only for people",
    }
    nested = {
        "properties": lambda: {name: inner() for name in rng.sample(WORDS, 2)},
        "additionalProperties": inner, "propertyNames": inner, "items": inner,
        "allOf": lambda: [inner()], "anyOf": lambda: [inner(), inner()],
        "oneOf": lambda: [{"type": "string", "allOf": [inner()]}, {"type": "number", "allOf": [inner()]}],
        "$ref": lambda: "#/$defs/d",
    }
    ignored = {
        "multipleOf": lambda: rng.choice([1, 2, 0.5]), "uniqueItems": lambda: True,
        "patternProperties": lambda: {rng.choice(["^a", "b$"]): inner()},
        "prefixItems": lambda: [inner()], "contains": inner, "oneOf": lambda: [inner(), inner()],
        "not": inner, "if": inner, "then": inner, "else": inner,
    }
    if extended and depth and rng.random() < 0.3:
        table = ignored
    else:
        table = simple if depth == 0 or rng.random() < 0.6 else nested
    name = rng.choice(list(table))
    return name, table[name]()


def schema(rng, depth, extended):
    if rng.random() < 0.08:
        return rng.random() < 0.7
    return dict(keyword(rng, depth, extended) for _ in range(rng.randint(1, 3)))


def case(seed, extended):
    rng = random.Random(seed)
    top = schema(rng, 3, extended)
    if not isinstance(top, dict):
        top = {"allOf": [top]}
    top["$defs"] = {"d": schema(rng, 0, extended)}
    if isinstance(top["$defs"]["d"], dict):
        top["$defs"]["d"].pop("$ref", None)
    return top, value(rng)


def answers(cases):
    program = Path(os.environ.get("HUTCH") or harness.REPO / "build" / "hutch").parent / "tests" / "unit" / "base" / "schema_run"
    text = "".join(json.dumps(part) + "\n" for pair in cases for part in pair)
    said = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == len(cases)
    return [(form, instance, answer, jsonschema.Draft202012Validator(form).is_valid(instance))
            for (form, instance), answer in zip(cases, said)]


def test_agrees_on_the_keywords_that_are_checked():
    verdicts = []
    for form, instance, answer, valid in answers([case(seed, False) for seed in range(CASES)]):
        assert (answer == "yes") == valid, (form, instance, answer)
        verdicts.append(valid)
    assert CASES // 5 < sum(verdicts) < CASES * 4 // 5  # both kinds are there in numbers


def test_refuses_nothing_valid_whatever_the_keywords():
    refused = 0
    for form, instance, answer, valid in answers([case(seed, True) for seed in range(CASES)]):
        assert answer == "yes" or not valid, (form, instance, answer)
        refused += answer != "yes"
    assert refused > CASES // 5
