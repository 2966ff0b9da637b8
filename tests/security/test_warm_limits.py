"""What runs of a warm process may use up, what is left of them, and what becomes of the process when things die."""
import os
import signal
from pathlib import Path

import pytest

import harness
from arsenal import breach_if


def test_a_run_ends_with_what_it_says(warm):
    assert warm.run("raise SystemExit(0)")["exit_code"] == 1
    assert "ValueError: hm" in warm.run("raise ValueError('hm')")["output"]
    assert warm.run("os._exit(7)")["exit_code"] == 7
    done = warm.run("os.kill(os.getpid(), 15)")
    assert (done["signal"], done["exit_code"]) == (15, 143)


def test_output_is_kept_from_its_end(warm):
    done = warm.run("import sys\nfor i in range(200000): print(i)\nprint('last', file=sys.stderr)", output_max=1000)
    assert done["output"].endswith("199998\n199999\nlast\n") or done["output"].endswith("199999\n"), done["output"][-100:]
    assert len(done["output"]) == 1000 and done["total"] == len("".join(f"{i}\n" for i in range(200000))) + 5


def test_what_is_said_arrives_whole(warm):
    done = warm.run("for i in range(3000): os.write(fd, b'%d\\n' % i + b'x' * 1000)")
    assert done["said"] == "".join(f"{i}\n" + "x" * 1000 for i in range(3000))


def test_who_does_not_listen_ends_the_run(warm):
    done = warm.run("import time\nos.write(fd, b'x')\ntime.sleep(300)", deaf=True)
    assert (done["signal"], done["limit"], done["said"]) == (9, None, "x")
    warm.works()


def test_a_request_may_be_large(warm):
    text = "x = " + repr("y" * 3_000_000) + "\nprint(len(x))"
    assert warm.run(text)["output"] == "3000000\n"


def test_a_loop_is_stopped_by_its_cpu_time(warm):
    done = warm.run("while True: pass", cpu_ms=300)
    assert (done["limit"], done["exit_code"]) == ("cpu-time", 124), done
    warm.works()


def test_cpu_time_counts_over_children(warm):
    done = warm.run("""
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
for i in range(3):
    if os.fork() == 0:
        while True: pass
os.wait()
""", cpu_ms=300)
    breach_if((done["limit"], done["exit_code"]) != ("cpu-time", 124), f"CPU time: {done}")


def test_sleeping_is_stopped_by_the_clock(warm):
    done = warm.run("import signal, time\nfor s in range(1, 32):\n    s in (9, 17, 19) or signal.signal(s, signal.SIG_IGN)\n"
                    "while True: time.sleep(100)", timeout_ms=300)
    assert (done["limit"], done["exit_code"]) == ("timeout", 124), done
    warm.works()


def test_the_boxes_limits_hold_where_the_run_names_none(open_warm):
    warm = open_warm("timeout=300")
    assert warm.run("import time\ntime.sleep(300)")["limit"] == "timeout"


def test_a_memory_hog_meets_its_limit(open_warm):
    warm = open_warm("memory=134217728")
    done = warm.run("""
kept = []
while True:
    kept.append(os.urandom(1 << 20) * 8)
""", timeout_ms=30000)
    breach_if(done["exit_code"] == 0 or done["limit"] not in ("memory", None), f"{done}")
    assert done["limit"] == "memory" or "MemoryError" in done["output"], done
    warm.works()


def test_a_fork_bomb_meets_its_limit(open_warm):
    """Every process at its limit, each trying for more; nothing of it is left afterwards."""
    warm = open_warm("pids=40")
    done = warm.run("""
import time
while True:
    try:
        os.fork()
    except OSError:
        pass
""", timeout_ms=2000)
    assert done["limit"] in ("pids", "timeout"), done
    left = warm.ask(exec="ls -d /proc/[0-9]* | wc -l")
    breach_if(int(left["output"]) > 4, f"left {left['output']} processes")
    warm.works()


def test_an_output_flood_is_ended(open_warm):
    warm = open_warm("output_total=50000000")
    done = warm.run("while True: os.write(1, b'x' * 65536)", output_max=100)
    assert done["limit"] == "output" and done["output"] == "x" * 100, done
    warm.works()


def test_a_silent_flood_over_the_runners_descriptor_ends(warm):
    done = warm.run("while True: os.write(fd, b'x' * 65536)")
    assert done["exit_code"] != 0, done["exit_code"]
    warm.works()


STRAYS = """
import subprocess, time
for flags in (dict(start_new_session=True), {}):
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP; (sleep 1000; true) & (setsid sleep 1001; true) & sleep 1002"], **flags)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


def commands(warm):
    return warm.ask(exec="cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["output"]


def test_what_a_run_started_dies_with_it_and_nothing_else(warm):
    """In a box that is in use: a background command of the agent's lives on."""
    assert warm.ask(background="exec sleep 5000") == {"done": True}
    harness.wait_until(lambda: "sleep 5000" in commands(warm), what="the background command runs")
    warm.run(STRAYS)
    left = commands(warm)
    breach_if("sleep 10" in left, f"left: {left}")
    assert "sleep 5000" in left
    warm.run("while True: os.fork()", timeout_ms=300)
    assert "sleep 5000" in commands(warm)


@pytest.mark.parametrize("which", [9, 19])
def test_hostile_neighbours_hurt_only_the_runs_in_their_own_box(warm, which):
    """A process of the box that stops or kills whatever comes in, while others run elsewhere."""
    script = f"exec python3 -c 'import os\nwhile True:\n  try: os.kill(-1, {which})\n  except OSError: pass'"
    assert warm.ask(background=script) == {"done": True}
    warm.process.stdin.write('{"run": "print(1)", "timeout_ms": 500}\n' * 2)
    warm.process.stdin.flush()
    for _ in range(2):
        answer = warm.answer()
        assert "error" in answer or answer["signal"] == 9 or answer["limit"] == "timeout" or answer["output"] == "1\n", answer
    answer = warm.ask(spin=3, threads=2, run="print(1)")
    assert [done.get("output") for done in answer["results"]] == ["1\n"] * 6, answer
    assert harness.process_stat(warm.pid), "the warm process is gone"


def test_closing_everything_and_killing_everybody_hurts_nobody_else(warm):
    warm.run("os.closerange(0, 4096); os._exit(0)")
    done = warm.run("""
for target, which in ((-1, 9), (-1, 19), (1, 9), (1, 19)):
    try:
        os.kill(target, which)
    except OSError:
        pass
print("still here")
""")
    assert done["output"] == "still here\n", done
    done = warm.run("os.kill(0, 19)", timeout_ms=500)
    assert done["limit"] == "timeout", done
    warm.works()


def test_a_snapshot_stops_a_run_and_lets_it_go_on(warm):
    """A run that counts in two files, one after the other: in a picture of one moment they are never further apart."""
    warm.run("for name in 'ab': open('/workspace/' + name, 'w').write('00000000')")
    answer = warm.ask(film=6, exec="cat /workspace/a /workspace/b", run="""
import time
a, b = (os.open("/workspace/" + name, os.O_WRONLY) for name in "ab")
end, i = time.monotonic() + 3, 0
while time.monotonic() < end:
    i += 1
    os.pwrite(a, b"%08d" % i, 0)
    os.pwrite(b, b"%08d" % i, 0)
print("counted", i > 100)
""")
    assert [done.get("output") for done in answer["results"]] == ["counted True\n"], answer
    pairs = [(int(picture["output"][:8]), int(picture["output"][8:])) for picture in answer["pictures"]]
    assert all(a - b in (0, 1) for a, b in pairs), pairs
    assert len(set(pairs)) > 1 and pairs == sorted(pairs), pairs


def test_many_at_once_do_not_mix(warm):
    """Threads with a box each: every run says what it was asked, and is alone in its box."""
    text = """
def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return ") Z " not in f.read()
    except OSError:
        return False
print(sum(alive(p) for p in os.listdir('/proc') if p.isdigit()))
os.write(fd, os.getcwd().encode())
"""
    answer = warm.ask(spin=10, threads=8, run=text)
    assert len(answer["results"]) == 80
    for done in answer["results"]:
        assert (done.get("output"), done.get("said"), done.get("exit_code")) == ("2\n", "/workspace", 0), done


def test_a_box_that_ends_ends_its_run(warm):
    assert warm.ask(end=True) == {"done": True}
    answer = warm.ask(run="print(1)")
    assert answer.get("code") == 32 or answer.get("signal") == 9, answer


def test_a_dead_warm_process_is_started_again(warm):
    os.kill(warm.pid, signal.SIGKILL)
    warm.works()
    warm.works()


def test_signals_of_a_terminal_do_not_reach_it(warm):
    """It has a session of its own: an interrupt is for who started hutch."""
    assert os.getsid(warm.pid) == warm.pid != os.getsid(warm.process.pid)


def test_a_stopped_child_hurts_only_its_own_run(warm):
    done = warm.run("os.kill(os.getpid(), 19)", timeout_ms=500)
    assert done["limit"] == "timeout", done
    warm.works()


@pytest.mark.parametrize("when", ["idle", "running", "preparing"])
def test_it_dies_with_the_host(open_warm, when):
    """However the host ends: nothing is left of the warm process, nor of the boxes."""
    before = set(harness.descendants())
    if when == "preparing":
        source = "import time\ndef prepare(text):\n    time.sleep(300)\ndef run(text, fd): pass"
        warm = open_warm(source=source, wait=False)
        harness.wait_until(lambda: any("hutch-warm" in harness.describe(pid) for pid in harness.descendants(warm.process.pid)),
                           what="python3 is preparing")
    else:
        warm = open_warm()
    if when == "running":
        idle = len(harness.descendants(warm.process.pid))
        warm.process.stdin.write('{"run": "import time; time.sleep(300)"}\n')
        warm.process.stdin.flush()
        harness.wait_until(lambda: len(harness.descendants(warm.process.pid)) > idle, what="the run goes on")
    # The wrapper that changes users executes: it is the probe itself.
    warm.kill()
    left = harness.leftovers(before)
    breach_if(left, f"left running: {[harness.describe(pid) for pid in left]}")


def test_nothing_is_left_of_many_runs(warm):
    """Descriptors, zombies and mounts of the host, and of the warm process.
    The first count may include what the run before it is still closing, so only growth over 30 runs is a leak."""
    def counts():
        looked_at = [warm.process.pid] + [warm.pid] * (os.geteuid() == 0)  # none but root can look into the second
        mounts = [Path(f"/proc/{pid}/mountinfo").read_text().count("\n") for pid in [*looked_at, "self"]]
        zombies = sum(harness.process_stat(p.name) == (warm.pid, "Z") for p in Path("/proc").iterdir() if p.name.isdigit())
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in looked_at] + mounts + [zombies]

    warm.works()
    before = counts()
    warm.ask(time=30, run="pass")
    warm.run("os.kill(os.getpid(), 9)")
    harness.wait_until(lambda: all(now <= then for now, then in zip(counts(), before)), what=f"counts at most {before}")
