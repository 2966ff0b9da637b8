"""What was measured, as aligned tables for a person or one JSON document for a program."""
import json


def percentile(values, percent):
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def show(value):
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 10 else \
        f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


class Report:
    def __init__(self, quiet=False):
        self.quiet = quiet
        self.document = {"host": {}, "sections": []}

    def say(self, text=""):
        if not self.quiet:
            print(text, flush=True)

    def host(self, about):
        self.document["host"] = about
        self.say(" · ".join(f"{key} {value}" for key, value in about.items()))

    def section(self, name, user):
        self.current = {"name": name, "user": user, "tables": [], "targets": []}
        self.document["sections"].append(self.current)
        self.say(f"\n── {name}, as {user} " + "─" * max(4, 60 - len(name) - len(user)))

    def table(self, title, columns, rows):
        """Rows are lists whose first cell is a name; the others are numbers, text or None."""
        self.current["tables"].append({"title": title, "rows": [dict(zip(["name", *columns], row)) for row in rows]})
        cells = [[title, *columns]] + [[show(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        for row in cells:
            first = row[0].ljust(widths[0])
            self.say(f"  {first}  " + "  ".join(cell.rjust(width) for cell, width in zip(row[1:], widths[1:])))

    def times(self, title, series, subject=None):
        """Percentiles of nanoseconds; and the subject's median over each other's."""
        columns = ["p50 ms", "p95 ms"] + ([f"{subject} ÷ this"] if subject else [])
        medians = {name: percentile(values, 50) for name, values in series.items()}
        rows = []
        for name, values in series.items():
            row = [name, medians[name] / 1e6, percentile(values, 95) / 1e6]
            if subject:
                row.append(None if name == subject else f"{medians[subject] / medians[name]:.2f}×")
            rows.append(row)
        self.table(title, columns, rows)

    def target(self, what, got, limit, unit, at_least=False):
        """One promise: said, never enforced."""
        met = got >= limit if at_least else got <= limit
        self.current["targets"].append({"what": what, "got": got, "limit": limit, "unit": unit, "met": met})
        number = "{:.2f}" if isinstance(limit, float) else "{:,}"
        sign = "≥" if at_least else "≤"
        self.say(f"  {what}: target {sign} {number.format(limit)}{unit}  got {number.format(got)}{unit}  "
                 + ("ok" if met else "MISS"))

    def ratio(self, what, series, subject, reference, limit):
        got = percentile(series[subject], 50) / percentile(series[reference], 50)
        self.target(f"{what}, p50 against {reference}", got, limit, "×")

    def failed(self, text):
        self.current["failed"] = text
        self.say(f"  FAILED: {text}")

    def print_json(self):
        print(json.dumps(self.document, indent=1, ensure_ascii=False))
