"""The pool of prepared boxes: tests/unit/box/test_pool, as root and as an ordinary user."""
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness


def test_pool(callers, hutch, scratch, who):
    caller, _ = callers(who)
    program = hutch.parent / "tests" / "unit" / "box" / "test_pool"
    if not program.exists():
        pytest.skip(f"not built: {program}")
    folder = Path(tempfile.mkdtemp(prefix="pool-", dir=scratch))
    folder.chmod(0o755)
    harness.copy_parts(hutch, folder)
    shutil.copy2(program, folder)
    done = subprocess.run([*caller.prefix, str(folder / program.name)], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
