"""A box's files without a box: real overlays in a mount namespace of their own, and a diff worker that is shown them.

The namespace belongs to one process that only sleeps; a test reaches into it through that process's /proc/PID/root, so
that the trees are plain paths to Python. It works for root and for an ordinary user.
"""

import array
import os
import shutil
import socket
import stat
import subprocess

import wire

HOLD = """
mount -t tmpfs -o mode=0755 none "$1" && cd "$1" && cp "$2" hutch-guest && mkdir w r work x &&
for t in w r; do mkdir $t/base $t/merged $t/l0 work/$t || exit 1; done && echo ready && exec sleep infinity
"""


class World:
    def __init__(self, folder):
        self.user = os.geteuid() != 0
        options = ["--user", "--map-root-user"] if self.user else []
        self.folder = str(folder)
        self.holder = subprocess.Popen(
            ["unshare", *options, "--mount", "--propagation", "private", "sh", "-c", HOLD, "sh", self.folder, wire.GUEST],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.holder.stdout.readline() == b"ready\n"
        self.top = f"/proc/{self.holder.pid}/root{self.folder}"
        self.enter = ["nsenter", "--target", str(self.holder.pid), "--mount"]
        self.enter += ["--user", "--preserve-credentials"] if self.user else []
        self.layers = 1
        self.diff_worker = None

    def path(self, *parts):
        return os.path.join(self.top, *parts)

    def shell(self, script):
        subprocess.run([*self.enter, "sh", "-ec", f"cd '{self.folder}'; {script}"], check=True)

    def mount(self, tree="w"):
        lower = ":".join([f"{tree}/l{i}" for i in range(1, self.layers)] + [f"{tree}/base"])
        self.shell(f"mount -t overlay -o userxattr,lowerdir={lower},upperdir={tree}/l0,workdir=work/{tree} none {tree}/merged")

    def unmount(self, tree="w"):
        self.shell(f"umount -l {tree}/merged")

    def start(self):
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        moved = os.dup(inner.fileno())

        def place():
            os.dup2(moved, 3)

        self.diff_worker = subprocess.Popen([*self.enter, "/usr/sbin/chroot", self.folder, "/hutch-guest", "diff"],
                                       preexec_fn=place, pass_fds=(3,))
        os.close(moved)
        inner.close()

    def connect(self):
        if not self.diff_worker:
            self.start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.sendmsg([b"C"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        theirs.close()
        connection = wire.Connection(ours)
        connection.sock.settimeout(120)
        return connection

    def call(self, kind, **fields):
        c = self.connect()
        c.send(kind, **fields)
        answer = c.result()
        c.close()
        return answer

    def changes(self):
        """{path: kind} of what changed, and the entries as they came."""
        kind, fields, _, entries = self.call("CHANGES")
        assert kind == "RESULT", fields
        assert fields["COUNT"] == len(entries)
        return entries

    def diff(self, **fields):
        kind, result, output, _ = self.call("DIFF", **fields)
        assert kind == "RESULT", result
        return output["DATA"], result

    def copy(self, flatten=False, trees="w"):
        """Writes the layer; afterwards it is <tree>/copy."""
        for tree in trees:
            os.mkdir(self.path(tree, "copy"), 0o700)
        return self.call("COPY", FLATTEN=int(flatten))

    def stack(self, flattened=False):
        """Makes the copy the layer below a fresh upper one, as a fork does."""
        self.unmount()
        self.shell("rm -rf w/l0")
        if flattened:
            for i in range(1, self.layers):
                self.shell(f"rm -rf w/l{i}")
            self.layers = 1
        for i in reversed(range(1, self.layers)):
            os.rename(self.path("w", f"l{i}"), self.path("w", f"l{i + 1}"))
        os.rename(self.path("w/copy"), self.path("w/l1"))
        os.mkdir(self.path("w/l0"), 0o755)
        self.layers += 1
        self.shell("rm -rf work/w && mkdir work/w")
        self.mount()

    def end(self):
        if self.diff_worker:
            self.control.close()
            assert self.diff_worker.wait(10) == 0
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


def listing(folder):
    """What a folder holds, as git would see it: {path: (kind, content)} with bytes, folders only when empty."""
    found = {}
    queue = [b""]
    while queue:
        at = queue.pop()
        names = os.listdir(os.path.join(os.fsencode(folder), at))
        if not names and at:
            found[at] = ("dir", b"")
        for name in names:
            path = os.path.join(at, name)
            full = os.path.join(os.fsencode(folder), path)
            mode = os.lstat(full).st_mode
            if stat.S_ISDIR(mode):
                queue.append(path)
            elif stat.S_ISLNK(mode):
                found[path] = ("link", os.readlink(full))
            elif stat.S_ISREG(mode):
                with open(full, "rb") as file:
                    found[path] = (f"file {mode & 0o777:o}", file.read())
            else:
                found[path] = (f"special {stat.S_IFMT(mode):o}", b"")
    return found


def as_git_sees(found):
    """Without what git cannot hold: folders, special files, all of the mode but one bit."""
    kept = {}
    for path, (kind, content) in found.items():
        if kind.startswith("file"):
            kept[path] = ("x" if int(kind[5:], 8) & 0o100 else "f", content)
        elif kind == "link":
            kept[path] = (kind, content)
    return kept


def git_apply(base, patch, folder):
    """A copy of base with the patch applied by git itself."""
    shutil.copytree(base, folder, symlinks=True)
    subprocess.run(["find", folder, "-mindepth", "1", "-type", "d", "-empty", "-delete"], check=True)  # git has none
    if patch:
        env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "GIT_CEILING_DIRECTORIES": "/"}
        done = subprocess.run(["git", "-c", "core.autocrlf=false", "apply", "--binary", "--whitespace=nowarn", "-"],
                              cwd=folder, input=patch, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace") + patch[:4000].decode(errors="replace")
    return folder
