"""`hutch box`: boxes that outlive the command that made them, from `new` to `rm`."""
import json
import os
import re
import signal
import subprocess

import pytest

import harness


class Boxes:
    """The boxes of one caller, in a registry of this test's own; all are removed at its end."""

    def __init__(self, box):
        self.box = box
        self.runtime = box.caller.folder(box.scratch, "run")
        self.env = {"XDG_RUNTIME_DIR": str(self.runtime)}
        self.registry = self.runtime / "hutch" / "boxes"

    def __call__(self, *args, **more):
        return self.box.hutch("box", *args, env=self.env, **more)

    def ok(self, *args, **more):
        done = self(*args, **more)
        assert done.returncode == 0, done
        return done.stdout

    def new(self, *opts):
        out = self.ok("new", "-w", self.box.workspace, *opts)
        assert re.fullmatch(r"[a-z0-9]{8}\n", out)
        return out.strip()

    def sh(self, box, script, *opts, **more):
        return self.ok("exec", box, *opts, "--", "sh", "-c", script, **more)

    def start(self, *args, **popen):
        command = [*self.box.caller.prefix, str(self.box.program), "box", *map(str, args)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                env={**self.box.env, **self.env}, **popen)

    def list(self):
        return {one["id"]: one for one in json.loads(self.ok("ls", "--json"))}

    def fails(self, *args):
        done = self(*args)
        assert (done.returncode, done.stdout) == (125, ""), done
        assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1
        return done.stderr[len("hutch: "):-1]


@pytest.fixture
def boxes(box):
    made = Boxes(box)
    yield made
    left = made("ls", "--json")
    ids = [one["id"] for one in json.loads(left.stdout or "[]")]
    if ids:
        made("rm", *ids)


# Life.


def test_life(boxes):
    one = boxes.new()
    assert list(boxes.list()) == [one]
    boxes.sh(one, "echo kept > file")
    assert boxes.sh(one, "cat file; pwd") == "kept\n/workspace\n"
    assert not (boxes.box.workspace / "file").exists()
    assert boxes.ok("rm", one) == ""
    assert boxes.list() == {} and os.listdir(boxes.registry) == []
    assert boxes.fails("exec", one, "--", "true") == f"there is no box '{one}': there are no boxes"


def test_new_returns_while_its_output_is_a_pipe(boxes):
    """The keeper holds nothing of the command that made it: not its stdout, nor its session or folder."""
    one = boxes.new()
    pid = boxes.list()[one]["pid"]
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) not in (0, os.getsid(0))


def test_new_tells_what_went_wrong(boxes):
    assert "cannot show the workspace" in boxes.fails("new", "-w", "/no/such")
    assert boxes("new", "extra").returncode == 2
    assert boxes("new", "--tty").returncode == 2
    assert not boxes.registry.exists() or os.listdir(boxes.registry) == []


def test_new_as_json(boxes):
    made = json.loads(boxes.ok("new", "-w", boxes.box.workspace, "--json"))
    assert list(boxes.list()) == [made["id"]]


def test_options_of_new_hold(boxes):
    one = boxes.new("--env", "A=1", "--mode", "ro", "--timeout", "400ms")
    assert boxes.sh(one, "echo $A") == "1\n"
    assert boxes("exec", one, "--", "sh", "-c", "echo x > file").returncode != 0
    assert boxes("exec", one, "--", "sleep", "20").returncode == 124
    assert boxes("exec", one, "--timeout", "none", "--", "sleep", "1").returncode == 0


def test_prefixes(boxes):
    one, two = boxes.new(), boxes.new()
    assert boxes.sh(one[:6], "echo yes") == "yes\n"
    assert boxes.fails("exec", "", "--", "true").startswith("there is no box ''; the boxes are: ")
    told = boxes.fails("rm", "nosuchbox")
    assert one in told and two in told
    if one[0] != two[0]:
        assert boxes.sh(one[0], "echo yes") == "yes\n"


def test_a_prefix_of_several(boxes):
    made = [boxes.new()]
    made += boxes.ok("fork", made[0], "-n", "60").split()
    firsts = [one[0] for one in made]
    letter = next(c for c in firsts if firsts.count(c) > 1)
    told = boxes.fails("exec", letter, "--", "true")
    assert told.startswith(f"'{letter}' matches {firsts.count(letter)} boxes: ")


def test_rm_of_several(boxes):
    ids = [boxes.new() for _ in range(3)]
    done = boxes("rm", ids[0], "nosuch", ids[1])
    assert done.returncode == 125 and "no box 'nosuch'" in done.stderr
    assert list(boxes.list()) == [ids[2]]


def test_keeper_exits_with_its_last_box(boxes):
    one = boxes.new()
    pid = boxes.list()[one]["pid"]
    forks = boxes.ok("fork", one, "-n", "2").split()
    assert {b["pid"] for b in boxes.list().values()} == {pid}
    boxes.ok("rm", one, forks[0])
    assert boxes.sh(forks[1], "echo alive") == "alive\n"
    boxes.ok("rm", forks[1])
    harness.wait_until(lambda: (harness.process_stat(pid) or (0, "Z"))[1] == "Z", what="the keeper's end")


def test_ls(boxes):
    assert boxes.ok("ls") == "" and boxes.ok("ls", "--json") == "[]\n"
    one = boxes.new("--ttl", "1h")
    two = boxes.new("--mode", "direct")
    boxes.ok("snapshot", one)
    listed = boxes.list()
    assert set(listed[one]) == {"id", "workspace", "mode", "age_seconds", "ttl_seconds", "running", "snapshots", "pid",
                                "net", "memory", "cpus", "pids", "timeout_seconds"}
    assert listed[one]["workspace"] == str(boxes.box.workspace) and listed[one]["mode"] == "cow"
    assert 3500 < listed[one]["ttl_seconds"] <= 3600 and listed[two]["ttl_seconds"] is None
    assert (listed[one]["snapshots"], listed[one]["running"], listed[two]["mode"]) == (1, 0, "direct")
    assert 0 <= listed[one]["age_seconds"] < 60
    lines = boxes.ok("ls").splitlines()
    assert lines[0].split() == ["ID", "MODE", "AGE", "LEFT", "RUNNING", "SNAPSHOTS", "WORKSPACE"]
    assert {line.split()[0] for line in lines[1:]} == {one, two}


def test_ttl(boxes):
    one = boxes.new("--ttl", "700ms")
    boxes.new()
    with boxes.start("exec", one, "--", "sleep", "30") as running:
        harness.wait_until(lambda: one not in boxes.list(), what="the end of its time")
        assert running.wait(timeout=300) != 0
    assert "there is no box" in boxes.fails("exec", one, "--", "true")
    assert one not in os.listdir(boxes.registry)


# Commands.


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)])
def test_exec_status(boxes, script, status):
    assert boxes("exec", boxes.new(), "--", "sh", "-c", script).returncode == status


def test_exec_of_what_is_not_there(boxes):
    assert boxes("exec", boxes.new(), "no-such-command").returncode == 127


def test_exec_streams(boxes):
    one = boxes.new()
    data = bytes(range(256)) * 20000
    done = boxes("exec", one, "--", "sh", "-c", "cat; echo err >&2", input=data)
    assert done.stdout_bytes == data and done.stderr == "err\n"


def test_exec_options(boxes):
    one = boxes.new("--env", "A=1", "--env", "B=1")
    assert boxes.sh(one, "echo $A$B; pwd", "--env", "B=2", "--cwd", "/tmp") == "12\n/tmp\n"
    assert boxes("exec", "--timeout", "300ms", one, "--", "sleep", "20").returncode == 124
    assert boxes("exec", one, "--memory", "1G", "--", "true").returncode == 2
    assert boxes("exec", one).returncode == 2
    assert boxes("exec").returncode == 2


def test_exec_as_json(boxes):
    one = boxes.new("--output", "1K")
    boxes.box.put("old", "x")
    done = boxes("exec", one, "--json", "--", "sh", "-c", "echo y > old; seq 1 10000; printf 'a\\377' >&2; exit 5")
    result = json.loads(done.stdout)
    assert (done.returncode, result["exit_code"], done.stderr) == (5, 5, "")
    assert result["stdout_bytes"] == sum(len(str(i)) + 1 for i in range(1, 10001))
    assert result["truncated"] and result["stdout"].endswith("\n10000\n") and result["stdout"].startswith("1\n2\n")
    assert result["stderr_base64"] == "Yf8=" and result["max_rss"] > 0
    assert result["changes"] == [{"path": "old", "kind": "modified"}]


def test_exec_many_at_once(boxes):
    one = boxes.new()
    running = [boxes.start("exec", one, "--", "sh", "-c", f"read go; echo {i}") for i in range(20)]
    harness.wait_until(lambda: boxes.list()[one]["running"] == 20, what="all of them running")
    for i, process in enumerate(running):
        out, err = process.communicate(b"go\n", timeout=300)
        assert (process.returncode, out, err) == (0, f"{i}\n".encode(), b"")


def test_exec_many_at_once_as_json(boxes):
    """Looking at the changes stops the box's processes for a moment; commands that start just then only wait."""
    one = boxes.new()
    for _ in range(3):
        running = [boxes.start("exec", one, "--json", "--", "sh", "-c", f"echo {i}") for i in range(20)]
        for i, process in enumerate(running):
            out, err = process.communicate(timeout=300)
            assert (process.returncode, err) == (0, b"") and json.loads(out)["stdout"] == f"{i}\n"


def test_exec_ends_with_its_client(boxes):
    one = boxes.new()
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with boxes.start("exec", one, "--", "sh", "-c", "echo ready; exec sleep 31") as running:
            assert running.stdout.readline() == b"ready\n"
            running.send_signal(number)
            assert running.wait(timeout=300) in (-9, 128 + number)
        harness.wait_until(lambda: boxes.list()[one]["running"] == 0, what="the command's end")
        assert "sleep" not in boxes.sh(one, "cat /proc/[0-9]*/comm")


def test_exec_ends_with_its_box(boxes):
    one = boxes.new()
    with boxes.start("exec", one, "--", "sh", "-c", "echo ready; sleep 300") as running:
        assert running.stdout.readline() == b"ready\n"
        boxes.ok("rm", one)
        assert running.wait(timeout=300) != 0


def test_exec_on_a_terminal(boxes):
    one = boxes.new()
    line = [*boxes.box.caller.prefix, str(boxes.box.program), "box", "exec", one, "--tty", "--", "sh", "-c",
            "'test -t 0 && stty size && echo $TERM'"]
    done = subprocess.run(["script", "-qec", " ".join(line), "/dev/null"], stdin=subprocess.DEVNULL, text=True, cwd="/",
                          capture_output=True, check=False, timeout=30,
                          env={**boxes.box.env, **boxes.env, "TERM": "vt220", "SHELL": "/bin/sh"})
    assert done.returncode == 0 and "vt220" in done.stdout, done


# Forks and snapshots.


def test_fork(boxes):
    one = boxes.new()
    boxes.sh(one, "echo a > file; echo home > ~/file; sleep 100 &")
    two, three = boxes.ok("fork", one, "-n", "2").split()
    assert len({one, two, three}) == 3
    boxes.sh(two, "echo b > file")
    assert [boxes.sh(b, "cat file ~/file") for b in (one, two, three)] == ["a\nhome\n", "b\nhome\n", "a\nhome\n"]
    assert "sleep" not in boxes.sh(three, "cat /proc/[0-9]*/comm")
    boxes.ok("rm", one)
    assert boxes.sh(two, "cat file") == "b\n"
    four = boxes.ok("fork", two).strip()
    assert boxes.sh(four, "cat file") == "b\n"


def test_fork_options(boxes):
    one = boxes.new("--ttl", "1h")
    made = json.loads(boxes.ok("fork", one, "--count=3", "--json"))["ids"]
    assert len(made) == 3 and set(made) < set(boxes.list())
    assert 3500 < boxes.list()[made[0]]["ttl_seconds"] <= 3600
    assert boxes("fork", one, "-n", "0").returncode == 2
    assert boxes("fork", one, "-n", "100000").returncode == 2
    assert boxes("fork").returncode == 2
    assert boxes("fork", one, "two").returncode == 2


def test_snapshot_and_restore(boxes):
    one = boxes.new()
    boxes.sh(one, "echo 1 > file")
    assert boxes.ok("snapshot", one) == "s1\n"
    boxes.sh(one, "echo 2 > file; echo new > new")
    assert json.loads(boxes.ok("snapshot", one, "--json")) == {"snapshot": "s2"}
    boxes.sh(one, "rm file")
    assert boxes.ok("restore", one, "s2") == ""
    assert boxes.sh(one, "cat file new") == "2\nnew\n"
    boxes.ok("restore", one, "s1")
    assert boxes.sh(one, "cat file; ls") == "1\nfile\n"
    boxes.ok("restore", one, "s2")
    assert boxes.sh(one, "cat file new") == "2\nnew\n"
    assert boxes.list()[one]["snapshots"] == 2


def test_restore_ends_what_runs(boxes):
    one = boxes.new()
    boxes.ok("snapshot", one)
    with boxes.start("exec", one, "--", "sh", "-c", "echo ready; sleep 300") as running:
        assert running.stdout.readline() == b"ready\n"
        boxes.ok("restore", one, "s1")
        assert running.wait(timeout=300) != 0
    assert boxes.sh(one, "echo alive") == "alive\n"


def test_restore_of_what_is_not_there(boxes):
    one = boxes.new()
    assert boxes.fails("restore", one, "s1") == f"the box '{one}' has no snapshot 's1': it has no snapshots"
    boxes.ok("snapshot", one)
    assert boxes.fails("restore", one, "x") == f"the box '{one}' has no snapshot 'x'; the last is s1"
    assert boxes("restore", one).returncode == 2


# Changes.


def test_diff(boxes):
    boxes.box.put("old", "one\ntwo\n")
    one = boxes.new()
    assert boxes.ok("diff", one) == ""
    boxes.sh(one, "echo three >> old; echo new > new")
    text = boxes.ok("diff", one)
    assert "diff --git a/old b/old" in text and "+three\n" in text and "new file mode 100644" in text
    stat = boxes.ok("diff", one, "--stat")
    assert "old" in stat and "new" in stat and "+three" not in stat
    copy = boxes.box.caller.folder(boxes.box.scratch, "copy")
    (copy / "old").write_text("one\ntwo\n")
    subprocess.run(["git", "apply", "-"], input=text, text=True, cwd=copy, check=True)
    assert (copy / "old").read_text() == "one\ntwo\nthree\n" and (copy / "new").read_text() == "new\n"


def test_diff_that_nobody_reads_holds_nothing_up(boxes):
    """A person may look at it in a pager for as long as he likes."""
    one = boxes.new()
    boxes.sh(one, "seq 1 1000000 > big")
    with boxes.start("diff", one) as running:
        assert running.stdout.readline().startswith(b"diff --git")
        assert boxes.sh(one, "echo alive") == "alive\n"
        boxes.ok("rm", one)
        rest = running.stdout.read()
        assert running.wait(timeout=300) == 0 and rest.count(b"\n+") >= 1000000


def test_apply(boxes):
    boxes.box.put("old", "before\n")
    boxes.box.put("mine", "before\n")
    one = boxes.new()
    boxes.sh(one, "echo after > old; echo theirs > mine; echo new > new")
    boxes.box.put("mine", "edited meanwhile\n")
    done = boxes("apply", one)
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("hutch: conflict: mine: ") and lines[-1] == "hutch: applied 2 changes; 1 not applied"
    assert (boxes.box.workspace / "old").read_text() == "after\n"
    assert (boxes.box.workspace / "new").read_text() == "new\n"
    assert (boxes.box.workspace / "mine").read_text() == "edited meanwhile\n"


def test_apply_again(boxes):
    one = boxes.new()
    boxes.sh(one, "echo 1 > file")
    assert boxes("apply", one).returncode == 0
    boxes.sh(one, "echo 2 > file")
    done = boxes("apply", one)
    assert done.returncode == 0, done
    assert (boxes.box.workspace / "file").read_text() == "2\n"


# Crashes and intruders.


def test_killed_keeper_ends_the_box_and_is_tidied(boxes):
    before = set(harness.descendants())
    one = boxes.new()
    boxes.sh(one, "sleep 1000 >/dev/null 2>&1 &")
    pid = boxes.list()[one]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert harness.leftovers(before) == []
    assert one in os.listdir(boxes.registry)
    assert boxes.list() == {}
    assert os.listdir(boxes.registry) == []


def test_terminated_keeper_tidies_itself(boxes):
    one = boxes.new()
    os.kill(boxes.list()[one]["pid"], signal.SIGTERM)
    harness.wait_until(lambda: os.listdir(boxes.registry) == [], what="an empty registry")


def test_registry_is_private(boxes):
    one = boxes.new()
    for folder in (boxes.registry.parent, boxes.registry, boxes.registry / one):
        assert folder.stat().st_mode & 0o777 == 0o700 and folder.stat().st_uid == boxes.box.caller.uid


def test_registry_of_somebody_else_is_refused(boxes):
    (boxes.runtime / "hutch").mkdir(mode=0o755)
    boxes.box.caller.own(boxes.runtime / "hutch")
    (boxes.runtime / "hutch").chmod(0o777)
    assert "is not yours alone" in boxes.fails("new", "-w", boxes.box.workspace)
    (boxes.runtime / "hutch").rmdir()
    (boxes.runtime / "hutch").symlink_to("/tmp")
    assert "cannot open" in boxes.fails("new", "-w", boxes.box.workspace)
    (boxes.runtime / "hutch").unlink()


def test_long_registry_path(boxes):
    """Longer than the address of a socket can be."""
    boxes.runtime = boxes.runtime / ("x" * 120)
    boxes.runtime.mkdir(mode=0o700)
    boxes.box.caller.own(boxes.runtime)
    boxes.env = {"XDG_RUNTIME_DIR": str(boxes.runtime)}
    boxes.registry = boxes.runtime / "hutch" / "boxes"
    assert boxes.sh(boxes.new(), "echo yes") == "yes\n"


def test_other_users_do_not_see_the_box(make_box):
    mine, others = Boxes(make_box("root")), Boxes(make_box("user"))
    one = mine.new()
    try:
        others.env = mine.env
        assert "there is no box" in others.fails("exec", one, "--", "true")
    finally:
        mine.ok("rm", one)


def test_wrong_usage(boxes):
    for args, line in [
            ([], "'hutch box' needs a command; see 'hutch box --help'"),
            (["nwe"], "there is no command 'box nwe'; did you mean 'box new'?"),
            (["rm"], "missing arguments; usage: hutch box rm ID..."),
            (["diff"], "missing arguments; usage: hutch box diff ID [--stat]"),
            (["ls", "x"], "too many arguments; usage: hutch box ls [--json]"),
            (["new", "--ttl", "soon"], "--ttl: 'soon' is not a time like 250ms, 30s or 5m"),
            (["new", "true"], "'true' is not an option; run commands with 'hutch box exec'"),
            (["exec", "--cwd", "x", "id", "true"], "--cwd: 'x' is not an absolute path in the box")]:
        done = boxes(*args)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hutch: {line}\n")
