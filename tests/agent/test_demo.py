"""`make run` and `make attacks` do what they say, also without a terminal and without a network."""
import os
import re
import shutil
import subprocess

import pytest

import harness
from terminal import Terminal


def play(name, env, network=True, tree=None):
    """A script of the repository, as the caller; without a network in a namespace that has none."""
    apart = ["unshare", "--net", "--"] if not network and os.geteuid() == 0 else []
    variables = {k: v for k, v in env.env.items() if not k.endswith(("_KEY", "_URL"))}
    done = subprocess.run([*apart, *env.caller.prefix, str((tree or harness.REPO) / "scripts" / name), str(env.box.program)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False,
                          env={**variables, "TMPDIR": str(env.home)}, cwd=env.workspace)
    return done


@pytest.fixture
def tree(user_env, scratch):
    """The scripts and the sample where every user can read them."""
    copy = user_env.caller.folder(scratch, "tree")
    copy.chmod(0o755)
    for name in ("scripts", "share"):
        shutil.copytree(harness.REPO / name, copy / name)
        subprocess.run(["chmod", "-R", "a+rX", str(copy / name)], check=True)
    return copy


def test_recorded_conversation_fixes_the_sample(agent_env, tree):
    done = play("demo", agent_env, network=False, tree=tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\+.*divmod", done.stdout, re.M), "the diff is shown: " + done.stdout
    assert "all tests pass." in done.stdout and "ANTHROPIC_API_KEY" in done.stdout
    assert len(done.stdout.split("all tests pass.\n")[1].strip().splitlines()) == 3, "three lines on how to give a key"
    assert not list(agent_env.home.glob("hutch-run-*")), "nothing is left"
    assert agent_env.boxes() == []


def test_recorded_conversation_on_a_terminal_ends_by_itself(user_env, tree):
    for name in [name for name in user_env.env if name.endswith(("_KEY", "_URL"))]:
        user_env.env.pop(name)
    screen = Terminal(user_env, user_env.box.program, program=tree / "scripts" / "demo", width=100, height=40, hold=True,
                      more_env={"TMPDIR": str(user_env.home), "HUTCH_REPLAY_PACE": "0.1"})
    try:
        screen.wait("[a] apply")
        assert screen.wait_end(40) == 0, screen.everything()
        assert "all tests pass." in screen.everything() and "ANTHROPIC_API_KEY" in screen.everything()
    finally:
        screen.close()


def test_recording_that_fixes_nothing_is_a_failure(user_env, tree):
    (tree / "share" / "sample.replay").write_text('{"text": "It looks fine to me."}\n')
    done = play("demo", user_env, tree=tree)
    assert done.returncode == 1 and "STILL FAIL" in done.stdout, done


def test_attacks_are_stopped(agent_env, tree):
    done = play("demo-attacks", agent_env, tree=tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓") == 13 and "None of the attacks worked." in done.stdout


def test_builtin_demo_is_the_recording_of_make_run(user_env, tree):
    """--model builtin/demo needs neither a key nor a file, and repairs the sample."""
    for name in (tree / "share" / "sample").iterdir():
        user_env.put(name.name, name.read_text())
    for name in [name for name in user_env.env if name.endswith(("_KEY", "_URL"))]:
        user_env.env.pop(name)
    done = user_env.hutch("ask", "--model", "builtin/demo", "--apply", "A test fails. Fix it.")
    assert done.returncode == 0, done
    assert "divmod" in user_env.get("shares.py")
    missing = user_env.hutch("ask", "--model", "builtin/other", "Hello")
    assert missing.returncode == 125 and "use builtin/demo" in missing.stderr
