import json
import pathlib
import subprocess

import pytest

DRIVER = pathlib.Path(__file__).parent / "driver.js"

# What is asked, and what the answer is: of parse the entries of the object in their order.
CASES = {
    "parse one pair": (["parse", "a=1"], [["a", "1"]]),
    "parse several pairs": (["parse", "b=2&a=1"], [["b", "2"], ["a", "1"]]),
    "parse with question mark": (["parse", "?a=1&b="], [["a", "1"], ["b", ""]]),
    "parse nothing": (["parse", ""], []),
    "parse question mark alone": (["parse", "?"], []),
    "parse empty pairs": (["parse", "&a=1&&b=2&"], [["a", "1"], ["b", "2"]]),
    "parse name without value": (["parse", "a&b=1"], [["a", ""], ["b", "1"]]),
    "parse name several times": (["parse", "a=1&a=2&a=3"], [["a", ["1", "2", "3"]]]),
    "parse equals sign in value": (["parse", "sum=1+1=2&x=a=b=c"], [["sum", "1 1=2"], ["x", "a=b=c"]]),
    "parse every plus": (["parse", "q=one+two+three+%2B"], [["q", "one two three +"]]),
    "parse percent": (["parse", "caf%C3%A9=%26%3D"], [["café", "&="]]),
    "parse name of the prototype": (["parse", "toString=1&constructor=2"], [["toString", "1"], ["constructor", "2"]]),
    "parse name __proto__": (["parse", "__proto__=1&__proto__=2"], [["__proto__", ["1", "2"]]]),
    "stringify pairs": (["stringify", {"a": "1", "b c": "&="}], "a=1&b+c=%26%3D"),
    "stringify list": (["stringify", {"a": ["1", "2"], "b": []}], "a=1&a=2"),
    "stringify plus": (["stringify", {"a": "1+1"}], "a=1%2B1"),
    "stringify nothing": (["stringify", {}], ""),
}


@pytest.fixture(scope="module")
def answers():
    """All cases in one process."""
    asked = json.dumps([call for call, _ in CASES.values()])
    done = subprocess.run(["node", DRIVER], input=asked, stdout=subprocess.PIPE, text=True, timeout=10, check=True)
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace(" ", "-"))
def test_query(answers, case):
    assert answers[case] == {"value": CASES[case][1]}
