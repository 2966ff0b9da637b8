"""The diff worker: what it says of a box's changes, on real overlays, and that git itself agrees with its diffs."""

import errno
import os
import random
import socket
import stat
import subprocess
import time

from diff_kit import NAMES, check_diff, fill, kinds, write
from world import git_apply


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
    assert stat.S_ISDIR(by[b"empty"]["MODE"])


def test_copy_up_is_no_change(world):
    m = fill(world, {"a": "same", "d/b": "b", "l": "x"})
    with open(f"{m}/a", "r+b") as file:
        file.write(b"same")
    os.utime(f"{m}/d")
    os.utime(f"{m}/l")
    assert os.path.exists(world.path("w/l0/a"))
    assert world.changes() == []
    assert world.diff()[0] == b""


def test_a_mode_of_a_folder_is_a_change_but_no_diff(world):
    m = fill(world, {"d/b": "b"})
    os.chmod(f"{m}/d", 0o700)
    assert kinds(world) == {"d": "modified"}
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
    assert time.monotonic() - began < 60
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
    assert time.monotonic() - began < 60


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


def test_all_folders_and_links_on_request(world):
    """Apply needs the modes of folders that are not empty, and which names are one file."""
    m = fill(world, {"d/x": "1", "k/y": "1"})
    write(m, {"n/e/w": "1"})
    os.link(f"{m}/n/e/w", f"{m}/n/v")
    subprocess.run(["rm", "-r", f"{m}/d"], check=True)
    kind, _, _, entries = world.call("CHANGES", ALL=1)
    by = {e["PATH"]: e for e in entries}
    assert kind == "RESULT" and sorted(by) == [b"d", b"d/x", b"n", b"n/e", b"n/e/w", b"n/v"]
    assert [path for path in sorted(by) if by[path].get("IMPLIED")] == [b"d", b"n", b"n/e"]
    assert by[b"n/e/w"]["LINK"] == by[b"n/v"]["LINK"] and "LINK" not in by[b"d/x"]


def test_touched_names(world):
    """Everything that the layers decide about, folders first; of what only the box has, the top alone."""
    m = fill(world, {"d/x": "1", "d/y/z": "1", "k/same": "1", "k/left": "1", "c": "1", ".git/config": "1"})
    write(m, {"n/e/w": "1", "c": "2", ".git/config": "2"})
    subprocess.run(["rm", "-r", f"{m}/d"], check=True)
    os.utime(f"{m}/k/same")
    kind, _, _, entries = world.call("TOUCHED")
    assert kind == "RESULT"
    assert [e["PATH"] for e in entries if e.get("HIDDEN")] == [b"d/y", b"d"]
    entries = [e for e in entries if not e.get("HIDDEN")]
    paths = [e["PATH"] for e in entries]
    assert sorted(paths) == [b"c", b"d", b"d/x", b"d/y", b"d/y/z", b"k", b"k/same", b"n"]
    assert paths.index(b"d") < paths.index(b"d/y") < paths.index(b"d/y/z")
    assert [e["PATH"] for e in entries if not e.get("BOTH")] == [p for p in paths if p.startswith(b"d/")]
