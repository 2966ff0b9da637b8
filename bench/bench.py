#!/usr/bin/env python3
"""Measures hutch against bubblewrap, bare posix_spawn and a bare agent's loop: `make bench`, or

    bench.py BUILD [SECTION…] [--quick] [--json] [--only-me]

Started by root, every section runs twice: as root, and as an ordinary user. What is compared is measured in one
interleaved run by small C programs (oneshot, box_bench, tool_bench); Python starts those and prints the tables. A target that is
missed is said, but is no failure: times depend on the machine and on what else it does.
"""
import argparse
import sys
from pathlib import Path

import host
import report
import sections


def parse(argv):
    parser = argparse.ArgumentParser(prog="bench.py", description="Measures hutch; see docs/promises.md.")
    parser.add_argument("build", type=Path, help="build folder made with -Dbench=true")
    parser.add_argument("section", nargs="*", help=f"of: {', '.join(sections.ALL)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works, not for numbers")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--only-me", action="store_true", help="as root: leave out the ordinary user")
    args = parser.parse_intermixed_args(argv)
    unknown = set(args.section) - set(sections.ALL)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(sections.ALL)}")
    return args


def main(argv):
    args = parse(argv)
    out = report.Report(quiet=args.json)
    out.host(host.describe())
    with host.Stage(args.build) as stage:
        for user in host.users(stage, args.only_me):
            for name in args.section or sections.ALL:
                out.section(name, user.name)
                try:
                    sections.ALL[name](sections.Context(stage, user, out, args.quick))
                except host.Failed as failure:
                    out.failed(str(failure))
    if args.json:
        out.print_json()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
