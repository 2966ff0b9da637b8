"""The bash tool through `hutch tool`, each call a program of its own, in a box that stays."""
import json
import signal
import subprocess
import time

import pytest

import harness

SHOWN = 30_000


class Tool:
    """One caller's calls of `bash` in one kept box."""

    def __init__(self, box, opts=()):
        self.box = box
        self.env = {"XDG_RUNTIME_DIR": str(box.caller.folder(box.scratch, "run"))}
        self.ids = []
        self.id = self.new(*opts)

    def hutch(self, *args, **more):
        more.setdefault("env", self.env)
        return self.box.hutch(*args, **more)

    def ok(self, *args):
        done = self.hutch(*args)
        assert done.returncode == 0, done
        return done.stdout.split()

    def new(self, *opts):
        [made] = self.ok("box", "new", "-w", self.box.workspace, *opts)
        self.ids.append(made)
        return made

    def fork(self):
        [made] = self.ok("box", "fork", self.id)
        self.ids.append(made)
        return made

    def command(self, input, id=None):
        return [*self.box.caller.prefix, str(self.box.program), "tool", "bash", "--json", "--box", id or self.id,
                json.dumps(input)]

    def call(self, command=None, id=None, **input):
        """The whole result."""
        if command is not None:
            input["command"] = command
        done = self.hutch("tool", "bash", "--json", "--box", id or self.id, "-", input=json.dumps(input))
        assert done.returncode in (0, 1), done
        result = json.loads(done.stdout_bytes)
        assert result["failed"] == (done.returncode == 1)
        return result

    def data(self, command=None, **input):
        result = self.call(command, **input)
        assert not result["failed"], result
        return result["data"]

    def out(self, command, **input):
        data = self.data(command, **input)
        assert data["exit_code"] == 0, data
        return data["output"]

    def fails(self, command=None, **input):
        result = self.call(command, **input)
        assert result["failed"], result
        return result["text"]

    def inside(self, script, id=None):
        """Output of a command that has nothing to do with the tool."""
        done = self.hutch("box", "exec", id or self.id, "--", "sh", "-c", script)
        return done.stdout

    def end(self):
        self.hutch("box", "rm", *self.ids)


@pytest.fixture
def tool(box):
    made = Tool(box)
    yield made
    made.end()


@pytest.fixture
def make_tool(box):
    """Boxes with options."""
    made = []

    def make(*opts):
        made.append(Tool(box, opts))
        return made[-1]

    yield make
    for each in made:
        each.end()


# The ordinary case


def test_result(tool):
    data = tool.data("echo out; echo err >&2; cd /usr")
    assert data.pop("duration_ms") >= 0
    assert data == {"exit_code": 0, "signal": None, "timed_out": False, "killed_by": None, "output": "out\nerr\n",
                    "output_bytes": 8, "truncated": False, "output_file": None, "cwd": "/usr", "note": None}
    assert tool.call("echo hi")["text"] == "hi\n"
    assert tool.call("true")["text"] == "(no output)\n"


def test_begins_in_the_workspace(tool):
    tool.box.put("file", "content")
    assert tool.out("pwd; cat file; id -un") == "/workspace\ncontentagent\n"


def test_fresh_box(box):
    done = box.hutch("tool", "bash", "-w", box.workspace, json.dumps({"command": "pwd; exit 3"}))
    assert (done.returncode, done.stdout) == (0, "/workspace\n[exit code 3]\n")


def test_what_lasts_from_call_to_call(tool):
    tool.data("mkdir a; cd a; export A='1 2'; f() { echo f; }; unset HOME; plain=1")
    assert tool.out('pwd; echo "$A ${HOME-none} ${plain-none}"; f') == "/workspace/a\n1 2 none none\nf\n"


@pytest.mark.parametrize("command, code, signame", [
    ("exit 3", 3, None), ("set -e; false; echo no", 1, None), ("exec false", 1, None), ("kill -9 $$", 137, "SIGKILL"),
    ("echo 'open", 2, None), ("kill -SEGV $$", 139, "SIGSEGV"), ("no-such-command-at-all", 127, None)])
def test_a_command_that_fails_is_no_failed_call(tool, command, code, signame):
    tool.data("export A=1; cd /usr")
    result = tool.call(command)
    assert (result["failed"], result["data"]["exit_code"], result["data"]["signal"]) == (False, code, signame)
    assert f"[ended by signal {signame}]" in result["text"] if signame else f"[exit code {code}]" in result["text"]
    assert tool.out("echo $A; pwd") == "1\n/usr\n"


def test_note_when_the_state_was_lost(tool):
    result = tool.call("export A=1; exec true")
    assert "are as before" in result["data"]["note"] and "are as before" in result["text"]


def test_nothing_waits_for_a_person(tool):
    tool.data("git init -q . && git config user.email a@b && git config user.name a")
    tool.data("for i in $(seq 300); do echo $i >>f; git add f; git commit -qm \"commit $i\"; done")
    began = time.monotonic()
    assert "commit 300" in tool.out("git log")
    assert tool.out("read x || echo end; cat; git --no-optional-locks log -p | head -1 | cut -c1-6") == "end\ncommit\n"
    assert tool.data("git commit --allow-empty")["exit_code"] != 0  # it wants an editor and there is none
    assert time.monotonic() - began < 60
    assert tool.out("echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $DEBIAN_FRONTEND $TERM") == (
        "cat cat 0 noninteractive dumb\n")


def test_defaults_can_be_exported_over(tool):
    tool.data("export PAGER=less GIT_PAGER=more")
    assert tool.out("echo $PAGER $GIT_PAGER") == "less more\n"


def test_stdin(tool):
    assert tool.out("cat", stdin="hello\n") == "hello\n"
    assert tool.out("wc -c", stdin="x" * 700_000) == "700000\n"
    assert tool.out("cat; echo end", stdin="") == "end\n"


def test_cwd(tool):
    assert tool.out("pwd; cd /etc", cwd="/usr/lib") == "/usr/lib\n"
    assert tool.out("pwd") == "/workspace\n"
    assert "/nowhere" in tool.fails("true", cwd="/nowhere")


def test_forks_and_snapshots_carry_the_session(tool):
    tool.data("mkdir -p sub; cd sub; export A=1; f() { echo f$A; }")
    other = tool.fork()
    [snapshot] = tool.ok("box", "snapshot", tool.id)
    tool.data("cd /; export A=2")
    assert tool.out("pwd; f", id=other) == "/workspace/sub\nf1\n"
    tool.data("cd /usr; export A=3", id=other)
    assert tool.out("pwd; f") == "/\nf2\n"
    tool.ok("box", "restore", tool.id, snapshot)
    assert tool.out("pwd; f") == "/workspace/sub\nf1\n"
    assert tool.out("pwd; f", id=other) == "/usr\nf3\n"


def test_folder_that_is_gone(tool):
    tool.data("mkdir x; cd x")
    tool.inside("rmdir /workspace/x")
    data = tool.data("pwd")
    assert data["output"] == "/workspace\n" and "/workspace/x" in data["note"]


# Bad input


@pytest.mark.parametrize("input, word", [
    ({}, "either command"), ({"command": "true", "handle": 1}, "either command"), ({"handle": 1, "cwd": "/"}, "cwd"),
    ({"command": "true", "kill": True}, "kill"), ({"command": "true", "background": True, "stdin": "x"}, "handle"),
    ({"command": ""}, "command"), ({"command": 1}, "command"), ({"command": "true", "timeout": -1}, "timeout"),
    ({"command": "true", "x": 1}, "x"), ({"handle": 999}, "999"), ({"handle": 0}, "handle")])
def test_bad_input(tool, input, word):
    assert word in tool.fails(**input)


def test_nul(tool):
    done = tool.hutch("tool", "bash", "--box", tool.id, '{"command": "echo \\u0000"}')
    assert done.returncode != 0 and "u0000" in done.stderr + done.stdout


def test_long_script(tool):
    assert tool.out("x=1\n" * 225_000 + "echo $x") == "1\n"
    assert "longer" in tool.fails("x=1\n" * 300_000) or "too long" in tool.fails("x=1\n" * 300_000)
    assert tool.out("echo on") == "on\n"


# Limits


def test_timeout_says_what_to_do(tool):
    tool.data("export A=1")
    began = time.monotonic()
    result = tool.call("echo begun; export A=2; sleep 600 & sleep 600", timeout=0.5)
    assert time.monotonic() - began < 30
    data = result["data"]
    assert (data["exit_code"], data["timed_out"], data["killed_by"], data["output"]) == (124, True, "timeout", "begun\n")
    assert "background: true" in result["text"] and "timeout" in result["text"]
    assert "sleep" not in tool.inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").replace("cmdline", "")
    assert tool.out("echo $A") == "1\n"


def test_timeout_is_within_the_limit_of_the_box(make_tool):
    tool = make_tool("--timeout", "700ms")
    began = time.monotonic()
    assert tool.data("sleep 600", timeout=500)["timed_out"]
    assert tool.data("sleep 600")["timed_out"]
    assert time.monotonic() - began < 60


def test_cancel(tool):
    tool.data("export A=1")
    run = subprocess.Popen(tool.command({"command": "echo $$ >/workspace/pid; sleep 600"}), env={**tool.box.env, **tool.env},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
    harness.wait_until(lambda: tool.inside("cat /workspace/pid 2>/dev/null").strip(), what="the command runs")
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=300)
    assert run.returncode == 128 + signal.SIGINT
    harness.wait_until(lambda: "600" not in tool.inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), what="it has ended")
    assert tool.out("echo $A") == "1\n"


def test_pids(make_tool):
    tool = make_tool("--pids", "40")
    script = "import subprocess\nl = [subprocess.Popen(['sleep', '100']) for i in range(100)]"
    data = tool.data("python3", stdin=script)
    assert (data["exit_code"], data["killed_by"]) == (1, "pids") or "Resource temporarily" in data["output"]
    assert tool.out("echo on") == "on\n"


def test_memory(make_tool):
    tool = make_tool("--memory", "64M", "--disk", "64M")
    data = tool.data("python3 -c 'x = bytearray(1 << 30); import time; time.sleep(60)'")
    assert data["exit_code"] != 0
    assert tool.out("echo on") == "on\n"


def test_disk_full(make_tool):
    tool = make_tool("--disk", "20M")
    data = tool.data("export A=1; head -c 100M /dev/zero >big; echo status $?")
    assert "No space left" in data["output"]
    data = tool.data("cd /usr; seq 100000")
    assert data["truncated"] and data["output_file"] is None and "could not be kept" in data["output"]
    assert tool.out("pwd; echo $A") == "/usr\n1\n"
    tool.data("rm /workspace/big; true")
    assert tool.data("seq 100000")["output_file"]


# Output


def test_long_output_keeps_head_and_tail(tool):
    data = tool.data("seq 100000")
    whole = "".join(f"{i}\n" for i in range(1, 100_001))
    assert data["truncated"] and data["output_bytes"] == len(whole) and len(data["output"]) < SHOWN + 300
    head, gap, tail = data["output"].partition("[... ")
    said, _, tail = tail.partition(" ...]\n")
    assert whole.startswith(head) and whole.endswith(tail) and head.endswith("\n") and tail[0].isdigit()
    assert len(head) > SHOWN // 3 and len(tail) > SHOWN // 3
    left = whole[len(head):len(whole) - len(tail)]
    assert said == (f"{len(left)} bytes ({left.count(chr(10))} lines) left out; all of the output is in"
                    f" {data['output_file']}")
    assert tool.out(f"seq 100000 | cmp - {data['output_file']} && echo same") == "same\n"


def test_output_just_within_and_just_above(tool):
    for n in (SHOWN - 1, SHOWN, SHOWN + 1):
        data = tool.data(f"head -c {n} /dev/zero | tr '\\0' x")
        assert (data["truncated"], data["output_bytes"]) == (n > SHOWN, n)
        assert (data["output"] == "x" * n) == (n <= SHOWN)
        assert (data["output_file"] is not None) == (n > SHOWN)


def test_huge_output(tool):
    data = tool.data("head -c 1000000000 /dev/zero")
    assert (data["exit_code"], data["output_bytes"]) == (0, 1_000_000_000)
    assert "first 64 MiB" in data["output"]
    assert tool.out(f"stat -c %s {data['output_file']}") == f"{64 << 20}\n"


def test_output_in_pieces_is_whole_in_the_file(tool):
    data = tool.data("for i in $(seq 400); do head -c 1000 /dev/urandom | tee -a all; done")
    assert data["output_bytes"] == 400_000
    assert tool.out(f"cmp all {data['output_file']} && echo same") == "same\n"


def test_binary_and_other_encodings(tool):
    assert tool.out("printf 'a\\xff\\xc3b\\0c'") == "a\ufffd\ufffdb\u2400c"
    assert tool.out("printf 'h\\xc3\\xa9 \\xe2\\x86\\x92'") == "hé →"
    text = tool.data("for i in $(seq 20000); do printf '\\xe2\\x86\\x92'; done")["output"]
    assert "\ufffd" not in text and text.count("→") > SHOWN // 4


def test_child_that_holds_the_output(tool):
    began = time.monotonic()
    assert tool.out("sleep 300 & echo done") == "done\n"
    assert time.monotonic() - began < 60


# Hostile code in the box

KILLER = r"""for p in /proc/[0-9]*; do
    if tr '\0' ' ' <$p/cmdline | grep -q '^bash --norc'; then kill -%s ${p#/proc/}; fi
done 2>/dev/null; true"""


@pytest.mark.parametrize("signame", ["KILL", "STOP"])
def test_ready_shell_that_is_killed_or_stopped(tool, signame):
    tool.data("export A=1; cd /usr")
    tool.inside(KILLER % signame)
    assert tool.out("echo $A; pwd") == "1\n/usr\n"
    assert tool.out("echo on") == "on\n"


# In the background


def poll(tool, handle, wanted, **input):
    """Polls until the output so far holds what is wanted; returns all of it and the last data."""
    seen, until = "", time.monotonic() + 30
    while time.monotonic() < until:
        data = tool.data(handle=handle, timeout=1, **input)
        seen += data["output"]
        if wanted(seen, data):
            return seen, data
    pytest.fail(f"never came: {seen}")


def test_background(tool):
    tool.data("cd /usr; export A=1")
    began = time.monotonic()
    result = tool.call("pwd; echo $A; sleep 1; echo end; exit 3", background=True)
    handle = result["data"]["handle"]
    assert result["data"]["running"] and str(handle) in result["text"]
    seen, data = poll(tool, handle, lambda seen, data: not data["running"])
    while data["output"]:
        data = tool.data(handle=handle)
        seen += data["output"]
    assert seen == "/usr\n1\nend\n" and data["exit_code"] == 3 and not data["running"]
    assert data["output_file"] == result["data"]["output_file"]
    assert tool.out(f"cat {data['output_file']}") == seen
    assert time.monotonic() - began < 60


def test_background_input_and_eof(tool):
    handle = tool.data("while read x; do echo got $x; done; echo bye", background=True)["handle"]
    assert tool.data(handle=handle)["output"] == ""
    seen, data = poll(tool, handle, lambda seen, data: "one" in seen, stdin="one\n")
    assert data["running"] and data["exit_code"] is None
    tool.data(handle=handle, eof=True)
    seen, data = poll(tool, handle, lambda seen, data: not data["running"])
    assert data["exit_code"] == 0
    assert "input is closed" in tool.fails(handle=handle, stdin="more")


def test_background_input_that_nobody_reads(tool):
    handle = tool.data("sleep 300", background=True)["handle"]
    assert "has not read its input" in tool.fails(handle=handle, stdin="x" * 3_000_000)
    assert not tool.data(handle=handle, kill=True)["running"]


def test_background_kill(tool):
    handle = tool.data("sleep 777 & setsid sleep 777 & echo up; wait", background=True)["handle"]
    poll(tool, handle, lambda seen, data: "up" in seen)
    result = tool.call(handle=handle, kill=True)
    assert result["data"]["signal"] == "SIGKILL" and not result["data"]["running"]
    assert "[ended by signal SIGKILL]" in result["text"]
    assert "777" not in tool.inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_background_output_that_is_long(tool):
    handle = tool.data("seq 100000", background=True)["handle"]
    harness.wait_until(lambda: not tool.data("true") or "100000" in tool.inside("tail -n 1 /tmp/.hutch/*.out"), what="all is there")
    data = tool.data(handle=handle)
    assert data["truncated"] and len(data["output"]) < SHOWN + 300 and data["output_bytes"] == 588_895
    assert data["output"].startswith("1\n2\n") and data["output"].endswith("99999\n100000\n")
    assert f"bytes left out; all of the output is in {data['output_file']}" in data["output"] and data["dropped_bytes"] == 0
    assert tool.data(handle=handle)["output"] == ""


@pytest.fixture
def small(box):
    """A box whose background logs are smaller than its disk, and that smaller than what the tests print."""
    made = Tool(box, ["--disk", "16M", "--output", "256K", "--output-total", "200M"])
    yield made
    made.end()


def test_background_log_is_bounded(small):
    started = small.data("echo first; yes | head -c 50000000; echo last; sleep 600", background=True)
    handle, path = started["handle"], started["output_file"]
    harness.wait_until(lambda: small.inside(f"tail -n 1 {path}") == "last\n", seconds=60, what="all was printed")
    assert int(small.inside(f"stat -c %s {path}")) < (256 << 10) + 100
    assert small.inside(f"head -n 2 {path}") == "first\ny\n"
    gap = small.inside(f"grep -a 'bytes left out' {path}").split()
    assert gap[0] == "[..." and int(gap[1]) + int(small.inside(f"stat -c %s {path}")) == 50_000_011 + 52
    assert small.inside("echo room >/tmp/there && cat /tmp/there") == "room\n"
    data = small.data(handle=handle)
    assert data["output_bytes"] == 50_000_011 and data["truncated"] and data["dropped_bytes"] == int(gap[1])
    assert data["output"].startswith("first\ny\n") and data["output"].endswith("y\nlast\n") and len(data["output"]) < SHOWN + 300
    assert f"{gap[1]} of them were dropped, the head and the tail of the output are in {path}" in data["output"]
    assert small.data(handle=handle)["dropped_bytes"] == 0
    assert not small.data(handle=handle, kill=True)["running"]


def test_background_counts_add_up_however_often_somebody_looks(small):
    handle = small.data("echo first; read x; yes | head -c 5000000; echo last; read x", background=True)["handle"]
    poll(small, handle, lambda seen, data: "first" in seen)
    data = small.data(handle=handle, stdin="\n")
    size = data["output_bytes"]
    while "last" not in data["output"]:
        data = small.data(handle=handle, timeout=1)
        size += data["output_bytes"]
    assert size == 5_000_005 and data["output"].endswith("last\n")
    assert not small.data(handle=handle, kill=True)["running"]


def test_background_command_that_prints_too_much_is_ended(small):
    handle = small.data("yes", background=True)["handle"]
    _, data = poll(small, handle, lambda seen, data: not data["running"])
    assert data["killed_by"] == "output" and data["signal"] == "SIGKILL"


def test_background_log_on_a_full_disk_keeps_its_counts(small):
    small.data("head -c 1G /dev/zero >/tmp/fill; true")
    handle = small.data("echo one; seq 100000; echo last", background=True)["handle"]
    total, data = 0, {"running": True}
    while data["running"]:
        data = small.data(handle=handle, timeout=1)
        total += data["output_bytes"]
    assert data["exit_code"] == 0 and total == 588_895 + 9


def test_background_log_stands_still_while_the_box_is_forked(small):
    started = small.data("while :; do echo tick; done", background=True)
    copy = small.fork()
    size = int(small.inside(f"stat -c %s {started['output_file']}", id=copy))
    assert size < (256 << 10) + 100
    before = small.data(handle=started["handle"])["output_bytes"]
    harness.wait_until(lambda: small.data(handle=started["handle"])["output_bytes"] > 0, what=f"it goes on after {before}")
    assert not small.data(handle=started["handle"], kill=True)["running"]


def test_background_time_limit(tool):
    handle = tool.data("sleep 600", background=True, timeout=0.3)["handle"]
    _, data = poll(tool, handle, lambda seen, data: not data["running"])
    assert data["timed_out"] and data["exit_code"] == 124


def test_background_output_file_that_is_tampered_with(tool):
    started = tool.data("echo one; read x; echo two", background=True)
    handle, path = started["handle"], started["output_file"]
    poll(tool, handle, lambda seen, data: "one" in seen)
    tool.inside(f"rm {path}; mkfifo {path}")
    told = tool.data(handle=handle, eof=True, timeout=1)
    rest = poll(tool, handle, lambda seen, data: not data["running"])[0] if told["running"] else ""
    assert told["output"] + rest == "two\n"


# What the host knows


def test_command_that_only_the_host_has(tool):
    folder = tool.box.caller.folder(tool.box.scratch, "tools") / "bin"
    folder.mkdir()
    program = folder / "hutch-test-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in (folder, program):
        tool.box.caller.own(path)
    done = tool.hutch("tool", "bash", "--box", tool.id, json.dumps({"command": "hutch-test-program"}),
                      env={**tool.env, "PATH": f"{tool.box.env['PATH']}:{folder}"})
    assert f"is at {program} on the host" in done.stdout and f"--ro {folder.parent}" in done.stdout
    assert "on the host" not in tool.call("hutch-test-nothing")["text"]


def test_own_box_and_kept_box_agree(tool):
    input = json.dumps({"command": "seq 20000; cd /usr; exit 4"})
    own = tool.hutch("tool", "bash", "--json", "-w", tool.box.workspace, input)
    kept = tool.hutch("tool", "bash", "--json", "--box", tool.id, input)
    one, two = json.loads(own.stdout)["data"], json.loads(kept.stdout)["data"]
    for data in (one, two):
        data["output"] = data["output"].replace(data.pop("output_file"), "FILE")
        data.pop("duration_ms")
    assert one == two


def test_ready_shells_are_no_commands_of_the_box(tool):
    tool.data("true")
    [listed] = [x for x in json.loads(tool.hutch("box", "ls", "--json").stdout) if x["id"] == tool.id]
    assert listed["running"] == 0
