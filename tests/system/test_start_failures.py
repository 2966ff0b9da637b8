"""A box that cannot start says in one line which call failed and what to do, with status 125."""
import contextlib
import ctypes
import errno
import functools
import os
import resource
import struct
import subprocess

import pytest

import harness

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
NUMBERS = {"x86_64": {"epoll_create1": 291, "epoll_ctl": 233, "signalfd4": 289, "pidfd_open": 434,
                      "sethostname": 170, "clone3": 435, "landlock_create_ruleset": 444},
           "aarch64": {"epoll_create1": 20, "epoll_ctl": 21, "signalfd4": 74, "pidfd_open": 434,
                       "sethostname": 161, "clone3": 435, "landlock_create_ruleset": 444}}


def failing(call, code):
    """For preexec_fn: this call fails with this error from now on, in hutch and in all that it starts. So a test meets
    a limit of the user without using it up for others."""
    number = NUMBERS[os.uname().machine][call]
    program = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, number) \
        + struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | code) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    text = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    return install


def run(box, *argv, opts=(), **popen):
    done = subprocess.run(box.command(*argv, opts=opts), capture_output=True, stdin=subprocess.DEVNULL, env=box.env, cwd="/",
                          timeout=300, check=False, **popen)
    return harness.Finished(done.returncode, done.stdout, done.stderr, 0)


def failed_with(done, *words):
    assert done.returncode == 125 and not done.stdout, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("hutch: "), done
    for word in words:
        assert word in lines[0], (word, done)


@pytest.mark.parametrize("call", ["epoll_create1", "epoll_ctl"])
def test_a_box_starts_where_the_users_epoll_watches_are_used_up(box, call):
    """They are counted per user, and other boxes are of the same one."""
    done = run(box, "echo", "fine", preexec_fn=failing(call, errno.ENOSPC))
    assert done.returncode == 0 and done.stdout == "fine\n", done


@pytest.mark.parametrize("call, code", [("sethostname", errno.EPERM), ("landlock_create_ruleset", errno.EPERM),
                                        ("landlock_create_ruleset", errno.EACCES)])
def test_a_box_starts_where_a_containers_filter_refuses_what_it_can_do_without(box, call, code):
    """The host name shown is then the container's; Landlock counts as absent, as on a kernel without it."""
    done = run(box, "echo", "fine", preexec_fn=failing(call, code))
    assert done.returncode == 0 and done.stdout == "fine\n", done


def test_a_box_of_an_ordinary_user_starts_where_a_filter_knows_no_clone3(make_box):
    """It needs clone3 only to be born in a control group of version 2."""
    box = make_box("user")
    if harness.host_has_cgroup("memory", box.caller):
        pytest.skip("this user has control groups of version 2")
    done = run(box, "echo", "fine", preexec_fn=failing("clone3", errno.ENOSYS))
    assert done.returncode == 0 and done.stdout == "fine\n", done


def test_a_guest_that_cannot_begin_names_the_call(box):
    done = run(box, "true", preexec_fn=failing("signalfd4", errno.ENFILE))
    failed_with(done, "did not start", "process 1", "signalfd", "file")


def test_too_few_open_files_are_named(box):
    """Whatever fails first: it is not blamed on something else, no protection is left out, and the remedy is the limit."""
    for files in range(4, 100):  # three are those that setpriv itself needs, and one more to load it
        limited = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
        done = run(box, "true", preexec_fn=limited)
        if done.returncode == 0:
            break
        failed_with(done, "ulimit -n")
    assert 20 < files < 99, "it never met its limit, or never got by with it"


def test_one_process_is_enough_for_one_command(box):
    """--pids counts the box's own processes, not those that set it up."""
    done = run(box, "true", opts=["--pids", "1"])
    assert done.returncode == 0, done
    # Until the guest has started its thread and the launcher has ended, which count apart, there is room for some more.
    done = run(box, "sh", "-c", "sleep 1 & sleep 1 & sleep 1 & sleep 1 & wait; echo over", opts=["--pids", "1"])
    assert "over" not in done.stdout or "fork" in done.stderr.lower(), done


def test_a_command_that_cannot_be_set_up_names_the_call(make_box):
    """As an ordinary user, who cannot raise what it was given."""
    limited = functools.partial(resource.setrlimit, resource.RLIMIT_RTTIME, (0, 0))
    failed_with(run(make_box("user"), "true", preexec_fn=limited), "setrlimit(RLIMIT_RTTIME)")


def processes_of(uid):
    """How many the kernel counts for the user; those that end meanwhile do not matter."""
    owners = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError):
            owners.append(os.stat(f"/proc/{pid}").st_uid)
    return owners.count(uid)


def test_too_few_processes_are_named(hutch, scratch):
    """However far it gets, from the first process on: never a silent 137. By a user whom no other test uses meanwhile."""
    uid = 60123 if os.geteuid() == 0 else os.geteuid()
    caller = harness.Caller("lonely", uid, uid, scratch)
    box = harness.Box(harness.reachable_program(hutch, caller, scratch), caller, scratch)
    taken = processes_of(uid)
    for more in range(12):
        limited = [*box.caller.prefix, "prlimit", f"--nproc={taken + more}:{taken + more}", *box.command("true")[len(box.caller.prefix):]]
        done = subprocess.run(limited, capture_output=True, stdin=subprocess.DEVNULL, env=box.env, cwd="/", timeout=300, check=False)
        if done.returncode == 0:
            break
        failed_with(harness.Finished(done.returncode, done.stdout, done.stderr, 0), "process")
    assert more > 0 and done.returncode == 0, "it never met its limit, or never got by with it"
