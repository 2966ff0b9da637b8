"""hutch in containers of systemd-nspawn, whose system call filter refuses Landlock and whose /proc is partly covered."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
from container_kit import installed_parts, make_root

LANDLOCK = "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self"


@pytest.fixture(scope="module")
def nspawn(hutch, scratch):
    if os.geteuid() != 0:
        pytest.skip("not root: systemd-nspawn needs root")
    if not shutil.which("systemd-nspawn"):
        pytest.skip("no systemd-nspawn on this host (apt install systemd-container)")
    if not hutch.exists():
        pytest.skip(f"not built: {hutch}")
    folder = Path(tempfile.mkdtemp(prefix="nspawn-", dir=scratch))
    folder.chmod(0o755)
    parts = installed_parts(hutch, folder)
    make_root(folder / "rootfs")

    def run(*argv, opts=()):
        command = ["systemd-nspawn", "-q", "-D", folder / "rootfs", "--register=no", "--keep-unit", "--as-pid2", "--pipe", "--bind-ro=/usr",
                   f"--bind-ro={parts}:/hutch", "--chdir=/work", *opts, *argv]
        done = subprocess.run(list(map(str, command)), capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False, cwd="/")
        return harness.Finished(done.returncode, done.stdout, done.stderr, 0)

    tried = run("true")
    if tried.returncode != 0:
        pytest.skip(f"systemd-nspawn starts no container here: {tried.stderr.strip().splitlines()[-1:]}")
    return run


@pytest.mark.parametrize("caller", [[], ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]], ids=["root", "user"])
def test_boxes_start(nspawn, caller):
    done = nspawn(*caller, "/hutch/hutch", "run", "--", "sh", "-c", "id -u; echo text >new; cat new")
    assert (done.returncode, done.stdout) == (0, "1000\ntext\n"), done


def landlock_of(nspawn, *opts):
    done = nspawn("/hutch/hutch", "doctor", "--json", opts=opts)
    return next(probe for probe in json.loads(done.stdout)["probes"] if probe["name"] == "landlock")


def test_doctor_names_the_filter_that_refuses_landlock(nspawn):
    allowed = landlock_of(nspawn, LANDLOCK)
    if allowed["state"] != "yes":
        pytest.skip(f"no Landlock in this kernel: {allowed['detail']}")
    refused = landlock_of(nspawn)
    if refused["state"] == "yes":
        pytest.skip("this systemd-nspawn allows Landlock")
    assert refused["state"] == "degraded" and "seccomp" in refused["detail"], refused
