"""One shot: a program that makes a sandbox, runs `true` in it and ends."""
import profiles


def start(c):
    workspace = c.user.workspace
    named = {"hutch run": profiles.hutch(c.stage, workspace), **profiles.all_bwraps(c.stage, workspace),
             "posix_spawn": ["true"]}
    series = c.user.json([c.stage.program("oneshot"), "time", 50 if c.quick else 300, *profiles.lines(named)])
    c.report.times("start to end of true", series, "hutch run")
    if "bwrap" in series:
        c.report.ratio("hutch run true", series, "hutch run", "bwrap", 0.80)
