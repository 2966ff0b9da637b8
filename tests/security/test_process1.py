"""The guest, process 1 of a box, which has the user id of the code that it watches: nobody in the box can cripple it."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import harness
from arsenal import judge


def test_process_1_cannot_be_touched(box, attack):
    """Limits, scheduling, priorities, affinity, memory, tracing, files of /proc, and every signal by every way."""
    attack(box, "process1")


def test_the_memory_limit_holds_against_code_that_cripples_process_1(box, arsenal):
    result = box.json(arsenal.arm(box, "process1"), "escape", 300, opts=["--memory", "64M", "--timeout", "40s"])
    judge(type("Output", (), {"stdout": result["stdout"]}))
    assert result["killed_by"] == "memory", result


@pytest.mark.parametrize("script", [
    "sleep 9 & renice -n 5 -p $! && kill $!",
    "sleep 9 & taskset -p 1 $! && kill $!",
    "sleep 9 & chrt --idle -p 0 $! && kill $!",
    "sleep 9 & prlimit --pid $! --nofile=64:64 && kill $!",
    "sleep 9 & ionice -c 3 -p $! && kill $!",
    "nice -n 3 true && taskset 1 true && ionice -c 3 true",
], ids=["renice", "taskset", "chrt", "prlimit", "ionice", "self"])
def test_priorities_of_other_processes_can_be_set(box, script):
    """What keeps process 1 safe must not get into the way of what programs do to their own children."""
    tool = script.split("& ")[-1].split()[0]
    if not shutil.which(tool):
        pytest.skip(f"no {tool} on this host")
    done = box.run("sh", "-c", script)
    assert done.returncode == 0, done


def guests():
    """Processes 1 of the boxes that this session started."""
    found = []
    for pid in harness.descendants():
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            if status.startswith("Name:\thutch-guest\n") and re.search(r"^NSpid:.*\t1$", status, re.M):
                found.append(pid)
    return found


def one_guest():
    harness.wait_until(lambda: len(guests()) == 1, what="one guest")
    return guests()[0]


@contextlib.contextmanager
def kept_box(box):
    made = box.hutch("box", "new", "-w", box.workspace)
    assert made.returncode == 0, made
    name = made.stdout.strip()
    try:
        yield name
    finally:
        box.hutch("box", "rm", name)


def ended_with(done, *words):
    """One line that says what happened, and the status of hutch's own failures, within seconds."""
    assert done.returncode == 125, done
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("hutch:"), done
    for word in words:
        assert word in lines[0], done


@pytest.mark.parametrize("sent, words", [(signal.SIGSTOP, ("process 1", "did not answer")), (signal.SIGKILL, ("process 1", "SIGKILL"))],
                         ids=["stopped", "killed"])
def test_a_run_ends_with_its_guest(box, sent, words):
    process = box.start("sh", "-c", "echo up; sleep 300")
    assert process.stdout.readline() == b"up\n"
    os.kill(one_guest(), sent)
    out, err = process.communicate(b"", timeout=300)
    ended_with(harness.Finished(process.returncode, out, err, 0), *words)


REQUESTS = [["box", "exec", "BOX", "--", "true"], ["box", "diff", "BOX"], ["box", "apply", "BOX"], ["box", "snapshot", "BOX"],
            ["box", "fork", "BOX"], ["tool", "--box", "BOX", "read_file", '{"path": "a"}'],
            ["tool", "--box", "BOX", "bash", '{"command": "true"}'], ["tool", "--box", "BOX", "list_files", "{}"]]


def test_every_request_to_a_stopped_guest_fails_within_seconds(box):
    """Each to a box of its own, all at once: every one of them waits until the host gives the guest up."""
    box.put("a", "text\n")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(REQUESTS)) as pool:
        names = [stack.enter_context(kept_box(box)) for _ in REQUESTS]
        assert len(guests()) == len(REQUESTS)
        for guest in guests():
            os.kill(guest, signal.SIGSTOP)
        asked = [[name if word == "BOX" else word for word in request] for name, request in zip(names, REQUESTS)]
        for request, done in zip(asked, pool.map(lambda words: box.hutch(*words, timeout=100), asked)):
            assert done.returncode not in (0, 137) and done.seconds < 30, (request, done)
            assert "process 1" in done.stderr + done.stdout, (request, done)


def test_a_large_request_to_a_stopped_guest_fails_within_seconds(box):
    """One that does not fit into a socket: sending it must not wait for ever either."""
    with kept_box(box) as name:
        os.kill(one_guest(), signal.SIGSTOP)
        done = box.hutch("box", "exec", name, "--", "true", *["x" * 60000] * 12, timeout=300)
        ended_with(done, "process 1", "did not answer")


def test_a_file_request_does_not_wait_for_a_worker_that_was_stopped(box):
    """File requests are served by processes of the same user: stopping them must not keep the host waiting."""
    box.put("a", "text\n")
    stop = ("import os, signal, time\n"
            "while True:\n"
            "    for p in filter(str.isdigit, os.listdir('/proc')):\n"
            "        try:\n"
            "            if open(f'/proc/{p}/comm').read() == 'hutch-guest\\n': os.kill(int(p), signal.SIGSTOP)\n"
            "        except OSError: pass\n")
    with kept_box(box) as name:
        started = box.hutch("tool", "--box", name, "bash", json.dumps({"command": f"python3 -c {shlex.quote(stop)}", "background": True}))
        assert started.returncode == 0, started
        for _ in range(40):
            done = box.hutch("tool", "--box", name, "read_file", '{"path": "a"}', timeout=300)
            assert done.seconds < 20, done
