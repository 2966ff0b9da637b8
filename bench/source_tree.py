"""A tree of generated source text: the same bytes each time, from a seed."""
import os
import random

KINDS = ["c", "h", "py", "js", "rs", "go", "md", "json"]
LETTERS = "abcdefghijklmnopqrstuvwxyz_"
PER_FOLDER = 25
ONE_IN = 50  # files that hold a line to be found


def make_words(chance, count):
    return ["".join(chance.choice(LETTERS) for _ in range(chance.randint(2, 12))) for _ in range(count)]


def make_lines(chance, words, count):
    ends = [";", " {", "}", ":", "", ", 0);"]
    return [" " * (4 * chance.randint(0, 4)) + " ".join(chance.choices(words, k=chance.randint(1, 9))) + chance.choice(ends)
            for _ in range(count)]


def make_file(chance, lines):
    body = chance.choices(lines, k=int(chance.lognormvariate(4.2, 0.8)) + 3)
    if chance.randrange(ONE_IN) == 0:
        body[len(body) // 2] = f"    result = needle_function(context, {chance.randint(0, 9999)});"
    return "\n".join(body) + "\n"


def make(top, files, seed=3):
    """`files` files of about 4 KB each, 25 in a folder, 40 folders at the top, and a .gitignore that names some."""
    chance = random.Random(seed)
    words = make_words(chance, 4000)
    lines = make_lines(chance, words, 20000)
    made = 0
    while made < files:
        number = made // PER_FOLDER
        folder = top / f"part{number % 40:02}" / f"module{number:04}"
        folder.mkdir(parents=True)
        for _ in range(min(PER_FOLDER, files - made)):
            name = f"{chance.choice(words).strip('_') or 'x'}_{made}.{chance.choice(KINDS)}"
            (folder / name).write_text(make_file(chance, lines))
            made += 1
    (top / ".gitignore").write_text("*.o\n/build/\nnode_modules/\n*.log\n!keep.log\n")
    for parent, folders, names in os.walk(top):
        os.chmod(parent, 0o755)
        for name in names:
            os.chmod(os.path.join(parent, name), 0o644)
    return top
