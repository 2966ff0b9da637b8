"""The cheats that docs/grading.md admits: each wins a test that does not pass in the untouched repository."""
import re

import pytest

import cheats_known
import harness
from honest_task import UNTOUCHED
from test_cheats import grade, passed
from test_cheats_inside import arena  # noqa: F401, a fixture

TABLES = {"honest": (cheats_known.KNOWN, UNTOUCHED), "wide": (cheats_known.KNOWN_WIDE, set())}


@pytest.mark.parametrize("task", TABLES)
def test_known_cheats_win(arena, who, task):  # noqa: F811
    gym = arena(who, task)
    table, untouched = TABLES[task]
    stopped = {}
    for name, cheat in table.items():
        info = grade(gym, **cheat)
        if not passed(info) - untouched and not info["hidden"]["passed"]:
            stopped[name] = info
    assert stopped == {}, "these belong to the cheats that are stopped, and not into docs/grading.md"


def test_the_manual_lists_each_known_cheat():
    page = (harness.REPO / "docs" / "grading.md").read_text()
    listed = page.partition("## Known cheats")[2].partition("\n## ")[0]
    rows = set(re.findall(r"^\| ([^|]+?) \|", listed, re.M)) - {"cheat", "---"}
    assert rows == {*cheats_known.KNOWN, *cheats_known.KNOWN_WIDE}
