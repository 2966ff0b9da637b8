"""`hutch box restore` after an apply: the box shows its earlier state, and the diff takes back what was applied."""
import os

from test_box import Boxes, boxes  # noqa: F401


def start(boxes, **files):
    for name, content in files.items():
        boxes.box.put(name, content)
    one = boxes.new()
    boxes.ok("snapshot", one)
    return one


def test_restore_after_apply_shows_the_earlier_state_and_the_diff_reverts(boxes):
    one = start(boxes, a="0\n", gone="0\n")
    folder = boxes.box.workspace
    boxes.sh(one, "echo 1 > a; rm gone; echo 1 > new; ln -s a link; mkdir d; echo 1 > d/f")
    boxes.ok("apply", one)
    assert sorted(os.listdir(folder)) == ["a", "d", "link", "new"]
    done = boxes("restore", one, "s1")
    assert done.returncode == 0 and f"'hutch box apply {one}'" in done.stderr and "since s1" in done.stderr
    assert boxes.sh(one, "cat a gone; ls") == "0\n0\na\ngone\n"
    diff = boxes.ok("diff", one)
    assert "-1\n+0\n" in diff and "deleted file mode 120000" in diff and "b/gone" in diff
    boxes.ok("apply", one)
    assert sorted(os.listdir(folder)) == ["a", "gone"] and (folder / "a").read_text() == "0\n"
    assert boxes.ok("diff", one) == ""


def test_restore_keeps_what_the_snapshot_had_itself(boxes):
    one = start(boxes, a="0\n", b="0\n")
    boxes.sh(one, "echo 1 > a; rm b")
    boxes.ok("snapshot", one)
    boxes.sh(one, "echo 2 > a; echo 2 > b")
    boxes.ok("apply", one)
    boxes.ok("restore", one, "s2")
    assert boxes.sh(one, "cat a; ls") == "1\na\n"
    boxes.ok("restore", one, "s1")
    assert boxes.sh(one, "cat a b") == "0\n0\n"
    boxes.ok("restore", one, "s2")
    assert boxes.sh(one, "cat a; ls") == "1\na\n", "as often as one likes"


def test_forks_have_the_snapshots_of_their_parent(boxes):
    one = start(boxes, a="0\n")
    boxes.sh(one, "echo 1 > a")
    boxes.ok("apply", one)
    fork = boxes.ok("fork", one).strip()
    boxes.ok("rm", one)
    assert boxes.list()[fork]["snapshots"] == 0, "they are not its own"
    boxes.sh(fork, "echo 2 > a")
    boxes.ok("apply", fork)
    boxes.ok("restore", fork, f"{one}:s1")
    assert boxes.sh(fork, "cat a") == "0\n"
    boxes.ok("restore", fork, "s0")
    assert boxes.sh(fork, "cat a") == "1\n", "its own beginning"


def test_restore_names_what_was_too_large_to_keep(boxes):
    with open(boxes.box.put("large", ""), "r+b") as file:
        file.truncate(257 << 20)
    one = start(boxes, small="0\n")
    boxes.sh(one, "rm large small")
    boxes.ok("apply", one)
    done = boxes("restore", one, "s1")
    assert done.returncode == 1 and "not restored: large: its earlier content was too large to keep" in done.stderr
    assert boxes.sh(one, "cat small; ls") == "0\nsmall\n"


def test_restore_after_the_person_took_it_back_has_no_changes(boxes):
    one = start(boxes, a="0\n")
    boxes.sh(one, "echo 1 > a; echo 1 > b")
    boxes.ok("apply", one)
    boxes.box.put("a", "0\n")
    (boxes.box.workspace / "b").unlink()
    boxes.ok("restore", one, "s1")
    assert boxes.ok("diff", one) == ""
