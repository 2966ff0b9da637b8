"""`hutch box set`: the network and the limits of a box that runs; groups of package hosts; what was refused."""
import http.server
import json
import os
import shutil
import socket
import threading

import pytest

import harness
from package_server import NAME, PackageServer, write_npmrc, write_pip_conf

HAS_PIP = os.path.isdir("/usr/lib/python3/dist-packages/pip")
FETCH = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
sys.stdout.write(opener.open(sys.argv[1], timeout=20).read().decode())
"""


@pytest.fixture
def server():
    with PackageServer() as one:
        yield one


@pytest.fixture
def new_box(box):
    """Kept boxes on demand, removed at the end."""
    made = []

    def make(*options, **more):
        done = box.hutch("box", "new", "-w", box.workspace, *options, **more)
        assert done.returncode == 0, done
        made.append(done.stdout.strip())
        return made[-1]

    yield make
    for one in made:
        box.hutch("box", "rm", one)


@pytest.fixture
def home(box):
    """An empty home folder of the person, whose configuration a test writes."""
    folder = box.caller.folder(box.scratch, "home")
    box.env["HOME"] = str(folder)
    return folder


def info(box, one):
    return next(b for b in json.loads(box.hutch("box", "ls", "--json").stdout) if b["id"] == one)


def fetch(box, one, url):
    return box.hutch("box", "exec", one, "--", "/usr/bin/python3", "-c", FETCH, url)


def set_box(box, one, *options, status=0):
    done = box.hutch("box", "set", one, *options)
    assert done.returncode == status, done
    return done


def test_network_opens_and_closes_while_the_box_runs(box, new_box, server):
    one, url = new_box(), f"http://{server.place}/simple/{NAME}/"
    assert "403" in fetch(box, one, url).stderr
    set_box(box, one, "--net", f"allow:{server.place}")
    assert info(box, one)["net"] == f"allow:{server.place}"
    assert ".whl" in fetch(box, one, url).stdout
    set_box(box, one, "--net", "off")
    assert info(box, one)["net"] == "off" and "403" in fetch(box, one, url).stderr


def test_connection_that_is_no_longer_allowed_ends(box, new_box):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        one = new_box("--net", f"allow:127.0.0.1:{port}")
        script = (f"import socket; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n')\n"
                  "print(s.recv(4096).split()[1].decode(), flush=True)\nprint('rest', s.recv(10))")
        with harness.subprocess.Popen([*box.caller.prefix, str(box.program), "box", "exec", one, "--", "/usr/bin/python3", "-c", script],
                                      env=box.env, cwd="/", stdout=harness.subprocess.PIPE, text=True) as running:
            assert running.stdout.readline() == "200\n"
            set_box(box, one, "--net", "off")
            assert running.stdout.read() == "rest b''\n" and running.wait(30) == 0


def test_forks_and_restored_boxes_keep_what_was_set(box, new_box, server):
    one, url = new_box(), f"http://{server.place}/simple/{NAME}/"
    snapshot = box.hutch("box", "snapshot", one).stdout.strip()
    set_box(box, one, "--net", f"allow:{server.place}", "--timeout", "77s", "--memory", "300M")
    fork = box.hutch("box", "fork", one).stdout.strip()
    try:
        assert box.hutch("box", "restore", one, snapshot).returncode == 0
        for each in (fork, one):
            told = info(box, each)
            assert (told["timeout_seconds"], told["memory"]) == (77.0, 300 << 20) and told["net"].startswith("allow:")
            assert ".whl" in fetch(box, each, url).stdout
    finally:
        box.hutch("box", "rm", fork)


def test_memory_can_be_raised(box, new_box):
    one = new_box("--memory", "100M")
    eat = ["box", "exec", one, "--", "/usr/bin/python3", "-c", "b = bytearray(200 << 20); print(len(b))"]
    assert box.hutch(*eat).returncode != 0
    one = new_box("--memory", "100M")
    eat[2] = one
    set_box(box, one, "--memory", "400M")
    done = box.hutch(*eat)
    assert done.returncode == 0 and done.stdout == f"{200 << 20}\n", done


def test_memory_can_be_lowered(box, new_box):
    one = new_box("--memory", "400M")
    set_box(box, one, "--memory", "100M")
    assert box.hutch("box", "exec", one, "--", "/usr/bin/python3", "-c", "b = bytearray(200 << 20); print(len(b))").returncode != 0


def test_processes_can_be_lowered(box, new_box):
    one = new_box("--pids", "200")
    set_box(box, one, "--pids", "12")
    script = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; wait"
    done = box.hutch("box", "exec", one, "--", "sh", "-c", script)
    assert done.returncode != 0 or "fork" in done.stderr, done


def test_time_limit_of_later_commands(box, new_box):
    one = new_box()
    set_box(box, one, "--timeout", "200ms")
    assert box.hutch("box", "exec", one, "--", "sleep", "100").returncode == 124


def test_processors_can_be_lowered(box, new_box):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    one = new_box()
    set_box(box, one, "--cpus", "1")
    assert info(box, one)["cpus"] == 1.0
    count = box.hutch("box", "exec", one, "--", "/usr/bin/python3", "-c", "import os; print(len(os.sched_getaffinity(0)))").stdout
    quota = harness.host_has_cgroup("cpu", box.caller) and box.caller.uid == 0 and not os.path.isdir("/sys/fs/cgroup/cpu")
    assert quota or count == "1\n", "one processor by affinity, or a quota of the control group"


@pytest.mark.parametrize("options, status, words", [
    ([], 2, "nothing to change"), (["--net", "host"], 125, "cannot join the host's network; make a new box with --net host"),
    (["--net", "allow:@gem"], 2, "there is no group '@gem'; the groups are @pip, @npm, @cargo, @apt"), (["--memory", "x"], 2, "--memory"),
    (["--disk", "1G"], 2, "--disk"), (["--net", "on"], 2, "--net")])
def test_what_cannot_be_set_is_said(box, new_box, options, status, words):
    done = set_box(box, new_box(), *options, status=status)
    assert words in done.stderr and done.stderr.count("\n") == 1, done


def test_box_with_the_hosts_network_cannot_leave_it(box, new_box):
    done = set_box(box, new_box("--net", "host"), "--net", "off", status=125)
    assert "uses the host's network, which it cannot leave" in done.stderr


def test_refused_connection_is_named(box, new_box):
    done = fetch(box, new_box(), "http://host.example.org:8080/")
    assert "the box tried to reach host.example.org:8080: not allowed; hutch box set ID --net allow:host.example.org:8080" in done.stderr
    done = box.run("/usr/bin/python3", "-c", FETCH, "http://host.example.org/", opts=["--net", "allow:other.example.org"])
    assert "hutch: the box tried to reach host.example.org:80: not allowed; --net allow:host.example.org:80" in done.stderr


@pytest.mark.skipif(not HAS_PIP, reason="no pip of Debian on this host")
def test_pip_group_is_the_index_of_the_persons_configuration(box, new_box, server, home):
    write_pip_conf(box.caller, home, f"[global]\nindex-url = http://user:secret@{server.place}/simple/\ntrusted-host = {server.host}\n")
    one = new_box()
    done = set_box(box, one, "--net", "allow:@pip")
    assert "the box gets no credentials" in done.stderr and "secret" not in done.stderr
    assert info(box, one)["net"] == "allow:@pip"
    seen = box.hutch("box", "exec", one, "--", "sh", "-c", "env; cat /proc/*/environ 2>/dev/null").stdout
    assert f"PIP_INDEX_URL={server.pip}" in seen and "secret" not in seen
    done = box.hutch("box", "exec", one, "--", "/usr/bin/python3", "-m", "pip", "install", "--disable-pip-version-check", "--target", "deps", NAME)
    assert done.returncode == 0, done
    assert box.hutch("box", "exec", one, "--", "env", "PYTHONPATH=deps", "/usr/bin/python3", "-c", f"import {NAME}; print({NAME}.greet())").stdout == \
        "hello from the package\n"
    assert not any(server.authorizations)


@pytest.mark.skipif(not HAS_PIP, reason="no pip of Debian on this host")
def test_group_allows_exactly_its_port(box, new_box, server, home):
    write_pip_conf(box.caller, home, f"[global]\nindex-url = {server.pip}\n")
    one = new_box("--net", "allow:@pip")
    assert ".whl" in fetch(box, one, f"http://{server.place}/simple/{NAME}/").stdout
    assert "403" in fetch(box, one, f"http://{server.host}:{server.port + 1}/").stderr


@pytest.mark.skipif(not shutil.which("npm", path="/usr/bin"), reason="no npm of Debian on this host")
def test_npm_group_is_the_registry_of_the_persons_configuration(box, new_box, server, home):
    write_npmrc(box.caller, home, f"registry={server.npm}\n")
    one = new_box("--net", "allow:@npm")
    done = box.hutch("box", "exec", one, "--", "npm", "install", "--no-audit", "--no-fund", NAME, timeout=120)
    assert done.returncode == 0, done
    assert box.hutch("box", "exec", one, "--", "node", "-p", f"require('./node_modules/{NAME}')").stdout == "hello from the package\n"


def test_apt_group_names_hosts_of_its_sources(box):
    if not shutil.which("apt-get", path="/usr/bin"):
        pytest.skip("no apt on this host")
    sites = harness.subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True).stdout
    if "http" not in sites:
        pytest.skip("apt has no source on the network")
    assert box.run("true", opts=["--net", "allow:@apt"]).returncode == 0


def test_workspace_decides_nothing_about_groups(box, server):
    """Neither its configuration nor its programs: the repository is anybody's."""
    for name in ("python3", "npm", "cargo", "apt-get"):
        box.put(name, f"#!/bin/sh\ntouch {box.workspace}/ran\n", 0o755)
    box.put(".npmrc", "registry=http://evil.example.org/\n")
    box.put("pip.conf", "[global]\nindex-url = http://evil.example.org/\n")
    env = {"PATH": f"{box.workspace}:.:" + box.env["PATH"]}
    for group, program, variable in (("@npm", "/usr/bin/npm", "npm_config_registry="), ("@pip", "/usr/bin/pip", "PIP_INDEX_URL=")):
        if not os.path.exists(program):
            continue
        done = box.hutch("run", "-w", box.workspace, "--net", f"allow:{group}", "env", env=env, cwd=box.workspace)
        assert done.returncode == 0 and variable in done.stdout, done
        assert "evil" not in done.stdout and not (box.workspace / "ran").exists(), done


class UpstreamProxy:
    """The proxy of a company, as the only way out: serves one page for any name, and tells what it was asked."""

    def __init__(self):
        self.asked = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.asked.append((self.path, self.headers.get("proxy-authorization")))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"through the upstream proxy\n")

            def do_CONNECT(self):
                owner.asked.append((self.path, self.headers.get("proxy-authorization")))
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\nthe server speaks first\n")
                self.close_connection = True

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://ada:p%40ss@127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=[0.05], daemon=True).start()


def test_upstream_proxy_of_the_host_is_used(box):
    proxy = UpstreamProxy()
    env = {"http_proxy": proxy.url, "https_proxy": proxy.url, "no_proxy": "direct.example.org"}
    try:
        done = box.run("/usr/bin/python3", "-c", FETCH, "http://inside.invalid/page", opts=["--net", "allow:inside.invalid"], env=env)
        assert done.stdout == "through the upstream proxy\n", done
        script = ("import socket; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT inside.invalid:443 HTTP/1.1\\r\\n\\r\\n')\n"
                  "data = b''\nwhile True:\n    more = s.recv(4096)\n    data += more\n    if not more: break\nprint(data.decode())")
        done = box.run("/usr/bin/python3", "-c", script, opts=["--net", "allow:inside.invalid"], env=env)
        assert "200 Connection established" in done.stdout and "the server speaks first" in done.stdout, done
        assert proxy.asked == [("http://inside.invalid/page", "Basic YWRhOnBAc3M="), ("inside.invalid:443", "Basic YWRhOnBAc3M=")]
        done = box.run("sh", "-c", "env; cat /proc/*/environ 2>/dev/null", opts=["--net", "allow:inside.invalid"], env=env)
        assert "ada" not in done.stdout, "its password stays on the host"
        done = box.run("/usr/bin/python3", "-c", FETCH, "http://other.invalid/", opts=["--net", "allow:inside.invalid"], env=env)
        assert "403" in done.stderr and len(proxy.asked) == 2, "the list is asked first"
    finally:
        proxy.http.shutdown()
        proxy.http.server_close()
