"""The fixture `podman`; see container_kit.py."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
from container_kit import Podman, installed_parts


def made_podman(hutch, owner=None):
    """By root, or by another account."""
    if os.geteuid() != 0:
        pytest.skip("not root: containers with root's rights need root")
    if not shutil.which("podman"):
        pytest.skip("no podman on this host (apt install podman)")
    if not hutch.exists():
        pytest.skip(f"not built: {hutch}")
    folder = Path(tempfile.mkdtemp(prefix="hutch-podman-", dir="/var/tmp"))  # podman wants a short path
    folder.chmod(0o755)
    prefix = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"] if owner else []
    made = Podman(folder, installed_parts(hutch, folder), prefix)
    if owner:
        subprocess.run(["chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", folder], check=True)
    tried = made.run("true")
    if tried.returncode != 0:
        made.end()
        pytest.skip(f"podman starts no container here: {tried.stderr.strip().splitlines()[-1:]}")
    yield made
    made.end()
    for mount in re.findall(rf"^\S+ \S+ \S+ \S+ ({re.escape(str(folder))}\S*)", Path("/proc/self/mountinfo").read_text(), re.M):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


@pytest.fixture(scope="session")
def podman(hutch):
    yield from made_podman(hutch)


@pytest.fixture(scope="session")
def rootless(hutch):
    """An ordinary user's containers. That user needs a range of ids in /etc/subuid, which useradd gives."""
    yield from made_podman(hutch, harness.ordinary_account() if os.geteuid() == 0 else None)
