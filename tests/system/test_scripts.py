"""Scripts of the project fetch from where the host is set up to fetch from."""
import os
import shutil
import subprocess

import pytest

import harness

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Answers as apt-get does, keeps the list of sources that it is given, and fetches nothing.
FAKE_APT = """#!/bin/sh
case " $* " in
*" indextargets "*) echo "$FAKE_ARCHIVE" ;;
*" update "*) for word; do case $word in Dir::Etc::sourcelist=*) cp "${word#*=}" "$FAKE_SEEN" ;; esac; done; exit 1 ;;
esac
"""


def run_setup(tmp_path, archive):
    """setup-gymnasium of a tree of its own, where nothing was fetched yet."""
    for folder in ("scripts", "tests/python", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    script = shutil.copy2(harness.REPO / "scripts" / "setup-gymnasium", tmp_path / "scripts")
    (tmp_path / "bin" / "apt-get").write_text(FAKE_APT)
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHON": "/bin/false", "FAKE_ARCHIVE": archive,
           "FAKE_SEEN": str(tmp_path / "seen")}
    return subprocess.run([script], env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.skipif(not os.path.exists(KEYS), reason="there are no keys of Debian's archive on this host")
def test_gymnasium_comes_from_the_archive_that_apt_uses(tmp_path):
    done = run_setup(tmp_path, "http://archive.test/debian/")
    assert done.returncode == 1 and "cannot be reached" in done.stderr
    assert (tmp_path / "seen").read_text() == f"deb [signed-by={KEYS}] http://archive.test/debian/ sid main\n"


@pytest.mark.skipif(not os.path.exists(KEYS), reason="there are no keys of Debian's archive on this host")
def test_gymnasium_is_left_where_apt_knows_no_archive(tmp_path):
    done = run_setup(tmp_path, "")
    assert done.returncode == 1 and "apt knows no archive of Debian" in done.stderr
    assert not (tmp_path / "seen").exists()
