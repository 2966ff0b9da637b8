"""A running arena survives what a package manager does to /etc: files and folders that its boxes show are replaced or removed.

The arena runs in a mount namespace of its own, with a copy of /etc that the test changes; the host's /etc stays as it is."""
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from playing import Gym, seen

EPISODES = 6  # more than the boxes that an arena forks in advance


@pytest.fixture
def etc(scratch, request):
    """A copy of the host's /etc."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount over /etc")
    folder = Path(scratch) / f"etc-{request.node.name.replace('/', '_')}"
    subprocess.run(["cp", "-a", "--no-preserve=links", "/etc", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def arena(callers, gym_run, calc, who, etc):
    caller, _ = callers(who)
    bind = 'mount --bind "$0" /etc && exec "$@"'
    gym = Gym(["unshare", "--mount", "--propagation", "private", "sh", "-c", bind, str(etc), *caller.prefix, str(gym_run),
               "--virtual", "--no-cache", str(calc)])
    yield gym
    gym.close()


def replace_file(path, content):
    """As ldconfig and dpkg do: a new file is renamed over the old one."""
    fresh = path.with_name(path.name + "~")
    fresh.write_bytes(content)
    os.rename(fresh, path)


def replace_folder(path, name, content):
    fresh = path.with_name(path.name + "~")
    shutil.copytree(path, fresh, symlinks=True)
    (fresh / name).write_text(content)
    shutil.rmtree(path)
    os.rename(fresh, path)


def play(gym, command):
    """What the command prints in one episode, in which the tests run, too."""
    gym.reset()
    answers = [gym.step("run_tests"), gym.step("bash", command=command), gym.step("submit")]
    assert [a["step"]["truncated"] for a in answers] == [False] * 3, answers
    assert answers[-1]["step"]["pass_rate"] == 1 / 4
    return seen(answers[1])["text"]


def play_until_seen(gym, command, wanted):
    """All episodes can be played. Boxes that were forked before the change may still come up, in any order."""
    printed = [play(gym, command) for _ in range(EPISODES)]
    assert wanted in printed, printed


def test_boxes_show_a_file_of_etc_that_was_replaced(arena, etc):
    play(arena, "true")
    replace_file(etc / "ld.so.cache", (etc / "ld.so.cache").read_bytes())
    replace_file(etc / "shells", b"replaced\n")
    play_until_seen(arena, "cat /etc/shells", "replaced\n")
    replace_file(etc / "shells", b"again\n")
    play_until_seen(arena, "cat /etc/shells", "again\n")


def test_boxes_show_a_folder_of_etc_that_was_replaced(arena, etc):
    play(arena, "true")
    replace_folder(etc / "alternatives", "marker", "replaced\n")
    play_until_seen(arena, "cat /etc/alternatives/marker", "replaced\n")


def test_boxes_start_without_a_file_of_etc_that_was_removed(arena, etc):
    play(arena, "true")
    (etc / "ld.so.cache").unlink()
    (etc / "shells").unlink()
    play_until_seen(arena, "cat /etc/shells 2>/dev/null; echo end", "end\n")


def test_boxes_start_while_a_file_of_etc_is_replaced_all_the_time(arena, etc):
    content, enough = (etc / "ld.so.cache").read_bytes(), threading.Event()

    def replace():
        while not enough.is_set():
            replace_file(etc / "ld.so.cache", content)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(4 * EPISODES):
            assert play(arena, "echo here") == "here\n"
    finally:
        enough.set()
        thread.join()
