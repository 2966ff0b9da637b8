"""Folders of the host that no box is given, however they are spelled: the root, the kernel's trees, a home to write to."""
import os
import subprocess
import tempfile

import pytest

ROOT = "it is the root folder of this host"
KERNEL = "it belongs to the kernel"
HOME = "it is or holds your home folder"
MOUNT = "is mounted inside it"


def refusal(box, *args, **more):
    """The one line that a command says instead of making a box."""
    done = box.hutch(*args, **more)
    assert (done.returncode, done.stdout) == (125, ""), done
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1
    return done.stderr


def spellings(box, target):
    """Names of one folder, with links that lead to it."""
    if not os.path.isdir(target):
        pytest.skip(f"this host has no {target}")
    link, chain = box.workspace / "link", box.workspace / "chain"
    os.symlink(target, link)
    os.symlink("link", chain)
    plain = target.strip("/")
    return [f"/{plain}", f"//{plain}", f"///{plain}//", f"/./{plain}", f"/tmp/../{plain}", f"/{plain}/.", f"/dev/../{plain}/",
            f"/proc/self/root/{plain}", f"/proc/thread-self/root/./{plain}", str(link), f"{chain}/",
            f"/proc/self/cwd/../../../../../../../../{plain}"]


@pytest.mark.parametrize("target, why", [("/", ROOT), ("/proc", KERNEL), ("/sys", KERNEL), ("/dev", KERNEL), ("/dev/pts", KERNEL),
                                         ("/sys/fs/cgroup", KERNEL), ("/dev/shm", KERNEL), ("/proc/sys", KERNEL)])
@pytest.mark.parametrize("mode", ["cow", "ro", "direct"])
def test_workspace_is_refused_in_every_spelling(box, target, why, mode):
    for name in spellings(box, target):
        line = refusal(box, "run", "-w", name, "--mode", mode, "true")
        assert f"the workspace cannot be '{target}': {why}" in line, name


@pytest.mark.parametrize("target, why", [("/", ROOT), ("/proc", KERNEL), ("/sys", KERNEL), ("/dev", KERNEL)])
@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_share_is_refused_in_every_spelling(box, target, why, option):
    for name in spellings(box, target):
        line = refusal(box, "run", "-w", box.workspace, option, f"{name}:/x", "true")
        assert f"{option}: cannot show '{target}' in a box: {why}" in line, name


def test_folder_behind_a_descriptor_is_refused(box):
    fd = os.open("/", os.O_PATH)
    try:
        for name in (f"/dev/fd/{fd}", f"/proc/self/fd/{fd}"):
            assert ROOT in refusal(box, "run", "-w", name, "--mode", "direct", "true", pass_fds=[fd])
            assert ROOT in refusal(box, "run", "-w", box.workspace, "--rw", f"{name}:/x", "true", pass_fds=[fd])
    finally:
        os.close(fd)


def test_root_of_another_process_is_no_workspace(box):
    """/proc/1/root names the same folder to whom the kernel lets through, and is an error to others."""
    assert "/" in refusal(box, "run", "-w", "/proc/1/root", "--mode", "direct", "true")
    assert ROOT in refusal(box, "run", "-w", f"/proc/{os.getpid()}/root" if box.caller.uid == os.geteuid() else "/proc/self/root",
                           "true")


def test_every_command_that_makes_a_box_refuses_the_root(box):
    for words in (["box", "new"], ["tool"], ["mcp"], ["ask"], ["chat"]):
        rest = {"tool": ["bash", '{"command": "true"}'], "ask": ["hello"]}.get(words[0], [])
        for options in (["-w", "//"], ["-w", box.workspace, "--rw", "//:/x"]):
            assert ROOT in refusal(box, *words, *options, *rest), words


def test_workspace_of_the_environment_is_refused_too(box):
    for name in ("/", "//", "/tmp/.."):
        assert ROOT in refusal(box, "ask", "hello", env={"SAFEDIR": name}, cwd=box.workspace)


def test_current_folder_is_refused_when_it_is_the_root(box):
    assert ROOT in refusal(box, "run", "true", cwd="/")


def in_own_mounts(box, script, *args):
    """Runs hutch where a script has mounted something. An ordinary user may do that in a user namespace only."""
    flags = "-m" if box.caller.uid == 0 else "-rm"
    done = subprocess.run([*box.caller.prefix, "unshare", flags, "--propagation", "private", "sh", "-ec", script + '\nexec "$@"', "sh",
                           str(box.program), *map(str, args)], env=box.env, capture_output=True, text=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL, cwd="/")
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1, done
    assert (done.returncode, done.stdout) == (125, "")
    return done.stderr


@pytest.mark.parametrize("source, why", [("/", ROOT), ("/dev", KERNEL), ("/sys", KERNEL), ("/proc", KERNEL)])
def test_bind_mount_of_a_refused_folder_is_refused(box, source, why):
    inside = box.workspace / "m"
    inside.mkdir()
    box.caller.own(inside)
    mount = f"mount --rbind {source} {inside}"
    for options in (["-w", inside], ["-w", inside, "--mode", "direct"], ["-w", box.workspace, "--ro", f"{inside}:/x"]):
        assert why in in_own_mounts(box, mount, "run", *options, "true")


@pytest.mark.parametrize("source", ["/", "/dev", "/sys"])
def test_writable_folder_with_a_refused_mount_inside_is_refused(box, source):
    inside = box.workspace / "a b"  # /proc/self/mountinfo has the blank as \040
    inside.mkdir()
    box.caller.own(inside)
    mount = f"mount --rbind {source} '{inside}'"
    assert MOUNT in in_own_mounts(box, mount, "run", "-w", box.workspace, "--mode", "direct", "true")
    other = box.caller.folder(box.scratch, "other")
    assert MOUNT in in_own_mounts(box, mount, "run", "-w", other, "--rw", f"{box.workspace}:/x", "true")


def test_home_may_be_seen_but_not_written(box):
    home = box.caller.home
    assert box.run("true", workspace=home).returncode == 0
    assert box.run("true", workspace=home, opts=["--mode", "ro"]).returncode == 0
    for folder in (home, home.parent, f"/{home}", f"{home}/../{home.name}"):
        assert HOME in refusal(box, "run", "-w", folder, "--mode", "direct", "true")
        assert HOME in refusal(box, "run", "-w", box.workspace, "--rw", f"{folder}:/x", "true")


def test_folder_below_home_and_in_dev_shm_may_be_written(box):
    below = box.caller.folder(box.caller.home, "below")
    assert box.run("touch", "made", workspace=below, opts=["--mode", "direct"]).returncode == 0
    assert (below / "made").exists()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        box.caller.own(memory)
        assert box.run("true", workspace=memory).returncode == 0


def test_image_that_is_the_hosts_root_is_refused(box):
    data = box.caller.folder(box.scratch, "data")
    (data / "hutch/images/all").mkdir(parents=True)
    for folder in (data / "hutch", data / "hutch/images", data / "hutch/images/all"):
        box.caller.own(folder)
    os.symlink("/", data / "hutch/images/all/rootfs")
    assert ROOT in refusal(box, "run", "-w", box.workspace, "--image", "all", "true", env={"XDG_DATA_HOME": str(data)})
