"""The store of jobs: durable submissions together and alone, and a lease from a long queue."""
from report import percentile

THREADS, TARGET = 32, 10.0


def jobs(c):
    seconds, queue = (2, 2_000) if c.quick else (10, 100_000)
    got = c.user.json([c.stage.program("jobs_bench"), c.user.home / "jobs", THREADS, seconds, queue])
    rates = {name: float(percentile(got[name], 50)) for name in ("together", "alone")}
    c.report.table(f"durable submissions, {THREADS} threads", ["per second"],
                   [["committed together", rates["together"]], ["each committed alone", rates["alone"]]])
    c.report.times(f"{got['waiting']:,} jobs wait", {"lease one": got["lease"], "read one": got["get"],
                                                            "finish one": got["finish"]})
    c.report.target("submissions together against each alone", rates["together"] / rates["alone"], TARGET, "×",
                    at_least=True)
