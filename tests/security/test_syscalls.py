"""System calls that a box must not reach, by every way into the kernel; and other processes through those it may."""
import os
import pty
import select
import shlex
import subprocess

import pytest

from arsenal import breach_if, judge


@pytest.mark.parametrize("entry", ["native", "int80", "x32"])
def test_denied_calls(box, attack, entry):
    """io_uring, bpf, perf, userfaultfd, keys, kexec, modules, handles, personality, mounts, namespaces, clock, …"""
    attack(box, "syscalls", entry)


def test_denied_calls_on_a_terminal(box, arsenal):
    """The same with --tty: TIOCSTI and TIOCLINUX meet a real terminal, the box's own."""
    done = box.run(arsenal.arm(box, "terminal"), "x", opts=["--tty", "--timeout", "20s"], input=b"")
    judge(type(done)(0, done.stdout_bytes.replace(b"\r\n", b"\n"), b"", 0))


def test_processes_of_the_host_cannot_be_touched(box, arsenal, victim, secret):
    """ptrace, process_vm_readv and writev, /proc/N/mem, pidfd_getfd, signals; the victim says what it felt."""
    done = box.run(arsenal.arm(box, "outward"), victim.pid, victim.address, victim.fd)
    breach_if(secret in done.stdout, f"took a secret of a host process: {done.stdout}")
    status, said = victim.fate()
    breach_if(said or status, f"a host process was signalled: {said} {status}")
    judge(done)
    assert done.returncode == 0, done


def run_on_terminal(box, command):
    """Runs a command with a terminal of the host as its controlling one; returns what lay in its input afterwards.
    The shell that waits for it is the one that would have read the line."""
    master, slave = pty.openpty()
    shell = f"{shlex.join(command)} >/dev/null 2>&1; IFS= read -r -t 1 line; printf 'TYPED[%s]' \"$line\""
    process = subprocess.Popen(["setsid", "-c", "bash", "-c", shell], stdin=slave, stdout=slave, stderr=slave, env=box.env,
                               cwd="/")
    os.close(slave)
    said = b""
    while select.select([master], [], [], 30)[0]:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        said += data
    process.wait(timeout=300)
    os.close(master)
    return said.decode(errors="replace")


def test_nothing_can_be_typed_into_the_callers_terminal(box, arsenal):
    """hutch run from a terminal, its streams connected: the box must not be able to put a command line into it."""
    inside = arsenal.arm(box, "terminal")
    said = run_on_terminal(box, box.command(inside, "spoilt\n"))
    assert "TYPED[" in said, f"the shell did not come back: {said!r}"
    breach_if("spoilt" in said, f"typed: {said!r}")


def test_nothing_can_be_typed_into_the_callers_terminal_from_a_tty_box(box, arsenal):
    inside = arsenal.arm(box, "terminal")
    said = run_on_terminal(box, box.command(inside, "spoilt", opts=["--tty"]))
    assert "TYPED[" in said, f"the shell did not come back: {said!r}"
    breach_if("spoilt" in said.split("TYPED[")[1], f"typed: {said!r}")
