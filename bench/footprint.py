"""What there is on the host that a box could have left behind."""
import ctypes
import os
from pathlib import Path

GROUPS_MAX = 256  # CGROUP_POOL_MAX: folders that hutch keeps for reuse, per hierarchy
PR_SET_CHILD_SUBREAPER = 36
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run")
KERNEL_KEYS = ("Slab", "KernelStack", "PageTables", "Percpu", "Shmem")


def adopt_orphans():
    """Whatever is left running becomes a child of this process, so that it can be told from what others run."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below():
    """All processes below this one, zombies too."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [os.getpid()]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found


def control_groups():
    """Folders in the pools of all hierarchies together would count one box several times: the largest pool is told."""
    sizes = [0]
    for folder, inner, _ in os.walk("/sys/fs/cgroup"):
        if os.path.basename(folder) == "hutch":
            sizes.append(len(inner))
            inner.clear()
    return max(sizes)


def files(user):
    """In the folders of this user alone; and in those of everybody, what bears hutch's name."""
    own = sum(len(inner) + len(names) for top in (user.temporary, user.home / "hutch") for _, inner, names in os.walk(top))
    shared = sum(name.startswith("hutch") and not name.startswith(("hutch-bench-", "hutch-test-"))
                 for top in SHARED for name in os.listdir(top))
    return own + shared


def kernel_memory():
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(fields[key].split()[0]) for key in KERNEL_KEYS if key in fields)


def take(user):
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = sum(1 for _ in file)
    return {"processes": len(below()), "mounts": mounts, "control groups": control_groups(), "files": files(user),
            "kernel's memory, KiB": kernel_memory()}
