"""A run of a warm process is confined as a command of the same box is: neither more nor less. And it reaches nothing of
the process that it was forked from."""
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from arsenal import breach_if

# What a process can tell of itself, printed as JSON. Run both ways, it must come out the same.
PORTRAIT = r"""
import ctypes, json, os, resource, signal, sys
def text(path):
    with open(path, errors="replace") as f:
        return f.read()
def attempt(what, *args):
    try:
        what(*args)
        return "done"
    except OSError as e:
        return e.errno
def touch(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(path)
libc = ctypes.CDLL(None, use_errno=True)
def prctl(n):
    return libc.prctl(n, 0, 0, 0, 0)
status = dict(line.split(":\t", 1) for line in text("/proc/self/status").splitlines() if ":\t" in line)
skipped = {"Name", "Pid", "Tgid", "NSpid", "NStgid", "NSpgid", "NSsid", "FDSize", "Kthread", "Speculation_Store_Bypass"}
portrait = {
    "status": {k: v for k, v in status.items() if k not in skipped and "ctxt_switches" not in k
               and not k.startswith(("Vm", "Rss", "Huge"))},
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in os.listdir("/proc/self/ns")},
    "cgroup": text("/proc/self/cgroup"),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "root": [os.stat("/").st_dev, os.stat("/").st_ino, os.readlink("/proc/self/root")],
    "cwd": [os.getcwd(), os.stat(".").st_dev, os.stat(".").st_ino],
    "environ": {k: v for k, v in os.environ.items() if k not in ("PWD", "PYTHONHASHSEED")},
    "mounts": text("/proc/self/mountinfo"),
    "processors": sorted(os.sched_getaffinity(0)),
    "nice": os.nice(0),
    "oom": [text("/proc/self/oom_score_adj"), text("/proc/self/oom_adj")],
    "umask": os.umask(0o22),
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid()],
    "terminal": attempt(os.open, "/dev/tty", os.O_RDWR),
    "dumpable": prctl(3),
    "securebits": prctl(27),
    "subreaper": [libc.prctl(37, ctypes.byref(ctypes.c_int()), 0, 0, 0)],
    "slack": prctl(30),
    "owner": [os.stat("/proc/self/environ").st_uid, os.stat("/proc/self/environ").st_gid],
    "name": text("/proc/sys/kernel/hostname"),
    "writes": {path: attempt(touch, path + "/hutch-test") for path in
               ("/", "/usr", "/etc", "/workspace", "/home/agent", "/tmp", "/run", "/dev", "/dev/shm", "/proc", "/var", "/home")},
    "calls": {n: attempt(lambda: 0) if libc.syscall(n, -1, -1, 0, 0) >= 0 else ctypes.get_errno() for n in
              (161, 165, 166, 155, 272, 308, 250, 304, 321, 323, 425, 435, 438, 312)},
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    "links": [os.readlink("/proc/self/fd/%d" % n).split(":")[0] for n in range(3)],
}
print(json.dumps(portrait))
"""


def portraits(warm):
    ran = warm.run(PORTRAIT)
    assert ran["exit_code"] == 0, ran
    done = warm.ask(exec="exec python3 -s -c " + shlex.quote(PORTRAIT))
    assert done["exit_code"] == 0, done
    return json.loads(ran["output"]), json.loads(done["output"])


@pytest.mark.parametrize("options", [(), ("pids=40", "files=200"), ("net=host",)], ids=["plain", "limits", "net-host"])
def test_a_run_is_confined_as_a_command(open_warm, options):
    """Rights, namespaces, control groups, limits, mounts, environment, descriptors, what is refused: all the same."""
    warm = open_warm(*options)
    ran, executed = portraits(warm)
    # The tag by which the guest knows its trees: another for each command, far above any that can be hit.
    for portrait in (ran, executed):
        soft, hard = portrait["limits"].pop("RLIMIT_RTTIME", (1 << 40, 1 << 40))
        assert soft == hard >= 1 << 40
    # The runner's own descriptor is 3; the portrait's listing has one more.
    assert executed["descriptors"] == [0, 1, 2, 3]
    executed["descriptors"].append(4)
    different = {key: (ran[key], executed[key]) for key in ran if ran[key] != executed[key]}
    breach_if(different, f"a run differs from a command: {different}")
    assert set(ran["status"]["Cap" + which] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")) == {"0" * 16}
    assert (ran["status"]["NoNewPrivs"], ran["status"]["Seccomp"]) == ("1", "2")


def test_it_is_so_in_a_fork_and_in_a_box_that_is_in_use(warm):
    warm.ask(exec="echo hello > /workspace/here; sleep 300 & echo $! > /tmp/pid")
    assert warm.ask(fork=True) == {"done": True}
    assert warm.run("print(open('/workspace/here').read())")["output"] == "hello\n\n"
    ran, executed = portraits(warm)
    breach_if(ran["namespaces"] != executed["namespaces"] or ran["mounts"] != executed["mounts"], "another box's mounts")


def test_nothing_of_the_warm_process_is_within_reach(warm, secret):
    """Its descriptors, its memory, its folder in /proc; and of the host, not even a path."""
    done = warm.run("""
import glob, re
for path in glob.glob("/proc/[0-9]*/"):
    print("process", path, open(path + "comm").read().strip())
for n in os.listdir("/proc/self/fd"):
    try:
        print("descriptor", n, os.readlink("/proc/self/fd/" + n))
    except OSError:
        pass
print("maps", open("/proc/self/maps").read())
print("environ", open("/proc/self/environ").read())
print("exe", os.readlink("/proc/self/exe"), os.readlink("/proc/self/root"))
""")
    text = done["output"]
    processes = re.findall(r"^process /proc/(\d+)/ (.*)$", text, re.M)
    breach_if([name for _, name in processes] != ["hutch-guest", "python3"], f"sees processes {processes}")
    shared = [line for line in text.splitlines() if re.match(r"[0-9a-f]+-[0-9a-f]+ .w.s ", line)]
    breach_if(shared, f"shares memory: {shared}")
    breach_if(str(Path(warm.process.args[-3]).parent) in text, "is told where hutch is on the host")
    breach_if("socket:" in text, "has a socket")


# Each line is an attack that must fail; whatever works is printed.
ATTACKS = r"""
import ctypes, glob
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, call, *args):
    try:
        got = call(*args)
    except (OSError, ValueError):
        return
    print("WORKED", what, got)
def call(n, *args):
    got = libc.syscall(n, *args)
    if got < 0:
        raise OSError(ctypes.get_errno(), "")
    return got
PTRACE, SETNS, UNSHARE, MOUNT, CHROOT, PIDFD_GETFD, KEYCTL, BPF = 101, 308, 272, 165, 161, 438, 250, 321
tried("trace the guest", call, PTRACE, 16, 1, 0, 0)
tried("the guest's memory", open, "/proc/1/mem", "rb")
tried("the guest's environment", open, "/proc/1/environ", "rb")
tried("the guest's descriptors", os.listdir, "/proc/1/fd")
for n in glob.glob("/proc/[0-9]*/ns/*"):
    try:
        fd = os.open(n, os.O_RDONLY)
    except OSError:
        continue
    tried("enter " + n, call, SETNS, fd, 0)
    os.close(fd)
for flag in (0x20000, 0x10000000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000):
    tried("unshare %x" % flag, call, UNSHARE, flag)
tried("mount", call, MOUNT, b"none", b"/tmp", b"tmpfs", 0, 0)
tried("chroot", os.chroot, "/")
tried("keyring", call, KEYCTL, 0, -3, 0)
tried("bpf", call, BPF, 0, 0, 0)
for path in ("/proc/self/exe", "/usr/bin/python3", "/run/hutch-warm.so"):
    tried("write " + path, os.open, path, os.O_WRONLY)
for n in glob.glob("/proc/self/map_files/*"):
    tried("write " + n, os.open, n, os.O_WRONLY)
tried("become root", os.setuid, 0)
tried("groups", os.setgroups, [0])
tried("capabilities", call, 126, ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)),
      ctypes.byref((ctypes.c_uint32 * 6)(1, 1, 1, 0, 0, 0)))
for pid in range(3, 400):  # 1 and 2 are the guest and its thread: see test_process1.py
    if pid != os.getpid():
        tried("signal %d" % pid, os.kill, pid, 0)
tried("nice", os.nice, -5)
tried("raise the number of files", lambda: __import__("resource").setrlimit(7, (1 << 20, 1 << 20)))
for n in range(4, 64):
    tried("descriptor %d" % n, os.fstat, n)
part = ctypes.PyDLL(None)
print("tried")
"""


def test_the_ways_back_out_are_closed(warm):
    """Tracing, signals, namespaces, mounts, the program's own file, descriptors that the warm process had."""
    done = warm.run(ATTACKS)
    assert done["output"].endswith("tried\n"), done
    worked = [line for line in done["output"].splitlines() if line.startswith("WORKED")]
    breach_if(worked, f"{worked}")
    warm.works()


def test_calling_the_part_again_changes_nothing(warm):
    """Its functions are in the child's memory: without the rights of a warm process they do nothing."""
    done = warm.run("""
import _imp, types
part = _imp.create_dynamic(types.SimpleNamespace(name="hutch_part", origin="/run/hutch-warm.so"))
print("calling", flush=True)
part.serve()
print("came back")
""")
    assert done["output"] == "calling\n" and done["exit_code"] != 0, done
    warm.works()


def test_a_run_finds_nothing_of_another(warm, secret):
    """What other runs were asked is never in the memory that a run inherits."""
    warm.run("#" + secret)
    half = len(secret) // 2
    done = warm.run(f"""
word = {secret[:half]!r}.encode() + {secret[half:]!r}.encode()
found = []
for line in open("/proc/self/maps"):
    span, rights = line.split()[:2]
    if "r" not in rights or "[v" in line:
        continue
    begin, end = (int(x, 16) for x in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as mem:
        try:
            mem.seek(begin)
            data = mem.read(end - begin)
        except OSError:
            continue
    at = data.find(b"#" + word)
    if at >= 0:
        found.append(line)
print(found)
""")
    assert done["exit_code"] == 0, done
    breach_if(done["output"] != "[]\n", f"another run's request is in memory: {done['output']}")


def test_hashes_are_the_same_every_time(open_warm):
    said = {open_warm().run("print(hash('hutch'), hash(b'x'))")["output"] for _ in range(2)}
    assert len(said) == 1, said


def test_a_box_of_another_family_is_not_entered(warm):
    assert warm.ask(stranger=True) == {"done": True}
    answer = warm.ask(run="print('here')")
    assert "started for other boxes" in answer.get("error", ""), answer


def test_boxes_that_are_not_meant_for_it_have_none(open_warm):
    assert "not opened to be entered" in open_warm("plain").opened["error"]


def test_the_template_is_not_written(open_warm, box):
    """prepare() sees what boxes see and can change none of it; what it puts into /tmp is its own."""
    source = """
import os
def prepare(text):
    global refused
    refused = []
    for path in ("/workspace", "/home/agent", "/dev/shm", "/", "/usr"):
        try:
            os.close(os.open(path + "/planted", os.O_CREAT | os.O_WRONLY))
        except OSError:
            refused.append(path)
    open("/tmp/mine", "w").close()
def run(text, fd):
    print(refused, os.path.exists("/tmp/mine"), os.path.exists("/run/hutch-warm.so"))
"""
    warm = open_warm(source=source)
    assert warm.run("")["output"] == "['/workspace', '/home/agent', '/dev/shm', '/', '/usr'] False False\n"


@pytest.mark.parametrize("source, word", [
    ("def prepare(text):\n    raise ValueError('no luck')\ndef run(text, fd): pass", "no luck"),
    ("def prepare(text): pass", "run"),
    ("this is no Python", "SyntaxError"),
    ("import os\ndef prepare(text): os._exit(3)\ndef run(text, fd): pass", "printed nothing"),
    ("import os\ndef prepare(text):\n    print('first words', flush=True)\n    os.abort()\ndef run(text, fd): pass", "first words"),
    ("import mmap\ndef prepare(text):\n    global m\n    m = mmap.mmap(-1, 4096)\ndef run(text, fd): pass", "share memory"),
    ("import threading, time\ndef prepare(text):\n    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
     "def run(text, fd): pass", "2 threads"),
])
def test_what_cannot_be_kept_warm_says_why(open_warm, source, word):
    answer = open_warm(source=source).opened
    assert answer.get("code") == 95 and word in answer["error"] and "\n" not in answer["error"], answer


def test_an_image_without_python_says_so(open_warm, box):
    for name in ("usr/bin", "workspace", "home/agent", "tmp", "run", "dev", "proc", "etc"):
        (box.workspace / name).mkdir(parents=True, exist_ok=True)
    for path in [box.workspace, *box.workspace.rglob("*")]:
        box.caller.own(path)
    answer = open_warm(f"image={box.workspace}").opened
    assert answer.get("code") == 95 and "no python3" in answer["error"], answer
