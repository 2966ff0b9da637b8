"""Ctrl-C and close() from another thread while tests run that would take very long."""
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "gym"))
import endless_task

HEAD = """
    import errno, hutch, os, signal, sys, threading
    from hutch.gym import Arena, CodingEnv, CodingVectorEnv
    TASK = sys.argv[1]
    def fails(number, work):
        try:
            work()
        except hutch.HutchError as why:
            assert why.errno == number, why
        else:
            raise AssertionError("it should have failed")
"""


@pytest.fixture(scope="session")
def endless(scratch):
    place = Path(scratch) / "python-endless"
    place.mkdir(mode=0o755)
    return {"loops": endless_task.write(place / "loops", endless_task.LOOPS), "command": endless_task.write_command(place / "command")}


def naps(process):
    return sum(harness.describe(pid).endswith(f": sleep {endless_task.NAP}") for pid in harness.descendants(process.pid))


def interrupted(python, text, task, *numbers, runs=1):
    """What a program printed that was sent these signals, one after the other, while so many test runs were under way; each but the last must be answered
    by a line before the next is sent."""
    words = python.command(textwrap.dedent(HEAD) + textwrap.dedent(text), task)
    process = subprocess.Popen(words, env=python.env, cwd=python.folder, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
    said = ""
    try:
        harness.wait_until(lambda: naps(process) == runs or process.poll() is not None, 60, "the tests run")
        for number in numbers[:-1]:
            os.kill(process.pid, number)
            said += process.stdout.readline()
        if numbers:
            os.kill(process.pid, numbers[-1])
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return said + out


@pytest.mark.parametrize("options", ["clock='virtual'", "cache=False", "actions='tools'"])
def test_a_step_in_a_test_run(python, endless, options):
    out = interrupted(python, f"""
        env = CodingEnv(TASK, {options})
        submit = {{"tool": "submit"}} if env.arena.patches and "tools" in {options!r} else env.arena.action_names.index("submit")
        env.reset(seed=1)
        try:
            env.step(submit)
        except KeyboardInterrupt:
            fails(errno.ECANCELED, lambda: env.step(submit))
            env.reset(seed=2)
            env.step({{"tool": "list_files"}} if "tools" in {options!r} else 0)
            print("interrupted")
        env.close()
    """, endless["loops"], signal.SIGINT)
    assert out == "interrupted\n"


def test_a_handler_that_raises_nothing_ends_nothing(python, endless):
    out = interrupted(python, """
        signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"heard\\n"))
        env = CodingEnv(TASK)
        env.reset(seed=1)
        try:
            env.step(env.arena.action_names.index("submit"))
        except KeyboardInterrupt:
            print("interrupted")
    """, endless["loops"], signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT)
    assert out == "heard\nheard\ninterrupted\n"


def test_an_arena_that_runs_tests_to_be_ready(python, endless):
    out = interrupted(python, """
        before = len(os.listdir("/proc/self/fd"))
        try:
            Arena(TASK)
        except KeyboardInterrupt:
            print("interrupted", len(os.listdir("/proc/self/fd")) - before)
    """, endless["command"], signal.SIGINT)
    assert out == "interrupted 0\n"


def test_a_vector_in_test_runs(python, endless):
    """Nothing is lost by Ctrl-C: the steps go on, until they are ended by a reset or by close()."""
    out = interrupted(python, """
        envs = CodingVectorEnv(TASK, 3, threads=3)
        submit = envs.arena.action_names.index("submit")
        envs.reset(seed=1)
        try:
            envs.step([submit] * 3)
        except KeyboardInterrupt:
            print("interrupted", envs.pending)
        envs.reset(seed=2)
        envs.step([0] * 3)
        envs.send([submit] * 3)
        envs.close()
        print("closed")
    """, endless["loops"], signal.SIGINT, runs=3)
    assert out == "interrupted 3\nclosed\n"


def test_close_from_another_thread(python, endless):
    """The thread that is in a call gets an exception; the one that closes does not wait for it."""
    out = interrupted(python, """
        env = CodingEnv(TASK)
        submit = env.arena.action_names.index("submit")
        env.reset(seed=1)
        envs = CodingVectorEnv(TASK, 2)
        envs.reset(seed=1)
        envs.send([submit] * 2)
        def close(*_):
            threading.Thread(target=env.close).start()
            threading.Thread(target=envs.close).start()
        signal.signal(signal.SIGUSR1, close)
        refused = []
        waiting = threading.Thread(target=lambda: refused.append(fails(errno.EBADF, lambda: envs.recv(2))))
        waiting.start()
        fails(errno.ECANCELED, lambda: env.step(submit))
        waiting.join()
        assert len(refused) == 1
        fails(errno.EBADF, lambda: env.reset())
        print("closed")
    """, endless["loops"], signal.SIGUSR1, runs=3)
    assert out == "closed\n"
