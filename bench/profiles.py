"""Command lines that are compared: hutch, and bubblewrap in three strengths."""
import os
import shutil

SECCOMP_FD = 9
SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")


def show(path):
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]


def shown():
    """/usr and /etc read-only, and what leads into /usr."""
    return [word for path in SHOWN if os.path.lexists(path) for word in show(path)]


def bwrap():
    """As people use it, and what hutch is compared with: no filter, no limits, no workspace."""
    return ["bwrap", "--unshare-all", *shown(), "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true"]


def bwrap_confined(stage, workspace):
    """Namespaces, user and private folders as a box has them, and the very filter of a box."""
    confined = ["--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--hostname", "box", "--clearenv",
                "--setenv", "PATH", "/usr/bin:/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs",
                "/home/agent", "--bind", str(workspace), "/workspace", "--chdir", "/workspace", "--seccomp", str(SECCOMP_FD)]
    return [f"{SECCOMP_FD}<{stage.filter}", "bwrap", "--unshare-all", *shown(), *confined, "true"]


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
    return {"bwrap": bwrap(), "bwrap, confined as a box": bwrap_confined(stage, workspace), "bwrap, minimal": bwrap_minimal()}
