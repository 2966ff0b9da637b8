"""Namespaces and rights: what a box is walled off by cannot be left, joined, undone or used against the host."""
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from arsenal import breach_if, judge

AGENT_UID = 1000


def test_mounts_cannot_be_changed(box, attack):
    """mount, umount, remount, bind, pivot_root, chroot and the new mount calls, with the rights at hand."""
    attack(box, "mounts", "plain")


def test_mounts_cannot_be_changed_from_a_nested_user_namespace(box, attack):
    attack(box, "mounts", "nested")


def test_namespaces_cannot_be_joined(box, attack, victim):
    """Those of process 1, of the program itself, and of a process of the host."""
    attack(box, "enter", victim.pid)


def test_devices_cannot_be_made(box, attack):
    disks = [Path(name, "dev").read_text().strip() for name in Path("/sys/block").iterdir()]
    attack(box, "devices", *disks[:4])


def test_no_rights_to_begin_with(box, attack):
    """The user of the box, no capability in any set, no_new_privs, a filter."""
    attack(box, "rights", AGENT_UID)


@pytest.mark.parametrize("mode", ["cow", "direct", "ro"])
def test_setuid_programs_give_nothing(box, arsenal, mode):
    """Set-user-id of root and of the caller, set-group-id, in the workspace; and the host's own."""
    arsenal.arm(box, "rights")
    target = box.workspace / "rights"
    if os.geteuid() == 0:
        os.chown(target, 0, 0)
    target.chmod(0o6755)
    done = box.run("/workspace/rights", AGENT_UID, opts=["--mode", mode])
    judge(done)
    assert done.returncode == 0, done


def test_setuid_programs_of_the_host_give_nothing(box):
    """Programs that are root's on the host, run for what they could do there."""
    for command in (["su", "-c", "id -u", "root"], ["mount", "-t", "tmpfs", "none", "/tmp"], ["newgrp", "root", "-c", "id -g"],
                    ["sudo", "-n", "id", "-u"], ["newuidmap", "1", "0", "0", "1"]):
        if not shutil.which(command[0]):
            continue
        done = box.run(*command, opts=["--timeout", "10s"])
        breach_if(done.returncode == 0, f"{' '.join(command)} worked: {done!r}")


def test_file_capabilities_give_nothing(box, arsenal):
    if os.geteuid() != 0 or not shutil.which("setcap"):
        pytest.skip("setting file capabilities needs root and setcap")
    arsenal.arm(box, "rights")
    subprocess.run(["setcap", "cap_sys_admin,cap_setuid,cap_dac_override+eip", str(box.workspace / "rights")], check=True)
    for mode in ("cow", "direct"):
        done = box.run("/workspace/rights", AGENT_UID, opts=["--mode", mode])
        judge(done)
        assert done.returncode == 0, done


@pytest.mark.parametrize("opts", [["--mode", "direct"], ["--apply"]], ids=["direct", "apply"])
def test_programs_made_inside_carry_no_rights_outside(box, attack, opts):
    """Files of a box come out owned as the folder is: with a set-user-id bit they would hand its owner to anybody."""
    attack(box, "suid", opts=["--timeout", "20s", *opts])
    left = [f"{path.name} {oct(path.stat().st_mode)}" for path in box.workspace.iterdir()
            if path.stat().st_mode & 0o6000 and path.stat().st_size > 0]
    breach_if(left, f"left programs with a set-user-id bit: {left}")


def test_kernel_knobs_cannot_be_turned(box, attack):
    """/proc/sys, core_pattern, sysrq, /sys, and cgroup files; masked files hold nothing."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    attack(box, "knobs")
    breach_if(Path("/proc/sys/kernel/core_pattern").read_text() != pattern, "core_pattern changed")


def test_limits_cannot_be_lifted_through_cgroup_files(box):
    """No cgroup file can be written, wherever cgroups are mounted."""
    look = """
import os
for line in open("/proc/self/mountinfo"):
    at, kind = line.split()[4], line.split(" - ")[1].split()[0]
    if "cgroup" in kind:
        print("NOTE", at)
        for base, _, files in os.walk(at):
            for name in files:
                if os.access(os.path.join(base, name), os.W_OK):
                    print("BREACH", os.path.join(base, name), "can be written")
"""
    done = box.run("/usr/bin/python3", "-c", look)
    judge(done)
    assert done.returncode == 0, done


def ipc_pair(arsenal, box, key, name, start):
    process = start(arsenal)
    try:
        ready = process.stdout.readline()
        assert ready.startswith(b"READY"), (ready, process.stderr.read() if process.stderr else "")
        done = box.run(arsenal.arm(box, "ipc"), "get", key, name)
        return done
    finally:
        process.communicate(b"", timeout=300)


def test_shared_memory_of_another_box_cannot_be_reached(box, make_box, who, arsenal, secret):
    """System V memory, messages and semaphores, POSIX memory and queues, between two boxes that run at once."""
    neighbour = make_box(who)
    key, name = str(0x48000000 + os.getpid()), "/" + secret[:30]
    done = ipc_pair(arsenal, box, key, name,
                    lambda a: neighbour.start(a.arm(neighbour, "ipc"), "put", key, name, secret))
    judge(done)
    breach_if(secret in done.stdout, "read another box's shared memory")


def test_shared_memory_of_the_host_cannot_be_reached(box, arsenal, secret):
    key, name = str(0x49000000 + os.getpid()), "/" + secret[:30]
    command = [*box.caller.prefix, str(arsenal.arm(box, "ipc")).replace("/workspace", str(box.workspace))]
    done = ipc_pair(arsenal, box, key, name,
                    lambda a: subprocess.Popen([*command, "put", key, name, secret], stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, env=box.env, cwd="/"))
    judge(done)
    breach_if(secret in done.stdout, "read the host's shared memory")


def test_the_host_name_is_the_boxes_own(box):
    """It neither tells the host's nor can be changed from inside."""
    name = socket.gethostname()
    done = box.run("/usr/bin/python3", "-c", "import socket\nprint(socket.gethostname())\n"
                                             "try: socket.sethostname('spoilt'); print('BREACH sethostname')\n"
                                             "except OSError: pass")
    judge(done)
    breach_if(done.stdout.split("\n")[0] == name, f"tells the host's name: {name}")
    breach_if(socket.gethostname() != name, "changed the host's name")


def test_processes_of_the_host_cannot_be_seen(box, victim, secret):
    """Not in /proc, not by number."""
    look = ("import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n"
            "        print(p, open(f'/proc/{p}/cmdline', errors='replace').read())\n")
    done = box.run("/usr/bin/python3", "-c", look)
    breach_if(secret in done.stdout, "sees a process of the host")
    seen = [int(line.split()[0]) for line in done.stdout.splitlines() if line.split() and line.split()[0].isdigit()]
    breach_if(len(seen) > 8, f"sees {len(seen)} processes")
