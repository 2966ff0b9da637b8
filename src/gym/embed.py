"""Writes text files, one behind the other, as one C string: embed.py NAME HEADER TARGET SOURCE..."""
import sys

name, header, target, _, *sources = sys.argv[1:]  # @INPUT@ begins with this program
ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "?": "\\?"}
with open(target, "w", encoding="utf-8") as out:
    out.write('#include "%s"\n\nconst char %s[] =\n' % (header, name))
    for source in sources:
        with open(source, encoding="utf-8") as file:
            for line in file:
                out.write('    "%s\\n"\n' % "".join(ESCAPES.get(c, c) for c in line.rstrip("\n")))
        out.write('    "\\n\\n"\n')
    out.write("    ;\n")
