"""Many boxes in a row: what they leave behind, which should be nothing."""
import time

import footprint
import profiles

MEMORY_KIB = 256  # of the process that made the boxes; a leak of a few bytes per box would be more
SETTLE_S = 2      # for what the kernel frees a little later


def in_one_process(c, boxes):
    points = c.user.json([c.stage.program("box_bench"), "leftovers", boxes])
    columns = ["descriptors", "memory", "mounts", "children"]
    c.report.table("boxes by one process", ["descriptors", "memory KiB", "mounts", "children"],
                   [[f"after {point['boxes']:,}", *(point[column] for column in columns)]
                    for point in (points[0], points[1], points[len(points) // 2], points[-1])])
    for column in columns:
        limit = MEMORY_KIB if column == "memory" else 0
        unit = " KiB" if column == "memory" else ""
        c.report.target(f"growth of {column} after the first tenth", points[-1][column] - points[1][column], limit, unit)


def by_processes(c, runs):
    c.user.json([c.stage.program("oneshot"), "time", runs, *profiles.lines({"hutch run": profiles.hutch(c.stage, c.user.workspace)})])


def leftovers(c):
    boxes, runs = (1_000, 100) if c.quick else (10_000, 1_000)
    footprint.adopt_orphans()
    before = footprint.take(c.user)
    in_one_process(c, boxes)
    by_processes(c, runs)
    time.sleep(SETTLE_S)
    after = footprint.take(c.user)
    c.report.table(f"host, {boxes:,} boxes and {runs:,} runs", ["before", "after"],
                   [[name, before[name], after[name]] for name in before])
    for name in ("processes", "mounts", "files"):
        c.report.target(f"growth of {name} on the host", after[name] - before[name], 0, "")
    c.report.target("control groups kept for reuse", after["control groups"], footprint.GROUPS_MAX, "")
