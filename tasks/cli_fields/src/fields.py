"""fields LIST [-d CHAR]: of each line of the input print the fields that LIST names, in the order of the list.

LIST is numbers and ranges with commas between them: 1,4-6. Exit status: 0, or 2 if the command line is wrong.
"""

import sys


class Usage(Exception):
    """What is wrong with the command line."""


def parse_list(text):
    """[(first, last), …], fields counted from 1."""
    ranges = []
    for item in text.split(","):
        first, dash, last = item.partition("-")
        if not first.isdecimal() or dash and not last.isdecimal():
            raise Usage(f"bad field list: {text}")
        ranges.append((int(first), int(last if dash else first)))
    return ranges


def parse_arguments(arguments):
    """(ranges, delimiter)"""
    delimiter, rest = "\t", list(arguments)
    if "-d" in rest:
        at = rest.index("-d")
        if len(rest[at + 1:at + 2]) != 1 or len(rest[at + 1]) != 1:
            raise Usage("-d needs one character")
        delimiter = rest[at + 1]
        del rest[at:at + 2]
    if len(rest) != 1:
        raise Usage("usage: fields LIST [-d CHAR]")
    return parse_list(rest[0]), delimiter


def select(fields, ranges):
    """The chosen fields; those that the line does not have are left out."""
    return [field for first, last in ranges for field in fields[first - 1:last]]


def main(arguments, source, target, errors):
    try:
        ranges, delimiter = parse_arguments(arguments)
    except Usage as wrong:
        print(f"fields: {wrong}", file=errors)
        return 2
    for line in source:
        print(*select(line.rstrip("\n").split(delimiter), ranges), sep=delimiter, file=target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin, sys.stdout, sys.stderr))
