"""Tries two fixes of a small program at once, each in a fork of a box, and keeps the one that works."""
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hutch

project = Path(tempfile.mkdtemp())
(project / "add.py").write_text("def add(a, b):\n    return a - b\n")
(project / "test_add.py").write_text("from add import add\nassert add(2, 3) == 5\n")


def attempt(box: hutch.Box, operator: str) -> bool:
    box.edit_file("add.py", old="a - b", new=f"a {operator} b")
    return box.exec("python3 -B test_add.py").ok


with hutch.Box(workspace=project) as box, box.snapshot() as start, ThreadPoolExecutor() as threads:
    boxes = {operator: start.fork() for operator in "*+"}
    worked = dict(zip(boxes, threads.map(attempt, boxes.values(), boxes)))
    print(worked)
    for operator, fork in boxes.items():
        if worked[operator]:
            print(fork.diff().decode(), end="")
            fork.apply()
        fork.close()
print((project / "add.py").read_text(), end="")
