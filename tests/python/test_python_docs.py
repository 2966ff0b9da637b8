"""What docs/python.md and the examples show, done."""
import re

import harness

PAGE = (harness.REPO / "docs" / "python.md").read_text()


def blocks(kind):
    """The code of one kind, in order."""
    return re.findall(r"^```python" + kind + r"\n(.*?)^```$", PAGE, re.S | re.M)


def test_the_page_has_the_examples_that_are_run():
    assert len(blocks("")) >= 8 and len(blocks(" gymnasium")) == 1
    assert PAGE.count("```python") == len(blocks("")) + len(blocks(" gymnasium"))


def test_the_examples_of_the_page(gym):
    said = gym.run("\n".join(blocks("")), timeout=300)
    assert "3 ['greeting']" in said and "+hello" in said and "return a + b" in said
    assert "['attempt 0\\n', 'attempt 1\\n', 'attempt 2\\n']" in said
    assert (gym.folder / "greeting").read_text() == "hello\n"


def test_the_examples_with_gymnasium(gymnasium):
    gymnasium.run("\n".join(blocks(" gymnasium")))


def test_a_policy_is_trained_in_thirty_lines(gym):
    source = (harness.REPO / "python" / "examples" / "train.py").read_text()
    assert len(source.splitlines()) <= 30
    said = gym.run(source)
    assert re.fullmatch(r"learnt: return 0\.9\d\d, pass rate 100%: apply [a-z-]+, submit\n", said), said


def test_the_example_with_boxes(python):
    said = python.run((harness.REPO / "python" / "examples" / "box.py").read_text(), env={"TMPDIR": str(python.folder)})
    assert said.startswith("{'*': False, '+': True}\n") and said.endswith("def add(a, b):\n    return a + b\n"), said
