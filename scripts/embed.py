"""Writes files, one behind the other, as one C string: embed.py NAME HEADER TARGET SOURCE...

Python files as they are; a shared object as a text in base64, called JUDGE."""
import base64
import sys

name, header, target, _, *sources = sys.argv[1:]  # @INPUT@ begins with this program
ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "?": "\\?"}


def lines_of(source):
    with open(source, "rb") as file:
        content = file.read()
    if not source.endswith(".so"):
        return content.decode().split("\n")
    text = base64.b64encode(content).decode()
    return ["JUDGE = (", *(f'    "{text[i:i + 76]}"' for i in range(0, len(text), 76)), ")"]


with open(target, "w", encoding="utf-8") as out:
    out.write('#include "%s"\n\nconst char %s[] =\n' % (header, name))
    for source in sources:
        for line in lines_of(source):
            out.write('    "%s\\n"\n' % "".join(ESCAPES.get(c, c) for c in line))
        out.write('    "\\n"\n')
    out.write("    ;\n")
