"""search_files and list_files over a large tree, against rg and fd on the host's own folder and in a box."""
import json
import shutil

import profiles
import source_tree
from host import Failed

FILES = 50_000
PATTERNS = {
    "literal": r"needle_function",
    "literal, any case": r"(?i)Needle_Function",
    "inner literal": r"[a-z]+_function\(\w+, [0-9]+",
    "alternation": r"needle_function|missing_function|other_thing",
    "alternation, classes": r"\b(needle|haystack|stitch)_[a-z]+\([a-z]+, [0-9]{2,}\)",
}


def tree(c):
    """Made once for all users; it is only read."""
    top = c.stage.folder / "source"
    if not top.exists():
        top.mkdir(mode=0o755)
        source_tree.make(top, FILES // 10 if c.quick else FILES)
    return top


def need(*names):
    """The first of these programs that is installed."""
    for name in names:
        if shutil.which(name):
            return name
    raise Failed(f"{names[0]} is not installed")


def in_box(c, top, command):
    return [c.stage.program("hutch"), "run", "-w", str(top), "--", *command]


def contest(c, top, calls, commands, rounds):
    words = [word for label, (tool, given) in calls.items() for word in (label, tool, json.dumps(given))]
    return c.user.json([c.stage.program("tool_bench"), 3 if c.quick else rounds, top, *words, *profiles.lines(commands)])


def search_files(c):
    rg, top = need("rg"), tree(c)
    for name, pattern in PATTERNS.items():
        commands = {"rg": [rg, "-n", pattern, str(top)], "rg in a box": in_box(c, top, [rg, "-n", pattern, "."])}
        series = contest(c, top, {"search_files": ("search_files", {"pattern": pattern})}, commands, 21)
        c.report.times(f"{name}: {pattern}", series, "search_files")
        c.report.ratio(f"search_files, {name}", series, "search_files", "rg", 1.50)


def list_files(c):
    fd, top = need("fdfind", "fd"), tree(c)
    commands = {"fd": [fd, "--hidden", ".", str(top)], "find": ["find", str(top)],
                "fd in a box": in_box(c, top, [fd, "--hidden", "."]), "find in a box": in_box(c, top, ["find"])}
    calls = {"list_files, all": ("list_files", {"limit": 100_000}), "list_files": ("list_files", {})}
    series = contest(c, top, calls, commands, 41)
    c.report.times("names of all files", series, "list_files, all")
    c.report.ratio("list_files of all", series, "list_files, all", "fd", 1.50)
    c.report.ratio("list_files, the first 500", series, "list_files", "find", 1.50)
