"""What a box costs while nothing happens in it."""


def memory(c):
    boxes = 50 if c.quick else 200
    got = c.user.json([c.stage.program("box_bench"), "idle", boxes])
    rows = [["guest, proportional share", got["share_kib"] / boxes],
            ["kernel and files in memory, whole host", got["kernel_kib"] / boxes],
            ["less available, whole host", got["host_kib"] / boxes],
            ["the process that holds the boxes", got["own_kib"] / boxes]]
    c.report.table(f"{boxes} idle boxes, each", ["KiB"], rows)
    c.report.table("", ["each"], [["descriptors of the holder", got["descriptors"] / boxes]])
