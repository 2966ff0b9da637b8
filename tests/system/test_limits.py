"""Every limit of `hutch run`, run into, as root and as an ordinary user: what it stops, and what the result says."""
import os
import time

import pytest

import harness


def spread(script, *args):
    return ["/usr/bin/python3", "-c", script, *args]


EAT = """
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(b"x" * (1 << 20))
print("ate", len(held), flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_timeout(box):
    result = box.json("sleep", "20", opts=["--timeout", "700ms"])
    assert (result["exit_code"], result["timed_out"], result["killed_by"]) == (124, True, "timeout")
    assert 600 <= result["duration_ms"] < 4000


def test_timeout_as_exit_status(box):
    assert box.run("sleep", "20", opts=["--timeout", "300ms"]).returncode == 124


def test_within_the_timeout(box):
    result = box.json("sleep", "0.2", opts=["--timeout", "5s"])
    assert (result["exit_code"], result["timed_out"], result["killed_by"]) == (0, False, None)
    assert result["duration_ms"] >= 200


def test_cpu_time(box):
    result = box.json("sh", "-c", "while :; do :; done", opts=["--cpu-time", "600ms", "--timeout", "30s"])
    assert (result["exit_code"], result["killed_by"]) == (124, "cpu-time")
    assert 400 <= result["cpu_ms"] < 4000
    assert result["duration_ms"] < 20000


def test_cpu_time_as_exit_status(box):
    done = box.run("sh", "-c", "while :; do :; done", opts=["--cpu-time", "400ms", "--timeout", "30s"])
    assert done.returncode == 124


def test_memory(box):
    """Ended by the kernel where a cgroup can be had, by the guest's watch or a failed allocation where not."""
    result = box.json(*spread(EAT, "400", "3"), opts=["--memory", "96M", "--timeout", "20s"])
    assert result["exit_code"] != 0
    assert result["killed_by"] == "memory" or "MemoryError" in result["stderr"], result


def test_memory_says_so_under_a_cgroup(box):
    if not harness.host_has_cgroup("memory", box.caller):
        pytest.skip("no cgroup memory controller for this user on this host")
    result = box.json(*spread(EAT, "400", "3"), opts=["--memory", "96M", "--timeout", "20s"])
    assert (result["killed_by"], result["signal"]) == ("memory", "SIGKILL")


def test_within_the_memory(box):
    result = box.json(*spread(EAT, "100", "0"), opts=["--memory", "256M"])
    assert (result["exit_code"], result["killed_by"]) == (0, None), result
    assert 100 << 20 <= result["max_rss"] <= 256 << 20


FORK = """
import os, sys, time
n = 0
try:
    while n < 500:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        n += 1
except OSError as error:
    print(error.strerror)
print(n, flush=True)
"""


def test_pids(box):
    """The next fork fails; whoever stays at the limit may be ended for it."""
    result = box.json(*spread(FORK), opts=["--pids", "40", "--timeout", "20s"])
    assert result["killed_by"] in (None, "pids"), result
    if result["killed_by"] is None:
        assert 10 < int(result["stdout"].split()[-1]) <= 40, result


def test_within_the_pids(box):
    result = box.json("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait; echo fine", opts=["--pids", "40"])
    assert (result["stdout"], result["exit_code"]) == ("fine\n", 0)


OPEN = """
import os
n = 3
try:
    while n < 3000:
        os.dup(0)
        n += 1
except OSError as error:
    print(error.strerror)
print(n)
"""


def test_files(box):
    result = box.json(*spread(OPEN), opts=["--files", "64"])
    assert result["stdout"] == "Too many open files\n64\n", result


def test_files_by_default(box):
    assert box.run("sh", "-c", "ulimit -n").stdout == "1024\n"


@pytest.mark.parametrize("files, hard", [(1024, 4096), (64, 4096), (5000, 5000)])
def test_a_program_raises_its_open_files_to_the_hard_limit(box, files, hard):
    done = box.run("sh", "-c", f"ulimit -n {hard} && ulimit -n && ulimit -n {hard + 1} 2>/dev/null || echo no more",
                   opts=["--files", files])
    assert done.stdout == f"{hard}\nno more\n", done


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/home/agent"])
def test_disk(box, folder):
    result = box.json("sh", "-c", f"head -c 64M /dev/zero >{folder}/fill; status=$?; wc -c <{folder}/fill; exit $status",
                      opts=["--disk", "20M", "--timeout", "20s"])
    assert result["exit_code"] != 0 and result["killed_by"] in (None, "disk"), result
    if result["killed_by"] is None:
        assert "No space left" in result["stderr"] and 10 << 20 < int(result["stdout"]) <= 20 << 20, result


def test_within_the_disk(box):
    result = box.json("sh", "-c", "head -c 15M /dev/zero >fill; wc -c <fill", opts=["--disk", "20M"])
    assert (result["exit_code"], result["stdout"]) == (0, f"{15 << 20}\n"), result


def test_disk_does_not_limit_the_folder_itself(box):
    """In direct mode files are the host's own: the limit is for what the box keeps."""
    result = box.json("sh", "-c", "head -c 4M /dev/zero >fill", opts=["--mode", "direct"])
    assert result["exit_code"] == 0 and os.path.getsize(box.workspace / "fill") == 4 << 20


def test_cpus(box):
    """Half a processor for a second of wall time is half a second of CPU time."""
    if not harness.host_has_cgroup("cpu", box.caller):
        pytest.skip("no cgroup cpu controller for this user on this host")
    result = box.json("sh", "-c", "while :; do :; done", opts=["--cpus", "0.5", "--timeout", "2s"])
    assert result["cpu_ms"] < 0.75 * result["duration_ms"], result


def test_cpus_are_not_silently_dropped(box):
    """Where the host cannot hold it, hutch says so: no box runs with more than it was asked to give."""
    if harness.host_has_cgroup("cpu", box.caller):
        pytest.skip("this host can hold it: see test_cpus")
    done = box.hutch("run", "-w", box.workspace, "--cpus", "0.5", "--timeout", "1s", "--", "sleep", "5")
    assert "cpu" in done.stderr, f"--cpus was ignored without a word: {done!r}"


def test_output(box):
    result = box.json("sh", "-c", "printf HEAD; head -c 300000 /dev/zero | tr '\\0' x; printf TAIL", opts=["--output", "10K"])
    assert result["stdout_bytes"] == 300008 and result["truncated"] is True
    assert result["stdout"].startswith("HEADx") and result["stdout"].endswith("xTAIL")
    assert len(result["stdout"]) <= (10 << 10) + 256


def test_within_the_output(box):
    result = box.json("sh", "-c", "head -c 10240 /dev/zero | tr '\\0' x", opts=["--output", "10K"])
    assert result["stdout"] == "x" * 10240 and result["truncated"] is False


def test_output_is_not_cut_without_json(box):
    done = box.run("sh", "-c", "head -c 3000000 /dev/zero", opts=["--output", "10K"])
    assert len(done.stdout_bytes) == 3000000


@pytest.mark.parametrize("option, value", [("--timeout", "soon"), ("--memory", "-1"), ("--memory", "99999999999G"), ("--pids", "0"),
                                           ("--files", "many"), ("--disk", "1Q"), ("--cpus", "-2"), ("--output", ""),
                                           ("--cpu-time", "1x")])
def test_a_limit_that_means_nothing_is_refused(box, option, value):
    done = box.hutch("run", "-w", box.workspace, option, value, "--", "true")
    assert done.returncode == 2 and done.stderr.startswith("hutch: "), done


def test_memory_of_an_earlier_box_does_not_count(box):
    """Names that a box looked up stay in the kernel's cache, charged to a control group that the next box gets."""
    looked_up = box.run("perl", "-e", 'for (1..900000) { -e "/usr/none$_" }', opts=["--memory", "1G"])
    assert looked_up.returncode == 0, looked_up
    result = box.json("sh", "-c", "while :; do :; done", opts=["--timeout", "500ms", "--memory", "64M"])
    assert result["killed_by"] == "timeout", result


def test_limits_hold_together(box):
    """The first one reached is the one that is named."""
    began = time.monotonic()
    result = box.json("sh", "-c", "while :; do :; done", opts=["--cpu-time", "100s", "--timeout", "500ms", "--memory", "64M"])
    assert result["killed_by"] == "timeout" and time.monotonic() - began < 60
