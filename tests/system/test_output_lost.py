"""Standard output that cannot be written: every command says so in one line and exits 125. A reader that went away is no failure."""
import json
import os
import signal
import subprocess

import pytest

LINE = "hutch: cannot write to standard output: No space left on device\n"


def full(box, *args, input=None, env=None, cwd=None):
    """A command whose standard output is /dev/full, run to its end."""
    with open("/dev/full", "wb") as out:
        return subprocess.run([*box.caller.prefix, str(box.program), *map(str, args)], stdout=out, stderr=subprocess.PIPE,
                              input=input or "", text=True, timeout=120, check=False, env={**box.env, **(env or {})},
                              cwd=cwd or box.workspace)


def assert_lost(done):
    assert (done.returncode, done.stderr) == (125, LINE)


@pytest.mark.parametrize("args", [
    ["run", "echo", "hi"], ["run", "--json", "echo", "hi"], ["run", "--tty", "echo", "hi"],
    ["run", "sh", "-c", "echo hi; exit 3"], ["run", "yes"], ["run", "seq", "1000000"],
    ["tool", "--list"], ["tool", "--list", "--json"], ["tool", "--markdown"],
    ["tool", "bash", '{"command": "echo hi"}'], ["tool", "--json", "bash", '{"command": "echo hi"}'],
    ["box", "ls", "--json"], ["box", "--help"],
    ["history", "ls", "--json"], ["history", "search", "--json", "x"], ["history", "--help"],
    ["gym", "tasks", "--no-check"], ["gym", "tasks", "--no-check", "--json"], ["gym", "episode", "--help"],
    ["gym", "episode", "--task", "bugfix_1", "--agent", "random", "--seed", "7"],
    ["gym", "episode", "--task", "bugfix_1", "--agent", "random", "--seed", "7", "--json"],
    ["doctor"], ["doctor", "--json"], ["help"], ["help", "--json"], ["help", "run"], ["--help"], ["run", "--help"], ["--version"],
    ["version"],
], ids=" ".join)
def test_failed_write_is_a_failure(box, args):
    assert_lost(full(box, *args))


def test_failed_write_of_a_box_that_stays(box):
    box.put("a", "one\n")
    id = box.hutch("box", "new", "-w", box.workspace).stdout.strip()
    try:
        assert_lost(full(box, "box", "exec", id, "--", "echo", "hi"))
        assert_lost(full(box, "box", "exec", "--json", id, "--", "echo", "hi"))
        assert_lost(full(box, "box", "exec", "--tty", id, "--", "echo", "hi"))
        assert box.hutch("box", "exec", id, "--", "sh", "-c", "echo two >a").returncode == 0
        assert_lost(full(box, "box", "diff", id))
        assert_lost(full(box, "box", "diff", "--stat", id))
        assert_lost(full(box, "box", "snapshot", id))
        assert_lost(full(box, "box", "ls"))
        assert full(box, "box", "exec", id, "--", "true").returncode == 0
    finally:
        box.hutch("box", "rm", id)


def test_failed_write_of_a_session(box):
    data = box.caller.folder(box.scratch, "data")
    folder = data / "hutch" / "history"
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700)
        box.caller.own(path)
    message = {"role": "user", "turn": 1, "content": [{"type": "text", "text": "words " * 9000}]}
    path = folder / "20260101-000000.json"
    path.write_text(json.dumps({"version": 1, "session": "20260101-000000", "messages": [message]}))
    box.caller.own(path)
    env = {"XDG_DATA_HOME": str(data)}
    for args in (["ls"], ["show", "last"], ["show", "--json", "last"], ["export", "last"], ["export", "--format", "html", "last"],
                 ["search", "words"]):
        assert_lost(full(box, "history", *args, env=env))
    assert path.exists()
    assert_lost(full(box, "history", "rm", "last", env=env))


def test_nothing_is_applied_when_the_output_is_lost(box):
    box.put("a", "one\n")
    assert_lost(full(box, "run", "-w", box.workspace, "--apply", "--", "sh", "-c", "echo two >a; echo said"))
    assert_lost(full(box, "run", "-w", box.workspace, "--apply", "--json", "--", "sh", "-c", "echo two >a"))
    assert_lost(full(box, "tool", "-w", box.workspace, "--apply", "bash", '{"command": "echo two >a; echo said"}'))
    assert (box.workspace / "a").read_text() == "one\n"


def test_mcp_ends_when_it_cannot_answer(box):
    """It need not wait for the end of its input, which stays open here."""
    with open("/dev/full", "wb") as out:
        server = subprocess.Popen([*box.caller.prefix, str(box.program), "mcp", "-w", str(box.workspace)], stdin=subprocess.PIPE,
                                  stdout=out, stderr=subprocess.PIPE, text=True, env=box.env)
    server.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    server.stdin.flush()
    try:
        assert server.wait(60) == 125
        assert server.stderr.read() == LINE
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stderr.close()


def test_commands_that_print_nothing_do_not_fail(box):
    assert full(box, "run", "true").returncode == 0
    assert full(box, "run", "sh", "-c", "echo only here >&2").stderr == "only here\n"


def closed(box, *args):
    """A command whose reader has gone before it writes."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run([*box.caller.prefix, str(box.program), *map(str, args)], stdout=write, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=300, check=False, env=box.env, cwd=box.workspace)
    finally:
        os.close(write)


@pytest.mark.parametrize("args", [["run", "--json", "true"], ["help"], ["doctor"], ["tool", "--list"], ["history", "ls", "--json"],
                                  ["gym", "tasks", "--no-check"], ["tool", "bash", '{"command": "echo hi"}'], ["run", "yes"]], ids=" ".join)
def test_reader_that_went_away_ends_it_quietly(box, args):
    done = closed(box, *args)
    assert done.stderr == ""
    assert done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE)


def test_command_decides_itself_what_a_lost_reader_means(box):
    assert closed(box, "run", "sh", "-c", "trap '' PIPE; echo hi 2>/dev/null; exit 3").returncode == 3
