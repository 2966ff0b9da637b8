"""The scribe: what it says of a box's changes, on real overlays, and that git itself agrees with its diffs."""

import errno
import os
import random
import socket
import stat
import subprocess
import time

import pytest

import wire
from world import World, as_git_sees, git_apply, listing

ADDED, MODIFIED, DELETED = 1, 2, 3
NAMES = {ADDED: "added", MODIFIED: "modified", DELETED: "deleted"}


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.end()


def write(folder, files):
    for path, content in files.items():
        full = os.path.join(os.fsencode(folder), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())


def fill(world, files):
    write(world.path("w/base"), files)
    world.mount()
    return world.path("w/merged")


def kinds(world):
    return {e["PATH"].decode("utf-8", "surrogateescape"): NAMES[e["KIND"]] for e in world.changes()}


def check_diff(world, tmp_path):
    """git makes of the base and the diff what the box made of it."""
    patch, result = world.diff()
    made = git_apply(world.path("w/base"), patch, str(tmp_path / f"git{time.monotonic_ns()}"))
    assert as_git_sees(listing(made)) == as_git_sees(listing(world.path("w/merged")))
    return patch.decode("utf-8", "surrogateescape")


# Changes


def test_ping_and_unknown(world):
    world.mount()
    assert world.call("PING")[0] == "RESULT"
    kind, fields, _, _ = world.call("EXEC")
    assert (kind, fields["CODE"]) == ("ERROR", errno.ENOSYS)
    assert world.call("PING")[0] == "RESULT"


def test_nothing_changed(world):
    fill(world, {"a": "a", "d/b": "b"})
    assert world.changes() == []
    assert world.diff() == (b"", {"COUNT": 0})


def test_kinds(world):
    m = fill(world, {"same": "1", "mod": "1", "gone": "1", "mode": "1", "d/x": "1", "d/y/z": "1", "e/f": "1"})
    write(m, {"new": "22", "mod": "2", "n/e/w": ""})
    os.unlink(f"{m}/gone")
    os.chmod(f"{m}/mode", 0o755)
    os.symlink("to", f"{m}/link")
    subprocess.run(["rm", "-r", f"{m}/d"], check=True)
    os.mkdir(f"{m}/empty")
    entries = world.changes()
    assert kinds(world) == {
        "new": "added", "mod": "modified", "n/e/w": "added", "gone": "deleted", "mode": "modified", "link": "added",
        "d/x": "deleted", "d/y/z": "deleted", "empty": "added"}
    paths = [e["PATH"] for e in entries]
    assert paths == sorted(paths)
    by = {e["PATH"]: e for e in entries}
    assert by[b"new"]["SIZE"] == 2 and stat.S_ISREG(by[b"new"]["MODE"])
    assert by[b"link"]["TARGET"] == b"to" and stat.S_ISLNK(by[b"link"]["MODE"])
    assert by[b"d/x"]["COUNT"] == 1 and by[b"d/y/z"]["COUNT"] == 2
    assert stat.S_ISDIR(by[b"empty"]["MODE"])


def test_copy_up_is_no_change(world):
    m = fill(world, {"a": "same", "d/b": "b", "l": "x"})
    with open(f"{m}/a", "r+b") as file:
        file.write(b"same")
    os.chmod(f"{m}/d", 0o700)
    os.utime(f"{m}/l")
    assert os.path.exists(world.path("w/l0/a"))
    assert world.changes() == []
    assert world.diff()[0] == b""


def test_folder_replaced_by_another(world, tmp_path):
    m = fill(world, {"d/a": "1", "d/b": "2", "d/s/c": "3", "d/s/k": "4"})
    subprocess.run(["rm", "-r", f"{m}/d"], check=True)
    write(m, {"d/b": "2", "d/s/c": "33", "d/new": "n"})
    assert kinds(world) == {"d/a": "deleted", "d/s/c": "modified", "d/s/k": "deleted", "d/new": "added"}
    check_diff(world, tmp_path)


def test_types_trade_places(world, tmp_path):
    m = fill(world, {"f2d": "1\n", "d2f/a": "1\n", "d2f/b/c": "2\n", "f2l": "x\n", "d2l/q": "1\n", "f2e": "9\n"})
    os.symlink("x", world.path("w/base/l2f"))
    os.symlink("x", world.path("w/base/l2d"))
    os.mkdir(world.path("w/base/e2f"))
    world.unmount()
    world.mount()
    subprocess.run("rm -r *; mkdir f2d l2d f2e; echo 1 > f2d/x; echo 2 > l2d/x; echo 1 > d2f; ln -s a f2l; ln -s b d2l;"
                   "echo l > l2f; echo f > e2f", shell=True, cwd=m, check=True)
    found = [(e["PATH"].decode(), NAMES[e["KIND"]], stat.S_IFMT(e["MODE"]) >> 12) for e in world.changes()]
    assert found == [
        ("d2f", "added", 8), ("d2f/a", "deleted", 8), ("d2f/b/c", "deleted", 8),
        ("d2l", "added", 10), ("d2l/q", "deleted", 8),
        ("e2f", "deleted", 4), ("e2f", "added", 8),
        ("f2d", "deleted", 8), ("f2d/x", "added", 8),
        ("f2e", "deleted", 8), ("f2e", "added", 4),
        ("f2l", "modified", 10),
        ("l2d", "deleted", 10), ("l2d/x", "added", 8), ("l2f", "modified", 8)]
    check_diff(world, tmp_path)


def test_special_files_and_odd_names(world, tmp_path):
    m = os.fsencode(fill(world, {"keep": "1", "sp ace": "1\n", 'q"uo\\te': "1\n"}))
    odd = [b"new\nline", b"esc\x1b[31m", b"bad\xff\xfeutf8", b"\xc3\xa9t\xc3\xa9", b"n" * 255, b"tab\tx", b" lead ", b"a => b",
           b"-rf", b"\x7f", b"{x}", b"a b/c d"]
    for name in odd:
        write(m, {name: name + b"\n"})
    write(m, {b"sp ace": "2\n", b'q"uo\\te': "2\n"})
    os.mkfifo(m + b"/fifo")
    sock = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(m)
    sock.bind("sock")
    os.chdir(here)
    sock.close()
    entries = {e["PATH"]: e for e in world.changes()}
    assert set(odd) < set(entries)
    assert stat.S_ISFIFO(entries[b"fifo"]["MODE"]) and stat.S_ISSOCK(entries[b"sock"]["MODE"])
    check_diff(world, tmp_path)


def test_git_folder_is_left_out(world):
    m = fill(world, {".git/config": "1", "a": "1"})
    write(m, {".git/config": "2", ".git/hooks/x": "2", "sub/.GIT/y": "1", "a": "2", ".github/w": "1"})
    patch, result = world.diff()
    assert result["COUNT"] == 3
    assert patch.count(b"diff --git") == 2 and b".github/w" in patch
    assert len(world.changes()) == 5


def test_unreadable_files(world):
    m = fill(world, {"a": "1"})
    write(m, {"secret": "s\n", "d/x": "1\n"})
    os.chmod(f"{m}/secret", 0)
    os.chmod(f"{m}/d", 0)
    assert kinds(world) == {"secret": "added", "d/x": "added"}
    patch, _ = world.diff()
    assert b"+s\n" in patch and b"d/x" in patch
    assert world.call("FETCH", PATH="secret")[2]["DATA"] == b"s\n"


def test_deep_tree(world):
    m = fill(world, {"a": "1"})
    dirs = [os.open(m, os.O_RDONLY)]
    for _ in range(4096):
        os.mkdir("d", dir_fd=dirs[-1])
        dirs.append(os.open("d", os.O_RDONLY, dir_fd=dirs[-1]))
        os.close(dirs.pop(-2))
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=dirs[-1]))
    os.close(dirs[0])
    began = time.monotonic()
    assert [len(e["PATH"]) for e in world.changes()] == [2 * 4096 + 4]
    assert len(world.diff()[0]) > 8192
    assert world.call("FETCH", PATH="d/" * 4096 + "leaf")[0] == "RESULT"
    kind, fields, _, _ = world.copy()
    assert kind == "RESULT", fields
    assert time.monotonic() - began < 10
    world.stack()
    assert [len(e["PATH"]) for e in world.changes()] == [2 * 4096 + 4]


def test_many_entries(world):
    m = fill(world, {"a": "1"})
    os.mkdir(f"{m}/many")
    for i in range(30000):
        os.mknod(f"{m}/many/{i}")
    began = time.monotonic()
    assert len(world.changes()) == 30000
    assert world.copy()[0] == "RESULT"
    assert time.monotonic() - began < 10


def test_planted_marks_have_no_effect(world):
    m = fill(world, {"d/a": "1", "d/b": "2"})
    os.setxattr(f"{m}/d", "user.overlay.opaque", b"y")
    write(m, {"d/c": "3"})
    os.setxattr(f"{m}/d/c", "user.overlay.whiteout", b"y")
    os.setxattr(f"{m}/d/c", "user.mine", b"kept")
    assert kinds(world) == {"d/c": "added"}
    for flatten in (False, True):
        world.copy(flatten=flatten)
        world.stack(flattened=flatten)
        assert sorted(os.listdir(f"{m}/d")) == ["a", "b", "c"]
        assert os.getxattr(f"{m}/d", "user.overlay.opaque") == b"y"
        assert os.getxattr(f"{m}/d/c", "user.mine") == b"kept"
        assert kinds(world) == {"d/c": "added"}


# Diff


def test_text_forms(world, tmp_path):
    long = "".join(f"line {i}\n" for i in range(200))
    m = fill(world, {"no-eol": "a\nb", "eol": "a\nb\n", "crlf": "a\r\nb\r\n", "long": long, "to-empty": "x\n", "empty": "",
                      "latin": b"caf\xe9\n", "x": "1\n"})
    write(m, {"no-eol": "a\nb\n", "eol": "a\nb", "crlf": "a\r\nc\r\n", "to-empty": "", "empty": "now\n", "new-empty": "",
              "latin": b"caf\xe8\n", "long": long.replace("line 3\n", "").replace("line 100\n", "x\ny\n") + "end"})
    os.chmod(f"{m}/x", 0o755)
    os.unlink(f"{m}/eol")
    text = check_diff(world, tmp_path)
    assert "\\ No newline at end of file" in text
    assert "old mode 100644\nnew mode 100755\n" in text
    assert text.count("@@ -") >= 4


def test_same_as_git(world, tmp_path):
    """Not only right: the very bytes that git itself writes."""
    m = fill(world, {"a/b c": "".join(f"{i}\n" for i in range(50)), "bin": bytes(range(256)), "m": "1\n", "g": "x\n",
                      "\u00e9": "1\n", "moved-from": "some\ntext\n", "l": "y\n"})
    write(m, {"a/b c": "".join(f"{i}\n" for i in range(50) if i != 25), "m": "1\n2\n", "\u00e9": "2\n", "new": "n"})
    os.unlink(f"{m}/g")
    os.rename(f"{m}/moved-from", f"{m}/moved-to")
    os.unlink(f"{m}/l")
    os.symlink("z", f"{m}/l")
    repo = git_apply(world.path("w/base"), b"", str(tmp_path / "repo"))
    git = ["git", "-C", repo, "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "base"], check=True)
    subprocess.run("find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -r {} +", shell=True, cwd=repo, check=True)
    subprocess.run(["cp", "-a", f"{m}/.", repo], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    theirs = subprocess.run([*git, "diff", "--cached", "--full-index", "--no-color", "-M100%"], check=True,
                            capture_output=True).stdout
    ours = world.diff()[0]
    strip = [line for line in theirs.split(b"\n")]
    strip = [b"@@".join(line.split(b"@@")[:2]) + b"@@" if line.startswith(b"@@") else line for line in strip]
    assert ours == b"\n".join(strip)
    counts = subprocess.run([*git, "diff", "--cached", "--numstat", "-M100%"], check=True, capture_output=True).stdout
    stat_lines = world.diff(STAT=1)[0].splitlines()
    assert stat_lines[-1] == b" 7 files changed, 4 insertions(+), 4 deletions(-)"
    assert sorted(stat_lines[:-1]) == sorted(counts.splitlines())


def test_binary(world, tmp_path):
    rnd = random.Random(7)
    m = fill(world, {"b": rnd.randbytes(100_000), "gone": rnd.randbytes(1000), "t": "text\n", "nul": b"x" * 9000 + b"\0"})
    write(m, {"b": rnd.randbytes(70_001), "new": b"\0" + rnd.randbytes(53), "t": b"te\0xt", "nul": b"y" * 9000 + b"\0", "one": b"\0"})
    os.unlink(f"{m}/gone")
    text = check_diff(world, tmp_path)
    assert text.count("GIT binary patch") == 5
    lines = world.diff(STAT=1)[0].decode().splitlines()
    assert "-\t-\tb" in lines and lines[-1].startswith(" 6 files changed,")


def test_large_and_sparse_files(world, tmp_path):
    m = fill(world, {"a": "1"})
    with open(f"{m}/huge", "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 35)
        file.write(b"data")
    with open(f"{m}/big", "wb") as file:
        file.truncate(80 << 20)
        file.seek(70 << 20)
        file.write(b"text\n")
    began = time.monotonic()
    patch, result = world.diff()
    assert result["TOO_MANY"] == 1
    assert b"Binary files /dev/null and b/huge differ\n" in patch
    assert world.copy()[0] == "RESULT"
    assert time.monotonic() - began < 30
    assert os.stat(world.path("w/copy/huge")).st_blocks < 1000
    os.unlink(f"{m}/huge")
    check_diff(world, tmp_path)
    world.stack()
    assert os.stat(f"{m}/huge").st_size == 1 << 40
    with open(f"{m}/huge", "rb") as file:
        file.seek(1 << 35)
        assert file.read(4) == b"data"


def test_renames(world, tmp_path):
    files = {f"d/{i}": f"{i % 3}\n" * 5 for i in range(9)}
    m = fill(world, {**files, "e": "", "x/y": "deep\n"})
    os.rename(f"{m}/e", f"{m}/e2")
    subprocess.run("cp -r d n; rm -r d; chmod +x n/4; mv x/y t; rmdir x; mv t x", shell=True, cwd=m, check=True)
    text = check_diff(world, tmp_path)
    assert text.count("similarity index 100%") == 10
    assert "rename from d/7\nrename to n/7\n" in text
    assert "0\t0\td/7 => n/7" in world.diff(STAT=1)[0].decode().splitlines()


def test_hostile_texts_take_no_quadratic_time(world, tmp_path):
    rnd = random.Random(3)
    m = fill(world, {"a": "".join(f"{rnd.randrange(20)}\n" for _ in range(200_000)), "nl": "\n" * 3_000_000,
                      "ab": "a\nb\n" * 200_000})
    write(m, {"a": "".join(f"{rnd.randrange(20)}\n" for _ in range(200_000)), "nl": "\n" * 2_999_999 + "x\n" + "\n" * 77,
              "ab": "b\na\na\n" * 150_000})
    began = time.monotonic()
    world.diff()
    assert time.monotonic() - began < 30
    check_diff(world, tmp_path)


# Fetch


def fetch(world, path):
    """A file put together as the host does it."""
    c = world.connect()
    c.send("FETCH", PATH=path)
    content, at, frames = bytearray(), 0, 0
    while True:
        kind, fields = c.frame()
        if kind != "DATA":
            c.close()
            return kind, fields, bytes(content), frames
        at = fields.get("OFFSET", at)
        content.extend(bytes(at - len(content)))
        content[at:] = fields.get("DATA", b"")
        at = len(content)
        frames += 1


def test_fetch(world):
    m = fill(world, {"a": "1"})
    data = os.urandom(300_000)
    write(m, {"b": data, "d/e": ""})
    os.symlink("where", f"{m}/l")
    kind, fields, content, _ = fetch(world, "b")
    assert (kind, fields["SIZE"], content) == ("RESULT", len(data), data)
    assert fetch(world, "l")[1]["TARGET"] == b"where"
    assert fetch(world, "d/e")[1]["SIZE"] == 0
    with open(f"{m}/sparse", "wb") as file:
        file.seek(8 << 20)
        file.write(b"x")
        file.truncate(16 << 20)
    kind, fields, content, frames = fetch(world, "sparse")
    assert fields["SIZE"] == 16 << 20 and frames < 10
    assert content == bytes(8 << 20) + b"x" + bytes((8 << 20) - 1)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "l/passwd", "nothing", "a//b", "x\0y"])
def test_fetch_stays_beneath(world, path):
    m = fill(world, {"a": "1"})
    os.symlink("/etc", f"{m}/l")
    kind, _, output, _ = world.call("FETCH", PATH=path)
    assert kind == "ERROR" and output["DATA"] == b""


# Copy


def full_listing(folder):
    """All that a layer is made of."""
    found = {}
    for at, dirs, files in os.walk(os.fsencode(folder)):
        for name in [b""] + dirs + files:
            full = os.path.join(at, name)
            st = os.lstat(full)
            kind = stat.S_IFMT(st.st_mode)
            plain = stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)
            content = b""
            if stat.S_ISREG(st.st_mode):
                with open(full, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(full)
            marks = {x: os.getxattr(full, x) for x in os.listxattr(full)} if plain else {}
            nlink = st.st_nlink if stat.S_ISREG(st.st_mode) else 0  # overlay keeps a whiteout to link from
            found[os.path.relpath(full, os.fsencode(folder))] = (
                kind, st.st_mode & 0o7777, st.st_mtime_ns, st.st_rdev, nlink, content, marks)
    return found


def test_plain_copy_is_exact(world):
    m = fill(world, {"a": "1", "b": "2", "d/x": "1", "o/p": "1", "h": "4"})
    os.makedirs(world.path("r/base/home"))
    world.mount("r")
    write(m, {"n": "new", "d/y": "2", "ro": "r"})
    for at in ("a", "b"):
        os.unlink(f"{m}/{at}")
    subprocess.run(["rm", "-r", f"{m}/o"], check=True)
    write(m, {"o/q": "opaque"})
    os.link(f"{m}/n", f"{m}/d/n2")
    os.symlink("t", f"{m}/l")
    os.mkfifo(f"{m}/fifo")
    os.setxattr(f"{m}/ro", "user.note", b"v")
    os.chmod(f"{m}/ro", 0o400)
    os.chmod(f"{m}/d", 0o2775)
    os.utime(f"{m}/n", ns=(1, 123456789))
    os.utime(f"{m}/d", ns=(1, 987654321))
    write(world.path("r/merged"), {"home/agent/.profile": "hi", "tmp/t": "t"})
    assert world.copy(trees="wr")[0] == "RESULT"
    assert full_listing(world.path("w/copy")) == full_listing(world.path("w/l0"))
    assert full_listing(world.path("r/copy")) == full_listing(world.path("r/l0"))
    before = listing(m)
    world.stack()
    assert listing(m) == before
    assert os.stat(f"{m}/n").st_nlink == 2 and os.stat(f"{m}/n").st_ino == os.stat(f"{m}/d/n2").st_ino


def test_flatten(world):
    m = fill(world, {"a": "1", "b": "2", "d/x": "1", "d/y": "2", "e/f/g": "3", "keep": "k", "t": "1"})
    write(m, {"n1": "1", "d/z": "z"})
    os.unlink(f"{m}/a")
    world.copy()
    world.stack()
    subprocess.run(["rm", "-r", f"{m}/d", f"{m}/e"], check=True)
    write(m, {"d/x": "again", "n2": "2", "b": "22"})
    world.copy()
    world.stack()
    os.unlink(f"{m}/n1")
    write(m, {"e": "file now", "a": "back"})
    os.unlink(f"{m}/t")
    os.mkdir(f"{m}/t")
    before, changed = listing(m), kinds(world)
    kind, fields, _, _ = world.copy(flatten=True)
    assert kind == "RESULT", fields
    world.stack(flattened=True)
    assert world.layers == 2
    assert listing(m) == before and kinds(world) == changed
    layer = full_listing(world.path("w/l1"))
    assert b"n1" not in layer and b"keep" not in layer and b"d/y" not in layer
    assert layer[b"d"][6]["user.overlay.opaque"] == b"y"


def test_copy_without_room_says_so_and_leaves_nothing(world):
    m = fill(world, {"a": "1"})
    write(m, {"big": os.urandom(3 << 20), "d/e/f": "x", "zz": "1"})
    os.mkdir(world.path("w/copy"))
    world.shell("mount -t tmpfs -o size=1M none w/copy")
    kind, fields, _, _ = world.call("COPY")
    assert (kind, fields["CODE"]) == ("ERROR", errno.ENOSPC)
    assert b"space" in fields["TEXT"]
    assert os.listdir(world.path("w/copy")) == []


def test_small_copy_is_fast(world):
    m = fill(world, {f"base/{i}": "x" for i in range(1000)})
    write(m, {f"d{i % 10}/f{i}": "x" * 100 for i in range(100)})
    world.call("PING")
    times = []
    for _ in range(20):
        os.mkdir(world.path("w/copy"))
        began = time.perf_counter()
        assert world.call("COPY")[0] == "RESULT"
        times.append(time.perf_counter() - began)
        subprocess.run(["rm", "-r", world.path("w/copy")], check=True)
    assert sorted(times)[len(times) // 2] < 0.010


def test_base_that_moves_is_noticed_or_read(world):
    """Whatever the person does to the folder meanwhile, the scribe answers and goes on."""
    m = fill(world, {f"d{i}/e{j}/f": "x" for i in range(20) for j in range(20)})
    for i in range(20):
        for j in range(20):
            write(m, {f"d{i}/e{j}/f": "y"})
    base = world.path("w/base")
    mover = subprocess.Popen(["sh", "-c", "while :; do mv d3/e4 x; mv x d3/e4; mv d5 d5x; mv d5x d5; done"], cwd=base,
                             stderr=subprocess.DEVNULL)
    try:
        for _ in range(30):
            kind, fields, _, _ = world.call("CHANGES")
            assert kind == "RESULT" or fields["CODE"] in (errno.ESTALE, errno.ENOENT)
    finally:
        mover.kill()
        mover.wait()
    assert world.call("PING")[0] == "RESULT"


# Anything


class Editor:
    """Random edits of a tree."""

    def __init__(self, seed, top):
        self.rnd, self.top = random.Random(seed), os.fsencode(top)

    def all(self, want):
        found = []
        for at, dirs, files in os.walk(self.top):
            links = [d for d in dirs if os.path.islink(os.path.join(at, d))]
            names = files + links if want == "file" else [d for d in dirs if d not in links]
            found += [os.path.join(at, name) for name in names]
        return sorted(found)

    def folder(self):
        return self.rnd.choice(self.all("dir") + [self.top])

    def name(self):
        return self.rnd.choice([b"a", b"b.c", b"b", b"x y", b"\xff", b"\xc3\xa9", b"n\nl", b"q\"", b"d", b"d.e", b"t\t", b"-"])

    def content(self):
        pick = self.rnd.randrange(6)
        if pick == 0:
            return b""
        if pick == 1:
            return self.rnd.randbytes(self.rnd.randrange(3000))
        lines = [self.rnd.choice([b"}", b"{", b"  return;", b"", b"x\r", b"\xe9"]) for _ in range(self.rnd.randrange(40))]
        return b"\n".join(lines) + (b"\n" if self.rnd.random() < 0.7 else b"")

    def edit(self, old):
        lines = old.split(b"\n")
        for _ in range(self.rnd.randrange(1, 4)):
            at = self.rnd.randrange(len(lines) + 1)
            lines[at:at + self.rnd.randrange(3)] = [b"edit %d" % self.rnd.randrange(5)] * self.rnd.randrange(3)
        return b"\n".join(lines)

    def clear(self, path):
        if os.path.isdir(path) and not os.path.islink(path):
            subprocess.run([b"rm", b"-rf", b"--", path], check=True)
        elif os.path.lexists(path):
            os.unlink(path)

    def step(self):
        files, pick = self.all("file"), self.rnd.randrange(12)
        new = os.path.join(self.folder(), self.name())
        if pick < 3 or not files:
            self.clear(new)
            with open(new, "wb") as file:
                file.write(self.content())
        elif pick < 6:
            path = self.rnd.choice(files)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    old = file.read()
                with open(path, "wb") as file:
                    file.write(self.edit(old))
        elif pick == 6:
            self.clear(self.rnd.choice(files + self.all("dir")))
        elif pick == 7:
            path = self.rnd.choice(files)
            if not new.startswith(path) and not path.startswith(new):
                self.clear(new)
                os.rename(path, new)
        elif pick == 8:
            self.clear(new)
            os.mkdir(new)
        elif pick == 9:
            self.clear(new)
            os.symlink(self.rnd.choice([b"z", b"../x", b"no\nwhere", b"/etc"]), new)
        elif pick == 10:
            path = self.rnd.choice(files)
            if not os.path.islink(path):
                os.chmod(path, self.rnd.choice([0o644, 0o755, 0o600]))
        else:
            path = self.rnd.choice(files)
            if not new.startswith(path) and not path.startswith(new):
                self.clear(new)
                os.link(path, new, follow_symlinks=False)


def expected_changes(base, merged):
    found = {}
    for path in set(base) | set(merged):
        if path not in merged:
            found[path] = {"deleted"}
        elif path not in base:
            found[path] = {"added"}
        elif base[path] != merged[path]:
            folder = base[path][0] == "dir" or merged[path][0] == "dir"
            found[path] = {"added", "deleted"} if folder else {"modified"}
    for path in list(found):  # a folder that only stopped or began to be empty is no change
        if found[path] == {"added"} and merged[path][0] == "dir" and any(p.startswith(path + b"/") for p in base):
            del found[path]
        elif found[path] == {"deleted"} and base[path][0] == "dir" and any(p.startswith(path + b"/") for p in merged):
            del found[path]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_random_edits(world, tmp_path, seed):
    base, merged = world.path("w/base"), world.path("w/merged")
    first = Editor(seed * 100, base)
    for _ in range(40):
        first.step()
    world.mount()
    editor = Editor(seed, merged)
    for turn in range(6):
        for _ in range(editor.rnd.randrange(25)):
            editor.step()
        found = {}
        for e in world.changes():
            found.setdefault(e["PATH"], set()).add(NAMES[e["KIND"]])
        assert found == expected_changes(listing(base), listing(merged))
        check_diff(world, tmp_path)
        before, flatten = listing(merged), turn % 3 == 2
        kind, fields, _, _ = world.copy(flatten=flatten)
        assert kind == "RESULT", fields
        if not flatten:
            assert full_listing(world.path("w/copy")) == full_listing(world.path("w/l0"))
        world.stack(flattened=flatten)
        assert listing(merged) == before
