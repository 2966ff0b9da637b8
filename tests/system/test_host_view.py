"""What a box sees of the host: all of /etc but secrets, the workspace at its own path, and what programs of the distribution need."""
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest


def need(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def sh(box, script, **more):
    return box.run("bash", "-c", script, **more)


# /etc.


@pytest.fixture
def etc(box):
    """A folder in /etc for the test's own files. It changes the stamps by which boxes know that /etc changed."""
    if os.geteuid() != 0:
        pytest.skip("not root: cannot put files into /etc")
    folder = Path("/etc") / f"hutch-test-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def plant(folder, name, mode=0o644, owner=(0, 0)):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("planted\n")
    os.chown(path, *owner)
    path.chmod(mode)
    return path


def shown(box, *paths):
    """Of these files those that a box can read, each behind its content."""
    return box.run("sh", "-c", 'for f in "$@"; do cat "$f" 2>/dev/null && echo "$f"; done; true', "sh", *paths).stdout


def test_a_file_of_etc_that_everybody_may_read_is_shown(box, etc):
    file = plant(etc, "some.conf")
    assert shown(box, file) == f"planted\n{file}\n"


def test_a_file_of_etc_that_only_a_group_of_the_caller_may_read_is_hidden(box, etc):
    """An ordinary user's box is that user: the mode alone would let it read."""
    file = plant(etc, "group.conf", 0o640, (0, box.caller.gid))
    mine = plant(etc, "mine.conf", 0o400, (box.caller.uid, box.caller.gid))
    folder = etc / "folder"
    inside = plant(folder, "open.conf")
    os.chown(folder, 0, box.caller.gid)
    folder.chmod(0o750)
    assert shown(box, file, mine, inside) == ""
    assert sh(box, f"ls {etc}").stdout == ""


@pytest.mark.parametrize("name", ["server.key", "http.keytab", "netrc", "db.password", "office.nmconnection", "smb-credentials",
                                  "auth.json", "private/x", "prod.env", "client.ovpn"])
def test_secrets_of_etc_are_hidden_by_name_though_everybody_may_read_them(box, etc, name):
    assert shown(box, plant(etc, name)) == ""


def test_a_secret_that_appears_in_etc_later_is_hidden_from_the_next_box(box, etc):
    plain = plant(etc, "plain.conf")
    assert shown(box, plain) == f"planted\n{plain}\n"
    secret = plant(etc, "new.conf", 0o640, (0, box.caller.gid))
    assert shown(box, plain, secret) == f"planted\n{plain}\n"


def test_etc_shows_no_accounts_of_the_host(box):
    done = sh(box, "cat /etc/passwd; ls /etc/shadow /etc/gshadow /etc/sudoers /etc/fstab /etc/subuid /etc/apt /etc/resolv.conf 2>/dev/null")
    assert done.stdout.splitlines() == ["root:x:0:0:root:/root:/usr/sbin/nologin", "agent:x:1000:1000:agent:/home/agent:/bin/bash",
                                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"]


def test_etc_cannot_be_written(box):
    done = sh(box, "echo x >/etc/new; echo x >/etc/hosts; rm /etc/hostname; mkdir /etc/d; cat /etc/hostname")
    assert done.stdout == "box\n"
    assert done.stderr.count("denied") + done.stderr.count("Read-only") == 4, done


def test_each_box_has_a_machine_id_of_its_own(box):
    ids = [sh(box, "cat /etc/machine-id").stdout for _ in range(2)]
    assert all(len(i) == 33 and int(i, 16) for i in ids), ids
    assert ids[0] != ids[1]
    host = Path("/etc/machine-id")
    assert not host.exists() or host.read_text() not in ids


def test_etc_with_mounts_inside_is_shown_entry_by_entry(box, etc):
    """As in a container, where the runtime mounts /etc/hosts; the kernel refuses such a folder as a layer."""
    hidden, nested, plain = plant(etc, "a.key"), plant(etc / "deep", "b.key"), plant(etc / "deep", "plain.conf")
    top = Path("/etc") / f"{etc.name}.conf"
    top.write_text("planted\n")
    try:
        script = 'mount --bind /etc/hosts /etc/hostname && exec "$@"'
        command = box.command("sh", "-c", f"cat {plain} {top} /etc/hostname; cat {hidden} {nested} /etc/shadow; head -1 /etc/passwd")
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command], env=box.env,
                              capture_output=True, text=True, check=False, timeout=300)
    finally:
        top.unlink()
    assert done.stdout == "planted\nplanted\nbox\nroot:x:0:0:root:/root:/usr/sbin/nologin\n", done


# Programs of the distribution.


def test_matplotlib_draws(box):
    """It reads /etc/matplotlibrc, and fonts by way of /etc/fonts and /var/cache/fontconfig."""
    if subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True, check=False).returncode != 0:
        pytest.skip("not installed: python3-matplotlib")
    draw = "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p; p.plot([1, 3, 2]); p.title('t'); p.savefig('a.png')"
    done = box.run("/usr/bin/python3", "-c", draw + "; print(open('a.png', 'rb').read(4))", opts=["--timeout", "2m"], timeout=150)
    assert done.returncode == 0 and "PNG" in done.stdout, done


def test_chromium_prints_a_page(box):
    """Its wrapper reads /etc/chromium.d."""
    need("chromium")
    box.put("page.html", "<p id=x></p><script>document.getElementById('x').textContent = 6 * 7</script>")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    done = box.run("chromium", *flags, "file:///workspace/page.html", opts=["--memory", "2G", "--timeout", "3m", "--pids", "512"], timeout=200)
    assert '<p id="x">42</p>' in done.stdout, done


def test_fonts_are_found_without_writing_a_cache(box):
    need("fc-list")
    host = subprocess.run(["fc-list"], capture_output=True, text=True, check=True).stdout  # first: renews a stale cache
    done = sh(box, "fc-list | wc -l; find ~/.cache -type f 2>/dev/null | wc -l")
    assert done.stdout.split() == [str(host.count("\n")), "0"], done


def test_tex_sets_a_page(box):
    need("pdftex")
    box.put("a.tex", "Hello\\bye\n")
    done = sh(box, "pdftex -interaction=batchmode a.tex && head -c 4 a.pdf")
    assert done.returncode == 0 and done.stdout.endswith("%PDF"), done


def test_redis_starts(box):
    """It raises oom_score_adj of its own process."""
    need("redis-server", "redis-cli")
    script = """redis-server --port 7001 --save '' --oom-score-adj yes >log 2>&1 &
until [ "$(redis-cli -p 7001 ping 2>/dev/null)" = PONG ]; do kill -0 $! || { cat log; exit 1; }; done
redis-cli -p 7001 set a b; grep -i oom log; redis-cli -p 7001 shutdown nosave; wait"""
    done = sh(box, script)
    assert done.stdout == "OK\n", done


def test_lscpu_and_nproc_tell_the_processors(box):
    need("lscpu")
    online = os.cpu_count()
    done = sh(box, "lscpu | grep '^CPU(s):'; nproc --all; ls /sys /sys/devices/system")
    assert done.stdout.split() == ["CPU(s):", str(online), str(online), "/sys:", "devices", "fs", "/sys/devices/system:", "cpu", "node"], done


QUEUE = """
import ctypes, os, sys
c = ctypes.CDLL(None, use_errno=True)
def check(value):
    if value < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return value
q = check(c.mq_open(b"/q", os.O_RDWR | os.O_CREAT, 0o600, None))
check(c.mq_send(q, b"hello", 5, 0))
text = ctypes.create_string_buffer(65536)
n = check(c.mq_receive(q, text, 65536, None))
print(text.raw[:n], os.listdir("/dev/mqueue"))
check(c.mq_unlink(b"/q"))
"""


def test_message_queues_work(box):
    done = box.run("/usr/bin/python3", "-c", QUEUE)
    assert done.stdout == "b'hello' ['q']\n", done


# Limits as programs see them.


@pytest.mark.parametrize("memory, heap", [("256M", 128 << 20), ("1G", 256 << 20), ("2G", 512 << 20)])
def test_java_sizes_its_heap_by_the_memory_of_the_box(box, memory, heap):
    need("java")
    done = sh(box, "java -XX:+PrintFlagsFinal -version 2>err | grep -w MaxHeapSize; grep -i option err; true", opts=["--memory", memory])
    assert 0.97 * heap <= int(done.stdout.split()[3]) <= heap, done


def test_limits_can_be_read_and_not_written(box):
    done = sh(box, "cd /sys/fs/cgroup; cat memory.max cpu.max pids.max; echo 1 >memory.max; echo 1 >new",
              opts=["--memory", "300M", "--pids", "77", "--cpus", "1"])
    assert done.stdout == f"{300 << 20}\n100000 100000\n77\n"
    assert done.stderr.count("denied") + done.stderr.count("Read-only") == 2, done


def test_limits_that_change_are_read_as_they_are_then(box):
    made = box.hutch("box", "new", "-w", box.workspace, "--memory", "300M").stdout.strip()
    try:
        done = box.hutch("box", "set", made, "--memory", "400M")
        assert done.returncode == 0, done
        assert box.hutch("box", "exec", made, "--", "cat", "/sys/fs/cgroup/memory.max").stdout == f"{400 << 20}\n"
    finally:
        box.hutch("box", "rm", made)


# /proc.

WRITABLE = """
import os
for base, folders, files in os.walk("/proc"):
    if base == "/proc":
        folders[:] = [f for f in folders if not f.isdigit()]
    for name in files:
        path = os.path.join(base, name)
        if not os.path.isfile(path) or os.path.islink(path):  # a device stands for what is masked
            continue
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        print(path)
"""


def test_no_file_of_proc_can_be_opened_for_writing_but_those_of_a_process(box):
    done = box.run("/usr/bin/python3", "-c", WRITABLE + "print('looked')")
    assert done.stdout == "looked\n", done


def test_a_process_sets_what_is_its_own_in_proc(box):
    script = """echo 500 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj
echo renamed >/proc/$$/comm; cat /proc/$$/comm; echo 1000000 >/proc/$$/timerslack_ns; cat /proc/$$/timerslack_ns"""
    assert sh(box, script).stdout.split() == ["500", "renamed", "1000000"]


# The workspace at its own path.


def test_the_workspace_is_one_folder_under_two_names(box):
    box.put("file", "text\n")
    done = sh(box, 'cd "$0"; cat file; echo in >made; cat /workspace/made; stat -c %i . /workspace; mv made /workspace/moved; ls'
              .replace("$0", str(box.workspace)))
    lines = done.stdout.splitlines()
    assert lines[:2] == ["text", "in"] and lines[2] == lines[3] and lines[4:] == ["file", "moved"], done
    assert os.listdir(box.workspace) == ["file"]
    assert sh(box, "pwd").stdout == "/workspace\n"


def test_nothing_else_of_the_host_is_on_the_way_to_the_workspace(box):
    (box.workspace.parent / "beside").mkdir(exist_ok=True)
    done = sh(box, f"ls {box.workspace.parent}; ls {box.workspace.parent.parent}")
    assert done.stdout.split() == [box.workspace.name, box.workspace.parent.name], done


@pytest.mark.parametrize("mode", ["cow", "direct", "ro"])
def test_every_mode_shows_the_workspace_at_its_own_path(box, mode):
    box.put("file", "text\n")
    done = sh(box, f"cd {box.workspace} && cat file && echo new >made", opts=["--mode", mode])
    assert done.stdout == "text\n"
    assert (done.returncode == 0) == (mode != "ro"), done
    assert (box.workspace / "made").exists() == (mode == "direct")


def test_forks_and_snapshots_show_the_workspace_at_its_own_path(box):
    box.put("file", "text\n")
    first = box.hutch("box", "new", "-w", box.workspace).stdout.strip()
    try:
        box.hutch("box", "exec", first, "--", "sh", "-c", f"echo changed >{box.workspace}/file")
        forked = box.hutch("box", "fork", first)
        fork = forked.stdout.strip()
        assert fork, forked
        try:
            done = box.hutch("box", "exec", fork, "--", "sh", "-c", f"cat {box.workspace}/file; echo x >{box.workspace}/new; ls /workspace")
            assert done.stdout.split() == ["changed", "file", "new"], done
        finally:
            box.hutch("box", "rm", fork)
        assert box.hutch("box", "diff", first).stdout.count("changed") == 1
    finally:
        box.hutch("box", "rm", first)


def test_a_workspace_at_a_path_of_the_boxs_own_is_shown_at_workspace_alone(box):
    box.put("file", "text\n")
    done = box.run("ls", "/workspace", box.workspace.parent, opts=["--ro", f"{box.workspace}:{box.workspace.parent}"])
    assert done.stdout.split() == [f"{box.workspace.parent}:", "file", "/workspace:", "file"], done


def test_a_build_tree_of_cmake_from_the_host_builds_in_a_box(box):
    need("cmake", "make", "cc")
    box.put("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(p p.c)\n")
    box.put("p.c", "int main(void) { return 0; }\n")
    def cmake(*args):
        return subprocess.run([*box.caller.prefix, "cmake", *args], cwd=box.workspace, env=box.env, capture_output=True, text=True, check=True)
    cmake("-S", ".", "-B", "build")
    cmake("--build", "build")
    box.put("p.c", "int main(void) { return 3; }\n")
    done = sh(box, f"cd {box.workspace} && cmake --build build && ! build/p && echo built", opts=["--timeout", "2m"], timeout=150)
    assert done.returncode == 0 and done.stdout.endswith("built\n"), done
    assert "re-running" not in done.stdout.lower()


def test_a_virtual_environment_of_the_host_works_in_a_box(box):
    made = subprocess.run([*box.caller.prefix, "/usr/bin/python3", "-m", "venv", "--without-pip", str(box.workspace / "venv")],
                          capture_output=True, text=True, check=False, cwd="/", env=box.env)
    if made.returncode != 0:
        pytest.skip(f"not installed: python3-venv ({made.stderr[-200:]})")
    script = box.workspace / "venv" / "bin" / "tool"
    script.write_text(f"#!{box.workspace}/venv/bin/python3\nimport sys\nprint(sys.prefix)\n")
    script.chmod(0o755)
    box.caller.own(script)
    done = box.run("venv/bin/tool")
    assert done.stdout == f"{box.workspace}/venv\n", done
