"""Containers whose root filesystem is a few folders and the host's /usr: no image is fetched."""
import json
import os
import resource
import shutil
import signal
import subprocess

import harness

LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS = ("usr", "etc", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "home", "work", "hutch")

# crun refuses a host that has control groups of both versions, as long as version 2 is in sight.
ENTER = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'


def make_root(folder):
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp", "work"):
        (folder / name).chmod(0o1777)
    for name in LINKS:
        if os.path.islink(f"/{name}"):
            (folder / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "ld.so.cache"):
        shutil.copy(f"/etc/{name}", folder / "etc" / name)
    shutil.copytree("/etc/alternatives", folder / "etc/alternatives", symlinks=True)
    (folder / "etc/app/deep").mkdir(parents=True)
    for name in ("shadow", "private.conf", "app/private.conf", "app/deep/private.conf"):
        (folder / "etc" / name).write_text("secret-of-the-container\n")
        (folder / "etc" / name).chmod(0o600)


class Podman:
    """`podman run`, with state of its own, and the built hutch at /hutch/hutch."""

    def __init__(self, folder, parts, prefix=()):
        """`prefix` turns root into who starts the container."""
        self.folder, self.parts, self.prefix = folder, parts, prefix
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/usr/sbin"), "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        self.root = folder / "rootfs"
        make_root(self.root)

    def command(self, *argv, opts=(), overlay=False, cgroups=False):
        """The container's root filesystem is the host's (ext4, …), or an overlay as that of an image."""
        files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)
        processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], 4096)
        state = ["--root", self.folder / "root", "--runroot", self.folder / "runroot", "--tmpdir", self.folder / "tmp",
                 "--cgroup-manager=cgroupfs"]
        fixed = ["--rm", "--network=none", "--workdir=/work", "-v", "/usr:/usr:ro", "-v", f"{self.parts}:/hutch:ro",
                 f"--ulimit=nofile=1024:{files}", f"--ulimit=nproc={processes}:{processes}", "--pids-limit=2000" if cgroups else "--cgroups=disabled"]
        rootfs = ["--rootfs", f"{self.root}:O" if overlay else self.root]
        return ["unshare", "-m", "sh", "-c", ENTER, "sh", *self.prefix, "podman", *map(str, [*state, "run", *fixed, *opts, *rootfs, *argv])]

    def run(self, *argv, timeout=120, **how):
        before = set(harness.descendants())
        done = subprocess.run(self.command(*argv, **how), capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False,
                              cwd="/", env=self.env)
        # What conmon starts to clean up may still run.
        harness.wait_until(lambda: not set(harness.descendants()) - before - {self.pause_process()}, 60, "the end of podman's processes")
        return harness.Finished(done.returncode, done.stdout, done.stderr, 0)

    def pause_process(self):
        """Rootless podman keeps a process for its user namespace; 0 where there is none."""
        try:
            return int((self.folder / "tmp/pause.pid").read_text())
        except (OSError, ValueError):
            return 0

    def end(self):
        if self.pause_process() in harness.descendants():
            os.kill(self.pause_process(), signal.SIGKILL)

    def hutch(self, *args, **how):
        return self.run("/hutch/hutch", *args, **how)

    def doctor(self, **how):
        """Exit status, and the probes by name."""
        done = self.hutch("doctor", "--json", **how)
        return done.returncode, {probe["name"]: probe for probe in json.loads(done.stdout)["probes"]}


def installed_parts(hutch, folder):
    """The program where every user of a container can reach it."""
    parts = folder / "parts"
    parts.mkdir()
    harness.copy_parts(hutch, parts)
    return parts
