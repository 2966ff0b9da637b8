"""Time: nothing outlasts its limit or its command, whatever it ignores, forks, stops or holds."""
import time

import pytest

from arsenal import breach_if
from harness import descendants, leftovers

LONG = "25"
LATE = 20


def test_sleeping_past_the_timeout(box):
    result = box.json("sleep", LONG, opts=["--timeout", "500ms"], timeout=90)
    breach_if(result["duration_ms"] > LATE * 1000, f"slept for {result['duration_ms']} ms with a limit of 500")
    assert result["timed_out"] is True and result["killed_by"] == "timeout" and result["exit_code"] == 124, result


def test_the_exit_status_of_a_timeout(box):
    done = box.run("sleep", LONG, opts=["--timeout", "300ms"], timeout=90)
    breach_if(done.seconds > LATE, f"ran for {done.seconds} s")
    assert done.returncode == 124, done


def test_ignoring_every_signal_does_not_help(box, arsenal):
    result = box.json(arsenal.arm(box, "linger"), "deaf", LONG, opts=["--timeout", "500ms"], timeout=90)
    breach_if("OUTLIVED" in result["stdout"] or result["duration_ms"] > LATE * 1000, f"outlived its timeout: {result}")
    assert result["killed_by"] == "timeout", result


def test_a_stopped_process_does_not_outlast_the_timeout(box, arsenal):
    result = box.json(arsenal.arm(box, "linger"), "stop-self", LONG, opts=["--timeout", "500ms"], timeout=90)
    breach_if(result["duration_ms"] > LATE * 1000, f"outlived its timeout: {result}")
    assert result["killed_by"] == "timeout", result


@pytest.mark.parametrize("kind", ["daemon", "stopped", "holder"])
@pytest.mark.parametrize("opts", [[], ["--json"]], ids=["plain", "json"])
def test_the_command_ends_when_its_process_ends(box, arsenal, kind, opts):
    """A daemon of two forks and a setsid, a stopped child, a grandchild that holds stdout: none keeps hutch waiting, and
    none is there afterwards (the check for leftovers runs after every test)."""
    done = box.run(arsenal.arm(box, "linger"), kind, LONG, opts=opts, timeout=90)
    breach_if(done.seconds > LATE, f"{kind} kept hutch for {done.seconds:.1f} s")
    assert done.returncode == 0, done


@pytest.mark.parametrize("kind", ["daemon", "stopped", "holder"])
def test_a_command_in_a_living_box_takes_its_tree_along(box, arsenal, kind):
    """In a box that stays, what a command left behind is ended with the command."""
    inside = arsenal.arm(box, "linger")
    made = box.hutch("box", "new", "-w", box.workspace)
    assert made.returncode == 0, made
    name = made.stdout.strip()
    try:
        done = box.hutch("box", "exec", name, "--", inside, kind, LONG, timeout=90)
        breach_if(done.seconds > LATE, f"{kind} kept hutch for {done.seconds:.1f} s")
        time.sleep(0.3)
        look = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done | grep -c '^/workspace/linger' || true"
        left = box.hutch("box", "exec", name, "--", "sh", "-c", look)
        assert left.returncode == 0, left
        breach_if(left.stdout.strip() != "0", f"{kind} left {left.stdout.strip()} processes")
    finally:
        box.hutch("box", "rm", name)


@pytest.mark.parametrize("kind", ["burn", "burn-idle"])
def test_cpu_time_counts_over_children(box, arsenal, kind):
    """Split over short-lived children, or burnt by a child while the parent sleeps: it is one sum."""
    result = box.json(arsenal.arm(box, "linger"), kind, "5", opts=["--cpu-time", "700ms", "--timeout", "200s"], timeout=250)
    breach_if("OUTLIVED" in result["stdout"], f"used more CPU time than its limit: {result}")
    assert result["killed_by"] == "cpu-time" and result["exit_code"] == 124, result
    breach_if(result["cpu_ms"] > 3000, f"used {result['cpu_ms']} ms of 700")


def test_cpu_time_does_not_count_sleep(box):
    result = box.json("sleep", "1", opts=["--cpu-time", "500ms"])
    assert result["exit_code"] == 0 and result["killed_by"] is None, result


def test_a_deaf_shell_does_not_outlast_the_timeout(box):
    """With children that come and go."""
    began = time.monotonic()
    box.run("sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done", opts=["--timeout", "400ms"], timeout=90)
    breach_if(time.monotonic() - began > LATE, "a deaf shell outlived its timeout")


def test_killing_hutch_kills_the_box(box, arsenal):
    """Even with a daemon and a deaf child inside."""
    arsenal.arm(box, "linger")
    before = set(descendants())
    process = box.start("sh", "-c", "/workspace/linger daemon 30; exec /workspace/linger deaf 30",
                        opts=["--timeout", "40s"])
    seen = b""
    while b"STARTED deaf" not in seen:
        data = process.stdout.readline()
        assert data, process.stderr.read()
        seen += data
    process.kill()
    process.wait(timeout=300)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    left = leftovers(before, patience=5)
    breach_if(left, f"{len(left)} processes outlived hutch")
