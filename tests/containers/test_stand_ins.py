"""What containers take away, one thing at a time and without a container: rights of root, and the view of /proc."""
import json
import os
import subprocess

import pytest

import harness

# What podman leaves to root.
PODMAN = "chown,dac_override,fowner,fsetid,kill,net_bind_service,setfcap,setgid,setpcap,setuid,sys_chroot"

COVER_PROC = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'


def bounded(*argv, keep=None, drop=None):
    """Root with these capabilities only, or without these: what exec gives it is cut to the bounding set."""
    bounds = "-all," + ",".join("+" + name for name in keep.split(",")) if keep else ",".join("-" + name for name in drop.split(","))
    return ["setpriv", "--bounding-set", bounds, "--inh-caps", "-all", "--", *argv]


def finish(box, command):
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=box.env, cwd=box.workspace, timeout=300, check=False)
    return harness.Finished(done.returncode, done.stdout, done.stderr, 0)


@pytest.mark.parametrize("rights", [{"keep": PODMAN}, {"drop": "sys_admin"}, {"drop": "sys_ptrace"}, {"drop": "setuid"}, {"drop": "setgid"}, {"drop": "kill"}],
                         ids=["podman's", "no SYS_ADMIN", "no SYS_PTRACE", "no SETUID", "no SETGID", "no KILL"])
def test_root_with_fewer_rights_starts_boxes(make_box, rights):
    box = make_box("root")
    done = finish(box, bounded(*box.command("sh", "-c", "id -u; grep CapEff /proc/self/status; echo text >new; cat new"), **rights))
    assert done.returncode == 0, done
    assert done.stdout.split() == ["1000", "CapEff:", "0000000000000000", "text"], done


@pytest.mark.parametrize("rights", [{"keep": PODMAN}, {"drop": "kill"}, {"drop": "sys_ptrace"}], ids=["podman's", "no KILL", "no SYS_PTRACE"])
def test_root_with_fewer_rights_still_ends_its_boxes(make_box, rights):
    """A box whose user is another than root's can be killed only with CAP_KILL, or by the owner of its user namespace."""
    box = make_box("root")
    done = finish(box, bounded(*box.command("sleep", "600", opts=["--timeout", "200ms", "--json"]), **rights))
    assert json.loads(done.stdout)["timed_out"], done


def test_root_without_sys_ptrace_keeps_its_full_protection(make_box):
    """Nothing but the way to the namespace needed it."""
    box = make_box("root")
    done = finish(box, bounded(str(box.program), "doctor", "--json", drop="sys_ptrace"))
    probes = {probe["name"]: probe for probe in json.loads(done.stdout)["probes"]}
    for name in ("user namespaces", "id-mapped mounts"):
        assert probes[name]["state"] == "yes", probes[name]


def test_the_missing_right_is_named_by_doctor(make_box):
    box = make_box("root")
    for right in ("sys_admin", "setgid"):
        done = finish(box, bounded(str(box.program), "doctor", "--json", drop=right))
        probe = next(p for p in json.loads(done.stdout)["probes"] if p["name"] == "id-mapped mounts")
        assert probe["state"] == "degraded" and f"CAP_{right.upper()}" in probe["detail"], probe


def test_plain_roots_box_belongs_to_the_owner_of_the_folder(make_box):
    """Root that may map other ids gives the box that of the folder's owner, not its own."""
    box = make_box("root")
    os.chown(box.workspace, 4321, 4321)
    os.chmod(box.workspace, 0o755)
    done = finish(box, bounded(*box.command("touch", "file", opts=["--mode", "direct"]), keep=PODMAN))
    assert done.returncode == 0, done
    st = os.stat(box.workspace / "file")
    assert (st.st_uid, st.st_gid) == (4321, 4321)


def covered(box, *argv):
    """The command where /proc/sys is covered, as in a container. The caller is entered last: only root can cover it."""
    if os.geteuid() != 0:
        pytest.skip("not root: only root can cover a part of /proc")
    return ["unshare", "-m", "sh", "-c", COVER_PROC, "sh", *argv]


def test_root_mounts_a_fresh_proc_where_the_one_here_is_covered(make_box):
    box = make_box("root")
    look = 'echo /proc/[0-9]*; cat /proc/1/comm; (echo 1 >/proc/sys/kernel/pid_max) 2>&1 | grep -c "Read-only"'
    done = finish(box, covered(box, *box.command("sh", "-c", look)))
    assert done.returncode == 0, done
    pids, first, refused = done.stdout.splitlines()
    assert first == "hutch-guest" and refused == "1" and len(pids.split()) < 8, done


def test_an_ordinary_user_is_told_which_option_uncovers_proc(make_box):
    box = make_box("user")
    done = finish(box, covered(box, *box.command("true")))
    assert done.returncode == 125 and done.stderr.count("\n") == 1, done
    for word in ("masked", "unmask=ALL", "systempaths=unconfined", "procMount: Unmasked"):
        assert word in done.stderr, (word, done)
