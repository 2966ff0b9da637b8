"""docs/architecture.md names files that exist, and each of its walks crosses few of them."""
import re

import harness

TEXT = (harness.REPO / "docs" / "architecture.md").read_text()
NAME = re.compile(r"\b(?:base|wire|guest|box|tool|mcp|config|model|agent|gym|tui|cli|lib)/[a-z0-9_/]+\.(?:c|h|def)\b")


def test_named_files_exist():
    names = set(NAME.findall(TEXT))
    assert len(names) > 30
    assert [name for name in sorted(names) if not (harness.REPO / "src" / name).exists()] == []


def test_a_walk_crosses_at_most_20_files():
    walks = re.split(r"^## ", TEXT, flags=re.M)
    counts = {walk.splitlines()[0]: len(set(NAME.findall(walk.split("\n    ", 1)[1])))
              for walk in walks if walk.startswith("Walk ")}
    assert len(counts) == 3 and all(5 < n <= 20 for n in counts.values()), counts
