"""A person and a box work on one folder, at random: files, folders, links, moves, swaps, modes; then the box's changes are applied,
sometimes while the person goes on saving. Every text that the person writes has a number of its own. A number that the box never
read in a file of that path must be in the folder afterwards, in the file where it was, whatever the box did.

HUTCH_RANDOM_ROUNDS sets the number of rounds, HUTCH_RANDOM_SEED where they start."""
import json
import os
import random
import re
import shutil
import threading

import pytest

from test_box import Boxes, boxes  # noqa: F401 (a fixture)

ROUNDS = int(os.environ.get("HUTCH_RANDOM_ROUNDS", "100"))
SEED = int(os.environ.get("HUTCH_RANDOM_SEED", "1"))
ROUNDS_PER_BOX = 8
NAMES = ["a", "b", "c", "d"]
NUMBER = re.compile(rb"^number (\d+)$", re.M)

# What both of them do. Functions get the folder, a source of chance and a function that makes a text.
ACTIONS = r'''
import os, random, shutil

def entries(top, want):
    found = []
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            if not os.path.basename(path).startswith(".hutch-") and want(path):
                found.append(path)
    return sorted(found)

def is_file(path):
    return os.path.isfile(path) and not os.path.islink(path)

def is_folder(path):
    return os.path.isdir(path) and not os.path.islink(path)

def free_path(top, dice):
    folders = [top] + entries(top, is_folder)
    for _ in range(20):
        folder = dice.choice(folders)
        path = os.path.join(folder, dice.choice(NAMES))
        if path.count("/") - top.count("/") <= 4 and not os.path.lexists(path):
            return path
    return None

def write(path, text):
    with open(path, "wb") as file:
        file.write(text)

def read(path):
    with open(path, "rb") as file:
        return file.read()

def do_create(top, dice, text, look):
    path = free_path(top, dice)
    if path:
        write(path, text(b""))

def do_mkdir(top, dice, text, look):
    path = free_path(top, dice)
    if path:
        os.mkdir(path, dice.choice([0o755, 0o700]))

def do_overwrite(top, dice, text, look):
    path = pick(top, dice, is_file)
    if path:
        look(path)
        write(path, text(b""))

def edited(dice, old, text):
    lines = old.splitlines(keepends=True)
    at = dice.randrange(len(lines) + 1)
    return b"".join(lines[:at]) + text(b"") + b"".join(lines[at:])

def do_edit(top, dice, text, look):
    path = pick(top, dice, is_file)
    if path:
        write(path, edited(dice, look(path), text))

def do_save_by_rename(top, dice, text, look):
    path = pick(top, dice, is_file)
    if path:
        new = edited(dice, look(path), text)
        write(path + ".save", new)
        os.rename(path + ".save", path)

def do_delete(top, dice, text, look):
    path = pick(top, dice, lambda path: not is_folder(path))
    if path:
        look(path)
        os.unlink(path)

def do_delete_folder(top, dice, text, look):
    path = pick(top, dice, is_folder)
    if path:
        look(path)
        shutil.rmtree(path)

def do_move(top, dice, text, look):
    path, to = pick(top, dice, lambda path: True), free_path(top, dice)
    if path and to and not (to + "/").startswith(path + "/"):
        look(path)
        shutil.move(path, to)

def do_swap(top, dice, text, look):
    folders = [path for path in entries(top, is_folder)]
    if len(folders) < 2:
        return
    one, two = dice.sample(folders, 2)
    if (one + "/").startswith(two + "/") or (two + "/").startswith(one + "/"):
        return
    if os.path.lexists(one + ".swap"): # left by a swap that failed: it would be moved unread
        return
    look(one)
    look(two)
    shutil.move(one, one + ".swap")
    shutil.move(two, one)
    shutil.move(one + ".swap", two)

def do_move_over(top, dice, text, look):
    folders = entries(top, is_folder)
    if len(folders) < 2:
        return
    gone, other = dice.sample(folders, 2)
    if not (gone + "/").startswith(other + "/") and not (other + "/").startswith(gone + "/"):
        look(gone)
        look(other)
        shutil.rmtree(gone)
        shutil.move(other, gone)

def do_replace(top, dice, text, look):
    path = pick(top, dice, lambda path: True)
    if not path:
        return
    look(path)
    if is_folder(path):
        shutil.rmtree(path)
        write(path, text(b""))
    else:
        os.unlink(path)
        os.mkdir(path)

def do_chmod(top, dice, text, look):
    path = pick(top, dice, lambda path: not os.path.islink(path))
    if path:
        os.chmod(path, dice.choice([0o755, 0o700] if is_folder(path) else [0o644, 0o755, 0o600]))

def do_symlink(top, dice, text, look):
    path = free_path(top, dice)
    if path:
        os.symlink(dice.choice(["a", "../b", "/etc/passwd", "nowhere"]), path)

def do_link(top, dice, text, look):
    path, to = pick(top, dice, is_file), free_path(top, dice)
    if path and to:
        look(path)
        os.link(path, to)

def pick(top, dice, want):
    found = entries(top, want)
    return dice.choice(found) if found else None

DOES = [do_create, do_create, do_mkdir, do_overwrite, do_edit, do_edit, do_edit, do_save_by_rename, do_save_by_rename,
        do_delete, do_delete_folder, do_delete_folder, do_move, do_swap, do_swap, do_move_over, do_move_over, do_replace, do_chmod,
        do_symlink, do_link]

def act(top, dice, text, look, count):
    for _ in range(count):
        try:
            dice.choice(DOES)(top, dice, text, look)
        except (OSError, shutil.Error):
            pass # somebody else was faster, or the overlay shows a folder that is gone
'''

# The box tells all that it read of what it changed.
IN_BOX = f"NAMES = {NAMES!r}\n" + ACTIONS + r'''
import json, sys
dice, seen, made = random.Random(int(sys.argv[1])), [], [0]

def text(old):
    made[0] += 1
    return b"box %s %d\n" % (sys.argv[1].encode(), made[0])

def look(path):
    old = b""
    for one in [path] if not is_folder(path) else entries(path, is_file):
        if is_file(one):
            old = read(one)
            names = [one]
            if os.stat(one).st_nlink > 1: # a write to it changes the file at all of its names
                names = entries("/workspace", lambda path: is_file(path) and os.path.samefile(path, one))
            seen.extend([os.path.relpath(name, "/workspace"), old.decode()] for name in names)
    return old

act("/workspace", dice, text, look, int(sys.argv[2]))
print(json.dumps(seen))
'''

scope = {"NAMES": NAMES}
exec(ACTIONS, scope)


class Person:
    """Works in the folder, as its owner."""

    def __init__(self, box, dice):
        self.box, self.dice, self.made = box, dice, 0
        self.lock = threading.Lock()

    def text(self, old):
        with self.lock:
            self.made += 1
            return b"number %d\n" % self.made

    def own_all(self):
        for path in scope["entries"](str(self.box.workspace), lambda path: True):
            try:
                if os.lstat(path).st_uid != self.box.caller.uid:
                    os.lchown(path, self.box.caller.uid, self.box.caller.gid)
            except FileNotFoundError:
                pass

    def work(self, count):
        look = lambda path: scope["read"](path) if scope["is_file"](path) else b""  # noqa: E731
        scope["act"](str(self.box.workspace), self.dice, self.text, look, count)
        self.own_all()

    def settle_in(self):
        """A few folders with files in them."""
        for top in NAMES[:3]:
            for path in (top, f"{top}/a", f"{top}/b"):
                os.mkdir(self.box.workspace / path)
                for name in NAMES[2:]:
                    scope["write"](self.box.workspace / path / name, self.text(b"") + b"line\n" * 3 + self.text(b""))
        self.own_all()

    def save_until(self, done, saved):
        """Saves files, in place and by rename, until the apply is over. Notes the last number of each path."""
        dice = random.Random(self.dice.random())
        while not done.is_set():
            path = scope["pick"](str(self.box.workspace), dice, scope["is_file"])
            if not path:
                return
            text = self.text(b"")
            try:
                if dice.random() < 0.5:
                    with open(path, "r+b") as file:
                        file.truncate()
                        file.write(text)
                else:
                    scope["write"](path + ".save", text)
                    os.rename(path + ".save", path)
                saved[os.path.relpath(path, self.box.workspace)] = text
                saved.setdefault("", set()).add(text)
            except OSError:
                pass


def scan(folder):
    """{path: bytes} of all files."""
    top = str(folder)
    return {os.path.relpath(path, top): scope["read"](path) for path in scope["entries"](top, scope["is_file"])}


def numbers(text):
    return set(NUMBER.findall(text))


def check(before, after, saved, seen, said):
    """Nothing that the box never read may be gone. A save in place shows at all names of a file."""
    texts = saved.pop("", set())
    for path, text in before.items():
        if path in saved or after.get(path) in texts:
            continue
        unseen = {number for number in numbers(text) if (path, number) not in seen}
        if after.get(path) != text:
            kept = unseen <= numbers(after.get(path, b""))
            assert kept, f"LOST {sorted(unseen)} of {path}: {text!r} became {after.get(path)!r}; saved {sorted(saved)}; {said}"
    for path, text in saved.items():
        newest = max(map(int, numbers(after.get(path, b""))), default=0)
        assert newest >= int(NUMBER.match(text)[1]), f"LOST the save {text!r} of {path}: {after.get(path)!r}"


def play_round(boxes, person, box, seed, seen):
    folder = boxes.box.workspace
    dice = random.Random(seed)
    person.work(dice.randrange(4))
    read = json.loads(boxes.sh(box, f"exec /usr/bin/python3 -c '{IN_BOX_QUOTED}' {seed} {dice.randrange(1, 6)}"))
    for path, text in read:
        seen |= {(path, number) for number in numbers(text.encode())}
    person.work(dice.randrange(4))
    before, saved, done = scan(folder), {}, threading.Event()
    saver = threading.Thread(target=person.save_until, args=(done, saved))
    if dice.random() < 0.4:
        saver.start()
    result = boxes("apply", box)
    done.set()
    if saver.ident:
        saver.join()
        person.own_all()
    after = scan(folder)
    assert result.returncode in (0, 1), result
    check(before, after, saved, seen, result.stderr)
    assert not [path for path in folder.rglob(".hutch-*")]
    if result.returncode == 1 and dice.random() < 0.5:
        choice = dice.choice(["mine", "mine", "markers"])
        resolved = boxes("apply", box, "--on-conflict", choice)
        assert resolved.returncode in (0, 1), resolved
        check(after, scan(folder), {}, seen, resolved.stderr)
    if dice.random() < 0.3:
        now = scan(folder)
        assert boxes("sync", box).returncode in (0, 1)
        assert scan(folder) == now, "sync changed the folder"


IN_BOX_QUOTED = IN_BOX.replace("'", "'\\''")


def test_nothing_is_lost_that_the_box_has_not_read(boxes):
    folder = boxes.box.workspace
    person = Person(boxes.box, random.Random(SEED))
    box = None
    for number in range(ROUNDS):
        if number % ROUNDS_PER_BOX == 0:
            if box:
                boxes.ok("rm", box)
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            person.settle_in()
            box, seen = boxes.new(), set()
        try:
            play_round(boxes, person, box, SEED * 1000003 + number, seen)
        except AssertionError as failure:
            pytest.fail(f"round {number} of seed {SEED}: {failure}")
