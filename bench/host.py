"""Where measurements run: the programs in a folder that every user can reach, and the users to run them as."""
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ["hutch", "hutch-guest", "hutch-agent", "hutch-server", "hutch-worker", "hutch-warm.so", "bench/oneshot", "bench/box_bench", "bench/tool_bench",
            "bench/filter_dump", "bench/history_bench", "bench/gym_bench", "bench/jobs_bench"]
ACCOUNTS = ["hutch-test", "nobody"]


class Failed(Exception):
    """A program that measures could not; its text is what it said."""


def describe():
    model = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    bwrap = shutil.which("bwrap")
    version = subprocess.run([bwrap, "--version"], capture_output=True, text=True, check=False).stdout if bwrap else ""
    return {"kernel": os.uname().release, "machine": os.uname().machine, "cores": os.cpu_count(),
            "cpu": model[0] if model else "unknown", "load": round(os.getloadavg()[0], 2),
            "bwrap": version.strip() or "not installed"}


class Stage:
    """A folder with copies of the programs, the seccomp filter for bwrap, and whatever the sections put there."""

    def __init__(self, build):
        self.build = build

    def __enter__(self):
        missing = [program for program in PROGRAMS if not (self.build / program).exists()]
        if missing:
            raise SystemExit(f"bench: {self.build} lacks {', '.join(missing)}: meson setup -Dbench=true {self.build}")
        self.folder = Path(tempfile.mkdtemp(prefix="hutch-bench-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        for program in PROGRAMS:
            shutil.copy2(self.build / program, self.folder)
        shutil.copytree(self.build / "hutch-skeleton", self.folder / "hutch-skeleton", symlinks=True)
        self.filter = self.folder / "filter"
        self.filter.write_bytes(subprocess.run([self.folder / "filter_dump"], stdout=subprocess.PIPE, check=True).stdout)
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=False)

    def program(self, name):
        return str(self.folder / name)


class User:
    """Who runs the measurements. Its state and temporary files go to folders of its own, so that they can be counted."""

    def __init__(self, stage, name, uid, gid):
        self.name, self.uid, self.gid = name, uid, gid
        self.prefix = []
        if uid != os.geteuid():
            self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]
        self.home = self.own(stage.folder / f"home-{name}")
        self.workspace = self.own(self.home / "workspace")
        self.temporary = self.own(self.home / "tmp")
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                    "XDG_RUNTIME_DIR": str(self.home), "TMPDIR": str(self.temporary)}

    def own(self, path):
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)
        return path

    def popen(self, command, **more):
        return subprocess.Popen([*self.prefix, *map(str, command)], stdin=subprocess.DEVNULL, env=self.env,
                                cwd=self.workspace if os.geteuid() == 0 or not self.prefix else "/", **more)

    def output(self, command):
        """What a program printed; Failed if it failed."""
        process = self.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate()
        if process.returncode != 0:
            said = err.decode(errors="replace").strip().splitlines() or ["no message"]
            raise Failed(f"{Path(command[0]).name} {command[1]}: {said[0]}" + (" …" if len(said) > 1 else ""))
        return out

    def json(self, command):
        return json.loads(self.output(command))


def users(stage, only_me):
    """The one who started this; and an ordinary user if that is root."""
    me = pwd.getpwuid(os.geteuid())
    yield User(stage, me.pw_name, me.pw_uid, me.pw_gid)
    if me.pw_uid != 0 or only_me or not shutil.which("setpriv"):
        return
    known = {account.pw_name: account for account in pwd.getpwall()}
    for name in ACCOUNTS:
        if name in known:
            yield User(stage, name, known[name].pw_uid, known[name].pw_gid)
            return
