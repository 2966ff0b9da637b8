"""Command lines that are compared: hutch, and bubblewrap in three strengths."""
import os
import re
import shutil
from pathlib import Path

LISTS = Path(__file__).resolve().parent.parent / "src/box/ns/skeleton/lists.h"
SECCOMP_FD = 9


def selection():
    """What a box shows of the host, from the lists in the source itself: the comparison stays true when they change."""
    paths = re.findall(r'\{"([^"]+)", \'.\'\}', LISTS.read_text())
    return [path for path in paths if os.path.lexists(path)]


def show(path):
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]


def confined(workspace):
    """Namespaces, filter, user and private folders as a box has them."""
    return ["--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--hostname", "box",
            "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
            "--tmpfs", "/home/agent", "--bind", str(workspace), "/workspace", "--chdir", "/workspace",
            "--seccomp", str(SECCOMP_FD)]


def bwrap(stage, workspace):
    """The same view of the host as a box, and the very filter of a box: what hutch is compared with."""
    shown = [word for path in selection() for word in show(path)]
    return [f"{SECCOMP_FD}<{stage.filter}", "bwrap", *shown, *confined(workspace), "true"]


def bwrap_plain(stage, workspace):
    """Just as confined, but with all of /etc in one mount: faster, and it shows more."""
    shown = [word for path in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc") if os.path.lexists(path)
             for word in show(path)]
    return [f"{SECCOMP_FD}<{stage.filter}", "bwrap", *shown, *confined(workspace), "true"]


def bwrap_minimal():
    """The least that is called a sandbox: the whole host read-only, no filter."""
    return "bwrap --unshare-all --ro-bind / / --tmpfs /tmp --proc /proc --dev /dev true".split()


def hutch(stage, workspace, *options):
    return [stage.program("hutch"), "run", "-w", str(workspace), *options, "--", "true"]


def lines(named):
    """As the measuring programs want them: `:: NAME WORD…` each."""
    return [word for name, command in named.items() for word in ("::", name, *command)]


def all_bwraps(stage, workspace):
    if not shutil.which("bwrap"):
        return {}
    return {"bwrap": bwrap(stage, workspace), "bwrap, all of /etc": bwrap_plain(stage, workspace),
            "bwrap, minimal": bwrap_minimal()}
