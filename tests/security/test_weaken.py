"""Every protection is seen to matter: with it switched off, a test of this folder fails with a breach.

Runs only with a build that can be weakened (meson setup -Dweaken=true build-weak; or HUTCH_WEAK=path of its hutch): there
HUTCH_WEAKEN=NAME,… switches protections off. Defences overlap, so a row may name several that hold the same attack off;
the control runs every test of the table with nothing switched off. The breach must be the one meant: where a test looks
at several things, the row says which word its verdict holds. Attacks stay harmless where they work: see hostile.h.
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness

WEAK = Path(os.environ.get("HUTCH_WEAK") or harness.REPO / "build-weak" / "hutch")
HERE = Path(__file__).parent

BOTH = ("root", "user")

# Protections switched off together, the test that must then fail, what its verdict says, as whom.
TABLE = [
    ("seccomp", "test_syscalls.py::test_denied_calls[{who}-native]", "io_uring_setup was reached", BOTH),
    ("seccomp", "test_syscalls.py::test_denied_calls[{who}-int80]", "int80 io_uring_setup was reached", BOTH),
    ("seccomp", "test_syscalls.py::test_denied_calls_on_a_terminal[{who}]", "ioctl 0 0x100005412", BOTH),
    ("seccomp", "test_network.py::test_raw_packet_netlink_icmp_and_vsock[{who}]", "vsock socket", BOTH),
    ("seccomp,landlock,caps", "test_namespaces.py::test_mounts_cannot_be_changed_from_a_nested_user_namespace[{who}]",
     "mount tmpfs", BOTH),
    ("seccomp,landlock,caps", "test_namespaces.py::test_mounts_cannot_be_changed[{who}]", "mount tmpfs", BOTH),
    ("seccomp,landlock", "test_namespaces.py::test_programs_made_inside_carry_no_rights_outside[{who}-direct]",
     "by-chmod", BOTH),
    ("caps", "test_namespaces.py::test_no_rights_to_begin_with[{who}]", "holds Cap", BOTH),
    ("nnp,landlock,seccomp", "test_namespaces.py::test_no_rights_to_begin_with[{who}]", "no_new_privs", BOTH),
    ("net", "test_network.py::test_servers_of_this_machine_cannot_be_reached[{who}-tcp-127.0.0.1]", "reached tcp", BOTH),
    ("net", "test_network.py::test_servers_of_this_machine_cannot_be_reached[{who}-udp-127.0.0.1]", "reached udp", BOTH),
    ("net", "test_network.py::test_servers_of_this_machine_cannot_be_reached[{who}-tcp-::1]", "reached tcp", BOTH),
    ("net", "test_network.py::test_loopback_is_not_shared_between_boxes[{who}]", "connect", BOTH),
    ("net,landlock", "test_network.py::test_abstract_sockets_of_the_host_cannot_be_reached[{who}-stream]", "abstract", BOTH),
    ("root,landlock", "test_network.py::test_socket_files_of_the_host_cannot_be_reached[{who}]", "socket", BOTH),
    ("pid", "test_namespaces.py::test_processes_of_the_host_cannot_be_seen[{who}]", "process", BOTH),
    ("pid,landlock", "test_syscalls.py::test_processes_of_the_host_cannot_be_touched[{who}]", "signalled", ("user",)),
    ("ipc", "test_namespaces.py::test_shared_memory_of_the_host_cannot_be_reached[{who}]", "shared memory", BOTH),
    ("ipc", "test_namespaces.py::test_shared_memory_of_another_box_cannot_be_reached[{who}]", "shared memory", BOTH),
    ("uts", "test_namespaces.py::test_the_host_name_is_the_boxes_own[{who}]", "host's name", BOTH),
    ("mount-ro,landlock", "test_files.py::test_a_folder_shown_read_only_cannot_be_written[{who}]", "through --ro", BOTH),
    ("mount-ro,landlock", "test_files.py::test_the_selection_cannot_be_written[{who}]", "selection", BOTH),
    ("mount-ro", "test_files.py::test_locks_and_watches_do_not_reach_the_hosts_files[{who}-share]", "flock", BOTH),
    ("proc-mask", "test_namespaces.py::test_kernel_knobs_cannot_be_turned[{who}]", "can be read", BOTH),
    ("proc-rw", "test_namespaces.py::test_kernel_knobs_cannot_be_turned[{who}]", "writable mount", BOTH),
    ("root,landlock", "test_files.py::test_files_of_the_host_cannot_be_read[{who}]", "read a file", BOTH),
    ("root,mount-ro,landlock", "test_files.py::test_files_of_the_host_cannot_be_written[{who}]", "changed", ("user",)),
    ("fds", "test_files.py::test_descriptors_do_not_leak[{who}]", "descriptor", BOTH),
    ("env", "test_files.py::test_the_environment_holds_no_secret[{who}]", "environ", BOTH),
    ("rlimits", "test_bombs.py::test_a_descriptor_bomb_meets_its_limit[{who}]", "descriptors", BOTH),
    ("cgroup,rlimits,memory", "test_bombs.py::test_a_memory_bomb_meets_its_limit[{who}-memory]", "memory", BOTH),
    ("cgroup,rlimits", "test_bombs.py::test_a_fork_bomb_meets_its_limit[{who}]", "forks", BOTH),
    ("disk,cgroup,rlimits", "test_bombs.py::test_a_disk_bomb_meets_its_limit[{who}-/tmp]", "fill", BOTH),
    ("disk,cgroup,rlimits", "test_bombs.py::test_an_inode_bomb_meets_its_limit[{who}]", "inodes", BOTH),
    ("timeout", "test_time.py::test_sleeping_past_the_timeout[{who}]", "slept", BOTH),
    ("timeout", "test_time.py::test_ignoring_every_signal_does_not_help[{who}]", "outlived", BOTH),
    ("cpu", "test_time.py::test_cpu_time_counts_over_children[{who}-burn]", "CPU time", BOTH),
    ("tree-kill", "test_time.py::test_a_command_in_a_living_box_takes_its_tree_along[{who}-daemon]", "left", BOTH),
    ("warm-groups", "test_warm.py::test_a_run_is_confined_as_a_command[{who}-plain]", "'cgroup'", ("root",)),
    ("warm-limits", "test_warm.py::test_a_run_is_confined_as_a_command[{who}-limits]", "'limits'", BOTH),
    ("warm-confine", "test_warm.py::test_a_run_is_confined_as_a_command[{who}-plain]", "'status'", BOTH),
    ("warm-fds", "test_warm.py::test_a_run_is_confined_as_a_command[{who}-plain]", "'descriptors'", BOTH),
    ("seccomp", "test_process1.py::test_process_1_cannot_be_touched[{who}]", "process 1", BOTH),
    ("output", "test_output.py::test_output_beyond_its_total_ends_the_command[{who}]", "talked on", BOTH),
]


def rows():
    """One row for each set of protections and user: [(test, word)], which run in one session."""
    groups = {}
    for protections, test, word, names in TABLE:
        for name in names:
            groups.setdefault((protections, name), []).append((test.format(who=name), word))
    return [pytest.param(protections, name, tests, id=f"{name}-{protections}") for (protections, name), tests in groups.items()]


def session(arsenal, tests, weaken):
    """A pytest session of its own on the weak build; returns its status and what it printed."""
    env = {**os.environ, "HUTCH": str(WEAK), "HUTCH_HOSTILE": str(arsenal.folder), "HUTCH_WEAKEN": weaken,
           "PYTHONDONTWRITEBYTECODE": "1"}
    if not weaken:
        del env["HUTCH_WEAKEN"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rs",
                           *[str(HERE / test) for test in tests]],
                          capture_output=True, text=True, errors="replace", env=env, cwd=harness.REPO, timeout=1200, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def weak_build():
    if not WEAK.exists():
        pytest.skip(f"no weakened build: meson setup -Dweaken=true build-weak ({WEAK} is not there)")


def needs(name):
    if name == "root" and os.geteuid() != 0:
        pytest.skip("not root: root half needs root")


@pytest.mark.parametrize("protections, name, tests", rows())
def test_a_breach_without_its_protection(arsenal, protections, name, tests):
    needs(name)
    # A test may stand for two rows of its protections, with two words.
    status, said = session(arsenal, list(dict.fromkeys(test for test, _ in tests)), protections)
    if " skipped" in said and " failed" not in said:
        pytest.skip("the test itself was skipped: " + said[-300:])
    verdicts = [line for line in said.splitlines() if "BREACH" in line]
    blind = [test for test, word in tests if not any(word in line for line in verdicts)]
    assert status == 1 and not blind and " passed" not in said, \
        f"{blind or tests} saw no breach with {protections} off:\n{said[-3000:]}"


@pytest.mark.parametrize("name", BOTH)
def test_no_breach_with_all_of_them(arsenal, name):
    """The control: on the same build, with nothing switched off, the tests of the table pass."""
    needs(name)
    tests = [test.format(who=name) for _, test, _, names in TABLE if name in names]
    status, said = session(arsenal, list(dict.fromkeys(tests)), "")
    assert status == 0, said[-3000:]


def test_the_product_cannot_be_weakened(make_box, hutch):
    """The variable means nothing to a build that was not made for it."""
    if b"HUTCH_WEAKEN" in hutch.read_bytes():
        pytest.skip("the program under test is a weakened build")
    box = make_box("user")
    done = box.run("sh", "-c", "echo $SECRET; cat /proc/self/status", env={"SECRET": "leaked", "HUTCH_WEAKEN": "env,seccomp,caps,nnp"})
    assert "leaked" not in done.stdout and "Seccomp:\t2" in done.stdout and "NoNewPrivs:\t1" in done.stdout
