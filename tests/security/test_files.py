"""Files: a box sees a selection of the host's and its own, and nothing else, by no name."""
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

import harness

from arsenal import breach_if

HOSTILE_NAMES = [b"new\nline", b"\x1b[31mred\x1b]0;title\x07", b"\xff\xfe\x80 not utf-8", b"n" * 255, b"-rf", b" ",
                 b"quote\"'`$(touch x)", b"tab\tback\\slash", "\u202eright to left".encode(), b"*"]


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def tree(folder):
    """Everything below a folder as names, kinds, modes and contents; links are not followed."""
    found = {}
    for base, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            path = os.path.join(base, name)
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else b""
            if stat.S_ISREG(st.st_mode):
                what = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(folder))] = (st.st_mode, st.st_uid, what)
    return found


def steal(attack, box, secret, paths, **more):
    done = attack(box, "read", *paths, **more)
    breach_if(secret in done.stdout, f"read a file of the host: {done.stdout[:1000]}")
    return done


def test_files_of_the_host_cannot_be_read(box, attack, loot, secret):
    """Nor by `..`, absolute names, /proc's magic links (/proc/1/root, /proc/self/cwd, /proc/N/fd) or links it makes."""
    steal(attack, box, secret, loot)


def test_shadow_cannot_be_read(box, attack):
    done = attack(box, "read", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key")
    breach_if("LOOT" in done.stdout, f"read a secret file of the system: {done.stdout[:500]}")


def test_files_of_the_host_cannot_be_written(box, attack, loot, secret):
    before = [(digest(file), file.stat().st_mode) for file in loot]
    attack(box, "write", *loot)
    for file, (content, mode) in zip(loot, before):
        breach_if(not file.exists() or digest(file) != content or file.stat().st_mode != mode, f"changed {file}")
        breach_if(len(os.listdir(file.parent)) > 1, f"made files beside {file}")


@pytest.fixture
def planted_in_the_selection(secret):
    """A file below /usr that anybody may write, so that only the mount stands between it and the box."""
    if os.geteuid() != 0:
        pytest.skip("not root: cannot plant a file in the selection")
    folder = Path("/usr/local/lib") / secret[:24]
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "file").write_text("as it was")
    (folder / "file").chmod(0o666)
    yield folder / "file"
    shutil.rmtree(folder)


def test_the_selection_cannot_be_written(box, attack, planted_in_the_selection):
    """What a box shows of the host is the host's own: nothing that is done to it inside may arrive there."""
    file = planted_in_the_selection
    before = (digest(file), file.stat().st_mode, os.listdir(file.parent))
    attack(box, "write", file)
    breach_if(not file.exists() or (digest(file), file.stat().st_mode, os.listdir(file.parent)) != before,
              "changed a file of the selection")


def test_nothing_can_be_added_to_the_selection(box, secret):
    """Whatever the box makes in the folders of the system, the host has none of it."""
    folders = ["/usr/bin", "/usr", "/etc", "/usr/local/bin", "/usr/local/lib", "/", "/lib", "/var", "/opt", "/boot", "/run"]
    box.run("sh", "-c", 'name=$0; for d in "$@"; do : >"$d/$name"; done 2>/dev/null; true', secret, *folders)
    made = [path for path in (f"{folder}/{secret}" for folder in folders) if os.path.lexists(path)]
    for path in made:
        os.unlink(path)
    breach_if(made, f"made {made} on the host")


def test_a_folder_shown_read_only_cannot_be_written(box, attack, loot):
    """--ro shows a folder of the caller, where only the mount stands between the box and the files."""
    file = loot[0]
    before = digest(file)
    attack(box, "write", "/shown/secret", opts=["--timeout", "20s", "--ro", f"{file.parent}:/shown"])
    breach_if(not file.exists() or digest(file) != before, f"changed {file} through --ro")
    breach_if(len(os.listdir(file.parent)) > 1, "made files in a folder shown by --ro")


def test_the_workspace_in_ro_mode_cannot_be_written(box, attack, arsenal):
    box.put("file", "as it was")
    arsenal.arm(box, "write")
    before = tree(box.workspace)
    attack(box, "write", "/workspace/file", "/workspace/new", opts=["--mode", "ro", "--timeout", "20s"])
    breach_if(tree(box.workspace) != before, "changed the workspace in ro mode")


def test_the_workspace_in_cow_mode_stays_as_it_is(box, attack, arsenal):
    box.put("file", "as it was")
    (box.workspace / "folder").mkdir()
    box.caller.own(box.workspace / "folder")
    arsenal.arm(box, "write")
    before = tree(box.workspace)
    done = attack(box, "write", "/workspace/file", "/workspace/new", "/workspace/folder")
    assert "NOTE opened /workspace/file" in done.stdout, "in cow mode the box's copy can be written"
    breach_if(tree(box.workspace) != before, "changed the workspace in cow mode")


def test_links_planted_in_the_workspace_lead_nowhere(box, attack, loot, secret):
    """A link that the host's folder holds already, and links of a box, mean paths of the box."""
    os.symlink(loot[0], box.workspace / "planted")
    os.symlink(loot[0].parent, box.workspace / "planted-folder")
    steal(attack, box, secret, ["/workspace/planted", "/workspace/planted-folder/secret"])


def test_apply_does_not_follow_links_out(box, loot, secret):
    """--apply meets a link of the host where the box made a file or folder of that name: it must not write through."""
    file = loot[0]
    before = (digest(file), sorted(os.listdir(file.parent)))
    os.symlink(file, box.workspace / "file")
    os.symlink(file.parent, box.workspace / "folder")
    box.run("sh", "-c", "rm file folder; echo spoilt >file; mkdir folder; echo spoilt >folder/secret; echo x >folder/new",
            opts=["--apply"])
    breach_if((digest(file), sorted(os.listdir(file.parent))) != before, "apply wrote through a link")


def test_apply_does_not_make_links_that_it_then_follows(box, loot):
    """The box swaps a folder for a link, and puts another link where the host has a file."""
    folder = box.workspace / "folder"
    folder.mkdir()
    box.caller.own(folder)
    box.put("folder/secret", "of the workspace")
    before = digest(loot[0])
    box.run("sh", "-c", f"rm -r folder; ln -s {loot[0].parent} folder; ln -s {loot[0]} file; chmod 777 folder file",
            opts=["--apply"])
    breach_if(digest(loot[0]) != before or loot[0].stat().st_mode & 0o777 != 0o644, "apply reached through a link")


@pytest.mark.parametrize("other", ["root", "user"])
def test_files_of_another_box_cannot_be_seen(box, make_box, arsenal, attack, secret, other):
    """Two boxes at once: one leaves secrets everywhere it can write, the other looks everywhere."""
    neighbour = make_box(other)
    leave = "for d in /tmp /dev/shm /workspace \"$HOME\" /var/tmp; do echo $0 >$d/$0 2>/dev/null; done; echo ready; cat"
    process = neighbour.start("sh", "-c", leave, secret)
    try:
        assert process.stdout.readline() == b"ready\n", process.stderr.read()
        done = box.run(arsenal.arm(box, "hunt"), secret[:20], opts=["--timeout", "30s"])
        breach_if(secret in done.stdout, f"saw files of another box: {done.stdout[:1000]}")
        breach_if("BREACH" in done.stdout, f"saw processes of another box: {done.stdout[:1000]}")
    finally:
        process.communicate(b"", timeout=300)


def test_the_environment_holds_no_secret(box, arsenal, secret):
    """Neither the command's own, nor /proc/1/environ, nor any other process's, nor a command line."""
    keys = {name: secret for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK",
                                      "AGENT_API_KEY", "X", "LD_LIBRARY_PATH_HUTCH")}
    done = box.run(arsenal.arm(box, "hunt"), "hutch-secret-", env=keys)
    breach_if("environ holds" in done.stdout or "cmdline holds" in done.stdout, done.stdout[:500])
    done = box.run("sh", "-c", "env; cat /proc/*/environ /proc/1/cmdline 2>/dev/null", env=keys)
    breach_if(secret in done.stdout, f"the environment of the host came in: {done.stdout[:500]}")


def test_the_environment_is_made_up(box):
    """Only --env and a handful of names that programs need; a hostile host variable cannot sneak in as one of them."""
    done = box.run("env", "-0", opts=["--env", "ASKED=for"], env={"LD_PRELOAD_X": "1", "TERM": "evil", "SHELL": "evil"})
    names = {item.split("=")[0] for item in done.stdout.split("\0") if item}
    assert "ASKED" in names
    breach_if(not names <= {"ASKED", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ",
                            "PWD", "HOSTNAME", "PAGER", "HUTCH"},
              f"more than was asked for: {names}")


def test_descriptors_do_not_leak(box, attack, loot, secret):
    """Descriptors of the caller, a folder among them, stay outside."""
    held = [os.open(loot[0], os.O_RDONLY), os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open(loot[0].parent, os.O_PATH)]
    try:
        done = attack(box, "inherited", loot[0], pass_fds=held)
        breach_if(secret in done.stdout, "read a leaked descriptor")
    finally:
        for fd in held:
            os.close(fd)


def test_the_working_folder_does_not_leak(box, attack, loot, secret):
    """hutch started in a folder of secrets, with another workspace: nothing inside is relative to the former."""
    done = attack(box, "read", "secret", "./secret", "../secret", cwd=loot[0].parent)
    breach_if(secret in done.stdout, "read beside the caller's working folder")
    done = box.run("sh", "-c", "pwd; readlink /proc/1/cwd /proc/self/cwd", cwd=loot[0].parent)
    breach_if("hutch-loot" in done.stdout, f"the caller's working folder shows: {done.stdout}")


MISUSE = """
import fcntl, os
def quiet(f, *a, **k):
    try: return f(*a, **k)
    except OSError as error: os.write(2, f"DENIED {f.__name__} {error}\\n".encode())
fd = quiet(os.open, "/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
os.write(2, (fd and quiet(os.read, fd, 1000)) or b"")
os.write(2, quiet(os.pread, 1, 1000, 0) or b"")
quiet(os.open, "/proc/self/fd/1", os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
quiet(fcntl.fcntl, 1, fcntl.F_SETFL, 0)
quiet(os.pwrite, 1, b"spoilt", 0)
quiet(os.ftruncate, 1, 0)
quiet(os.fchmod, 1, 0o777)
"""


def test_a_file_as_stdout_can_only_be_added_to(box, loot, secret):
    """hutch run … >>log: what the log holds already can neither be read nor changed through the descriptor."""
    mode = loot[0].stat().st_mode
    with open(loot[0], "ab") as log:
        process = box.start("/usr/bin/python3", "-c", MISUSE, stdin=subprocess.DEVNULL, stdout=log)
        _, said = process.communicate(timeout=300)
    breach_if(secret.encode() in said, f"read the caller's file: {said}")
    breach_if(not loot[0].read_text().startswith(secret) or loot[0].stat().st_mode != mode, "changed the caller's file")


CLIMB = """
import os
def quiet(f, *a, **k):
    try: print(f(*a, **k))
    except OSError as error: print("DENIED", f.__name__, error)
quiet(os.fchdir, 0)
quiet(os.listdir, 0)
quiet(lambda: open(os.open("secret", os.O_RDONLY, dir_fd=0)).read())
quiet(lambda: open(os.open("../../../../../../../LOOT", os.O_RDONLY, dir_fd=0)).read())
quiet(lambda: open("/proc/self/fd/0/secret").read())
quiet(os.mkdir, "spoilt", dir_fd=0)
"""


def test_a_folder_as_stdin_leads_nowhere(box, loot, secret):
    """A descriptor of a folder is a way into it and out of the box: a stream is all that hutch hands on."""
    folder = os.open(loot[0].parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        process = box.start("/usr/bin/python3", "-c", CLIMB.replace("LOOT", str(loot[0])), stdin=folder)
        said, _ = process.communicate(timeout=300)
    finally:
        os.close(folder)
    breach_if(secret.encode() in said or len(os.listdir(loot[0].parent)) > 1, f"went through stdin: {said.decode()}")


def test_the_launcher_cannot_be_overwritten(box, attack, scratch):
    """Through /proc/N/exe, with the program owned by the same user as when it is installed in a home folder."""
    folder = box.caller.folder(scratch, "own-bin")
    harness.copy_parts(box.program, folder)
    for name in ("hutch", "hutch-guest"):
        box.caller.own(folder / name)
    box.program = folder / "hutch"
    before = [(digest(folder / name), (folder / name).stat().st_mode) for name in ("hutch", "hutch-guest")]
    attack(box, "launcher", folder.name)
    after = [(digest(folder / name), (folder / name).stat().st_mode) for name in ("hutch", "hutch-guest")]
    breach_if(after != before, "the launcher was overwritten")


def plant_overlay_marks(box):
    """What an attacker who may write the workspace leaves for an overlay to trip over. False: no xattrs here."""
    hidden, shown = box.workspace / "hidden", box.workspace / "shown"
    for folder in (hidden, shown):
        folder.mkdir()
        box.caller.own(folder)
    box.put("hidden/file", "hidden")
    box.put("shown/file", "shown")
    box.put("plain", "plain")
    try:
        for prefix in ("user", "trusted") if os.geteuid() == 0 else ("user",):
            os.setxattr(shown, f"{prefix}.overlay.redirect", b"/hidden")
            os.setxattr(shown, f"{prefix}.overlay.origin", b"\0" * 40)
            os.setxattr(hidden, f"{prefix}.overlay.opaque", b"y")
            os.setxattr(box.workspace / "plain", f"{prefix}.overlay.metacopy", b"")
            os.setxattr(box.workspace / "plain", f"{prefix}.overlay.redirect", b"/../../../../etc/hostname")
    except OSError as error:
        pytest.skip(f"no user xattrs on this host's {box.workspace}: {error}")
    try:
        os.mknod(box.workspace / "whiteout", stat.S_IFCHR | 0o600, 0)
    except PermissionError:
        pass


def test_overlay_marks_planted_on_the_host_lead_nowhere(box):
    """Whiteouts and overlay attributes in the host's folder are its content, not instructions."""
    plant_overlay_marks(box)
    before = tree(box.workspace)
    done = box.run("sh", "-c", "cat shown/file hidden/file; ls shown; echo new >shown/new; rm hidden/file; ls shown")
    assert done.returncode == 0, done
    breach_if(done.stdout != "shownhiddenfile\nfile\nnew\n", f"a planted mark was obeyed: {done!r}")
    # A file that says its content lies elsewhere is shown as it is or not at all: the kernel refuses to look for it.
    done = box.run("cat", "plain")
    breach_if(done.stdout not in ("plain", ""), f"a planted redirect was followed: {done.stdout!r}")
    breach_if(tree(box.workspace) != before, "the host's folder changed")


def test_overlay_marks_planted_in_the_box_lead_nowhere(box, loot, secret):
    """The same from inside: what the box plants in its layer must neither show the host's files nor reach it by apply."""
    plant = """
import os, stat
def quiet(f, *a):
    try: f(*a)
    except OSError as e: print("DENIED", f.__name__, a[:2], e.strerror)
os.makedirs("a/b"); open("a/f", "w").write("a"); open("m", "w").write("")
quiet(os.mknod, "whiteout", stat.S_IFCHR | 0o600, 0)
quiet(os.mknod, "a/f2", stat.S_IFCHR | 0o600, 0)
quiet(os.mknod, ".wh.kept", stat.S_IFREG | 0o600, 0)
for p in ("user", "trusted"):
    quiet(os.setxattr, "a", p + ".overlay.redirect", b"/../../../../LOOT")
    quiet(os.setxattr, "a", p + ".overlay.opaque", b"y")
    quiet(os.setxattr, "a/b", p + ".overlay.opaque", b"x")
    quiet(os.setxattr, "m", p + ".overlay.metacopy", b"")
    quiet(os.setxattr, "m", p + ".overlay.redirect", b"LOOT/secret")
    quiet(os.setxattr, "kept", p + ".overlay.whiteout", b"y")
print(open("m").read(), os.listdir("a"))
""".replace("LOOT", str(loot[0].parent))
    box.put("kept", "kept")
    done = box.run("/usr/bin/python3", "-c", plant, opts=["--json", "--apply"])
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    breach_if(secret in done.stdout, f"a planted redirect was followed: {result}")
    breach_if((box.workspace / "m").exists() and secret in (box.workspace / "m").read_text(), "apply followed a redirect")
    breach_if(not (box.workspace / "kept").exists(), "apply deleted a file that the box only marked")
    for path in box.workspace.rglob("*"):
        breach_if(stat.S_ISCHR(path.lstat().st_mode), f"apply made the device {path}")
        marks = [name for name in os.listxattr(path, follow_symlinks=False) if "overlay" in name]
        breach_if(marks, f"apply carried {marks} of {path} to the host")


MAKE_NAMES = "import os, sys\nfor n in sys.argv[1:]:\n    open(bytes.fromhex(n), 'w').write('hostile')\n"


def test_hostile_names_stay_inside(box):
    """Names with newlines, escapes, bytes that are no UTF-8, 255 bytes: one JSON object, nothing raw on the terminal."""
    hexed = [name.hex() for name in HOSTILE_NAMES]
    done = box.run("/usr/bin/python3", "-c", MAKE_NAMES, *hexed, opts=["--json"])
    assert done.returncode == 0, done
    result = json.loads(done.stdout_bytes)
    assert len(result["changes"]) == len(HOSTILE_NAMES)
    breach_if(any(byte < 32 and byte != 10 for byte in done.stdout_bytes), "control characters on stdout")
    breach_if(os.listdir(box.workspace), "the host's folder changed")
    json.dumps(result).encode()


def test_hostile_names_are_applied_as_they_are(box):
    hexed = [name.hex() for name in HOSTILE_NAMES]
    done = box.run("/usr/bin/python3", "-c", MAKE_NAMES, *hexed, opts=["--apply"])
    assert done.returncode == 0, done
    breach_if(any(byte < 32 and byte != 10 for byte in done.stderr_bytes), f"control characters on stderr: {done!r}")
    assert sorted(os.listdir(os.fsencode(box.workspace))) == sorted(HOSTILE_NAMES)


def test_hostile_names_on_the_host_do_no_harm(box):
    for name in HOSTILE_NAMES:
        path = os.path.join(os.fsencode(box.workspace), name)
        Path(os.fsdecode(path)).write_text("host")
        box.caller.own(path)
    before = tree(box.workspace)
    done = box.run("sh", "-c", "for f in ./*; do echo more >>\"$f\"; done; ls -A | wc -c", opts=["--json"])
    result = json.loads(done.stdout_bytes)
    assert result["exit_code"] == 0 and len(result["changes"]) == len(HOSTILE_NAMES), result
    breach_if(tree(box.workspace) != before, "the host's folder changed")


DEPTH = 4096


@pytest.mark.parametrize("opts", [[], ["--json"], ["--json", "--apply"]], ids=["plain", "changes", "apply"])
def test_a_tree_of_4096_folders_made_in_the_box(box, arsenal, opts):
    """Deeper than any path can name. hutch may refuse to list or apply it, in words; it may not crash or hang."""
    done = box.run(arsenal.arm(box, "nest"), DEPTH, opts=["--timeout", "30s", *opts], timeout=90)
    assert done.returncode in (0, 125), done
    breach_if(done.returncode < 0 or done.returncode >= 128, f"hutch crashed: {done!r}")
    assert done.returncode == 0 or done.stderr.startswith("hutch: "), done
    if "--apply" not in opts:
        assert f"MADE {DEPTH}" in done.stdout, done
        breach_if((box.workspace / "d").exists(), "the host's folder changed")


def test_a_tree_of_4096_folders_on_the_host(box, arsenal):
    """As content of the workspace it neither hinders the box nor is changed by it."""
    subprocess.run([arsenal.program("nest"), str(DEPTH)], cwd=box.workspace, check=True, stdout=subprocess.DEVNULL)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{box.caller.uid}:{box.caller.gid}", str(box.workspace)], check=True)
    down = "import os\nn = 0\nwhile os.path.isdir('d'):\n    os.chdir('d'); n += 1\nprint(n); open('bottom', 'a').write('x')"
    done = box.run("/usr/bin/python3", "-c", down, opts=["--json"], timeout=90)
    result = json.loads(done.stdout)
    assert result["stdout"] == f"{DEPTH}\n", result


def test_a_special_file_in_the_workspace_does_not_hang(box):
    """A FIFO, a socket and an endless link, made by the box and left for diff, changes and apply to read."""
    make = ("import os, socket\nos.mkfifo('fifo'); os.symlink('loop', 'loop'); os.symlink('/dev/zero', 'zero')\n"
            "socket.socket(socket.AF_UNIX).bind('sock')\nopen('sparse', 'w').truncate(1 << 40)\n")
    began = time.monotonic()
    done = box.run("/usr/bin/python3", "-c", make, opts=["--json", "--timeout", "20s"], timeout=300)
    assert done.returncode == 0, done
    assert {change["path"] for change in json.loads(done.stdout)["changes"]} >= {"fifo", "loop", "zero", "sparse"}
    breach_if(time.monotonic() - began > 30, "a special file held hutch up")


def test_a_sparse_terabyte_costs_nothing(box):
    """It can be listed, diffed and applied in the time and room of what is really in it."""
    made = box.hutch("box", "new", "-w", box.workspace)
    assert made.returncode == 0, made
    name = made.stdout.strip()
    try:
        assert box.hutch("box", "exec", name, "--", "truncate", "-s", "1T", "sparse").returncode == 0
        for action in (["diff", name, "--stat"], ["diff", name], ["apply", name]):
            done = box.hutch("box", *action, timeout=30)
            assert done.returncode == 0, f"{action[0]}: {done!r}"
            assert len(done.stdout_bytes) < 1 << 20
        breach_if((box.workspace / "sparse").stat().st_blocks > 2048, "apply filled the host's disk")
    finally:
        box.hutch("box", "rm", name)


class Held:
    """A file of the host that a program in a box holds locks on and watches, as far as it can."""

    def __init__(self, box, arsenal, inside, opts):
        self.process = box.start(arsenal.arm(box, "hold"), inside, opts=opts)
        line = self.process.stdout.readline()
        assert line == b"ready\n", (line, self.process.communicate(timeout=300))

    def reached(self, path):
        """What of it got to the host, in words."""
        found = []
        with open(path, "rb+") as file:
            for name, lock in (("flock", fcntl.flock), ("fcntl lock", fcntl.lockf)):
                try:
                    lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(name)
        path.read_bytes()
        out, err = self.process.communicate(b"\n", timeout=300)
        assert self.process.returncode == 0, err
        return found + (["watch"] if b"BREACH" in out else [])


HELD = {"cow": ("/workspace/held", []), "ro": ("/workspace/held", ["--mode", "ro"]), "share": ("/x/held", ["--ro", "{}:/x"]),
        "direct": ("/workspace/held", ["--mode", "direct"]), "rw": ("/x/held", ["--rw", "{}:/x"])}


def hold(box, arsenal, how):
    """The file lies in the workspace, or in a folder that is shown beside it."""
    inside, opts = HELD[how]
    folder = box.workspace if inside.startswith("/workspace") else box.caller.folder(box.scratch, "shown")
    path = folder / "held"
    path.write_bytes(b"x")
    box.caller.own(path)
    return Held(box, arsenal, inside, [o.format(folder) for o in opts]).reached(path)


@pytest.mark.parametrize("how", ["cow", "ro", "share"])
def test_locks_and_watches_do_not_reach_the_hosts_files(box, arsenal, how):
    """The box has inodes of its own there, those of an overlay."""
    reached = hold(box, arsenal, how)
    breach_if(reached, f"it reached the host's file by {', '.join(reached)}")


@pytest.mark.parametrize("how", ["direct", "rw"])
def test_locks_and_watches_reach_a_folder_that_is_shared_for_writing(box, arsenal, how):
    """As docs/security.md says; and so the test above can fail."""
    assert hold(box, arsenal, how) == ["flock", "fcntl lock", "watch"]
