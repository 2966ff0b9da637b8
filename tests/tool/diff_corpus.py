"""Random repositories, edits and drifted targets, by seed: what test_diff_corpus.py applies diffs to.

A tree is a dict of path → (kind, bytes), where kind is "file", "exec" or "link". A case has the tree before and after
an edit, the options that git makes the diff of it with, and the tree that the diff is applied to: the one before, or
one that has drifted away from it.
"""
import random
import subprocess

WORDS = ["alpha", "beta", "gamma", "delta", "return 0;", "}", "{", "", "\tif (x)", "    pass", "# note", "end"]
NAMES = ["main.c", "lib/util.c", "lib/deep/er/x.py", "README", "two words.txt", "d i r/f", "b/inner.txt", "a/other.txt",
         "ümlaut.txt", 'quo"te', "tab\tname", "data.bin", "run.sh", "Makefile", "src/a.h", "src/b.h"]


class Case:
    def __init__(self, seed):
        self.seed = seed
        rng = random.Random(seed)
        self.old = {name: make_file(rng, name) for name in rng.sample(NAMES, rng.randint(1, 5))}
        self.new = edit_tree(rng, dict(self.old))
        drifts = rng.random() < 0.6 and not swaps_folders(self.old, self.new)
        self.target = drift_tree(rng, dict(self.old), self.new) if drifts else dict(self.old)
        self.options = ["-U%d" % rng.choice([0, 1, 2, 3, 3, 3, 3, 5, 10])]
        self.options.append(rng.choice(["-M", "-M", "--no-renames", "-C"]))
        self.options.append(rng.choice(["--binary", "--binary", "--binary", "--full-index"]))
        self.strip = 1
        if rng.random() < 0.25:
            self.options.append("--no-prefix")
            self.strip = 0


def swaps_folders(old, new):
    """Does a file become a folder, or a folder a file? patch cannot do that, so git alone is to say what is right."""
    return any(b.startswith(a + "/") or a.startswith(b + "/") for a in old for b in new)


def make_lines(rng):
    count = rng.choice([0, 1, 2, 3, 8, 15, 30, 30, 60, 200])
    lines = [rng.choice(WORDS) if rng.random() < 0.5 else f"line {rng.randrange(1000)}" for _ in range(count)]
    end = rng.choice(["\n", "\n", "\n", "\r\n"])
    text = "".join(line + end for line in lines)
    return text[:-len(end)] if lines and rng.random() < 0.2 else text


def make_bytes(rng):
    return bytes(rng.randrange(256) for _ in range(rng.choice([1, 20, 300]))) + b"\0"


def make_file(rng, name):
    if name.endswith(".bin") or rng.random() < 0.05:
        return ("file", make_bytes(rng))
    if rng.random() < 0.04:
        return ("link", rng.choice([b"some/where", b"../up", b"nowhere"]))
    return ("exec" if rng.random() < 0.15 else "file", make_lines(rng).encode())


def edit_text(rng, data, changes):
    """Inserts, deletes and replaces lines here and there."""
    lines = data.splitlines(keepends=True)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    for _ in range(changes):
        at = rng.choice([0, len(lines), rng.randint(0, len(lines)), rng.randint(0, len(lines))])
        fresh = [f"{rng.choice(WORDS)} {rng.randrange(100)}".encode() + end for _ in range(rng.randint(1, 3))]
        kind = rng.randrange(3)
        if kind == 0 or not lines:
            if at == len(lines) and lines and not lines[-1].endswith(b"\n"):
                lines[-1] += end
            lines[at:at] = fresh
        else:
            at = min(at, len(lines) - 1)
            lines[at:at + rng.randint(1, 3)] = fresh if kind == 1 else []
    return b"".join(lines)


def toggle_last_newline(data):
    if data.endswith(b"\n"):
        return data.removesuffix(b"\n").removesuffix(b"\r")
    return data + b"\n" if data else data


def edit_file(rng, kind, data):
    choice = rng.random()
    if kind == "link":
        return ("link", b"nowhere" if data != b"nowhere" else b"there") if choice < 0.7 else ("file", b"was a link\n")
    if choice < 0.62:
        return (kind, make_bytes(rng) if b"\0" in data else edit_text(rng, data, rng.randint(1, 4)))
    if choice < 0.70:
        return (kind, toggle_last_newline(data))
    if choice < 0.75:
        return (kind, data.replace(b"\r\n", b"\n") if b"\r\n" in data else data.replace(b"\n", b"\r\n"))
    if choice < 0.88:
        return ("file" if kind == "exec" else "exec", data)
    if choice < 0.92:
        return (kind, b"")
    if choice < 0.95:
        return ("link", b"nowhere")
    return ("exec" if kind == "file" else "file", edit_text(rng, data, 1))


def fits(tree, name):
    """Can a file of this name be in the tree: neither a file nor a folder is in its way."""
    return name not in tree and not any(
        other.startswith(name + "/") or name.startswith(other + "/") for other in tree)


def edit_tree(rng, tree):
    for _ in range(rng.randint(1, 4)):
        name = rng.choice(sorted(tree)) if tree else None
        choice = rng.random()
        if name is None or choice < 0.12:
            fresh = rng.choice(NAMES)
            if fits(tree, fresh):
                tree[fresh] = make_file(rng, fresh)
        elif choice < 0.22:
            del tree[name]
        elif choice < 0.36:
            move(rng, tree, name)
        elif choice < 0.40:
            become_folder(rng, tree, name)
        else:
            tree[name] = edit_file(rng, *tree[name])
    return tree


def move(rng, tree, name):
    fresh = rng.choice(["moved.txt", "lib/moved.c", "new/place/it", *NAMES])
    kind, data = tree[name]
    if rng.random() < 0.4 and kind != "link":
        data = edit_text(rng, data, 1) if b"\0" not in data else data
    if fits({k: v for k, v in tree.items() if k != name}, fresh):
        if rng.random() < 0.8:
            del tree[name]
        tree[fresh] = (kind, data)
    elif fresh in tree and fresh != name:
        tree[name], tree[fresh] = tree[fresh], tree[name]


def become_folder(rng, tree, name):
    """A file where a folder was, or a folder where a file was."""
    top = name.split("/")[0]
    if top != name:
        for other in [other for other in tree if other.startswith(top + "/")]:
            del tree[other]
        tree[top] = ("file", b"a file now\n")
    else:
        content = tree.pop(name)
        tree[name + "/inside"] = content if rng.random() < 0.5 else ("file", b"inside\n")


def drift_tree(rng, tree, new):
    """What somebody else did to the tree before the diff came."""
    for _ in range(rng.choice([1, 1, 2])):
        if not tree:
            break
        name = rng.choice(sorted(tree))
        kind, data = tree[name]
        choice = rng.random()
        if choice < 0.75 and kind != "link" and b"\0" not in data:
            tree[name] = (kind, edit_text(rng, data, rng.choice([1, 1, 1, 2, 3])))
        elif choice < 0.80:
            tree[name] = (kind, toggle_last_newline(data))
        elif choice < 0.84 and kind != "link":
            tree[name] = ("file" if kind == "exec" else "exec", data)
        elif choice < 0.87:
            del tree[name]
        elif choice < 0.92 and name in new:
            tree[name] = new[name]
        elif kind != "link":
            tree[name] = (kind, data.replace(b"\n", b"\r\n") if rng.random() < 0.3 else data + b"\0")
        for fresh in sorted(new):
            if fresh not in tree and fits(tree, fresh) and rng.random() < 0.05:
                tree[fresh] = ("file", b"in the way\n")
    return tree


MODES = {"file": b"100644", "exec": b"100755", "link": b"120000"}


def quoted(name):
    return b'"' + b"".join(b"\\%03o" % byte if byte in b'"\\' or byte < 32 else bytes([byte]) for byte in name.encode()) + b'"'


def commit_stream(tree, ref):
    """A tree as one commit in the language of git fast-import."""
    parts = [b"commit " + ref.encode() + b"\ncommitter a <a@b> 1000000000 +0000\ndata 0\n"]
    for name, (kind, data) in sorted(tree.items()):
        parts.append(b"M %s inline %s\ndata %d\n%s\n" % (MODES[kind], quoted(name), len(data), data))
    return b"".join(parts) + b"\n"


def make_repository(folder, cases, env):
    """All trees of all cases in one repository: refs/o/SEED and refs/n/SEED."""
    subprocess.run(["git", "init", "-q", "--bare", folder], check=True, env=env)
    stream = b"".join(
        commit_stream(case.old, f"refs/o/{case.seed}") + commit_stream(case.new, f"refs/n/{case.seed}") for case in cases)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=stream, check=True, env=env)


def make_diff(folder, case, env):
    done = subprocess.run(["git", "diff", *case.options, f"refs/o/{case.seed}", f"refs/n/{case.seed}"], cwd=folder, env=env,
                          check=True, capture_output=True)
    return done.stdout
