"""Calls of tools in a live box against the bare program that does the same on the host."""
import json
import os

import profiles

SIZE = 4096


def calls(c):
    path = c.user.workspace / "four-kilobytes"
    path.write_text("".join(f"line {i:04} of a file that is read again and again\n" for i in range(SIZE))[:SIZE])
    if os.geteuid() == 0:
        os.chown(path, c.user.uid, c.user.gid)
    series = c.user.json([c.stage.program("tool_bench"), 100 if c.quick else 1000, c.user.workspace,
                          "read_file", "read_file", json.dumps({"path": path.name}),
                          "bash", "bash", json.dumps({"command": "true"}),
                          *profiles.lines({"cat": ["cat", path], "true": ["true"]})])
    c.report.times("one call", series)
    c.report.ratio("read_file of 4 KB", series, "read_file", "cat", 3.00)
    c.report.ratio("bash with true", series, "bash", "true", 2.00)
