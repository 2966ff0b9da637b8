"""Writes a text file as a C string: embed.py NAME SOURCE TARGET."""
import sys

name, source, target = sys.argv[1:]
ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "?": "\\?"}
with open(source, encoding="utf-8") as file:
    lines = file.read().split("\n")
with open(target, "w", encoding="utf-8") as out:
    out.write('#include "grade.h"\n\nconst char %s[] =\n' % name)
    for line in lines[:-1]:
        out.write('    "%s\\n"\n' % "".join(ESCAPES.get(c, c) for c in line))
    out.write("    ;\n")
