"""Workspaces of a worker's jobs, archives that want more than they may, and artifacts."""
import io
import json
import tarfile
import zipfile

import pytest

from worker_kit import coordinator, read_tar, tar, workers  # noqa: F401


def zipped(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return "application/zip", out.getvalue()


def on(upload):
    return {"upload": upload, "spec": {"workspace": {"upload": "x"}}}


@pytest.mark.parametrize("upload", [
    tar(("./a.txt", "one\n"), ("deep/er/b.txt", "two\n")), tar(("a.txt", "one\n"), ("deep/er/b.txt", "two\n"), compression=""),
    zipped(("a.txt", "one\n"), ("deep/er/b.txt", "two\n"))], ids=["tar.gz", "tar", "zip"])
def test_uploads_are_the_base_of_the_diff(coordinator, workers, upload):
    workers.start()
    job = coordinator.ended(coordinator.steps("cat a.txt deep/er/b.txt; echo three >>a.txt", **on(upload)))
    assert job.state == "completed", job.finish
    assert job.results[0]["text"] == "one\ntwo\n"
    diff = job.files["diff"].decode()
    assert "+three" in diff and "b.txt" not in diff
    assert read_tar(job.files["workspace"]) == {"a.txt": b"one\nthree\n", "deep/er/b.txt": b"two\n"}
    assert workers.leave_nothing()


def test_result_of_a_job_is_the_workspace_of_another(coordinator, workers):
    workers.start()
    first = coordinator.ended(coordinator.steps("mkdir d; echo x >d/f; ln -s d/f link; chmod 700 d/f"))
    second = coordinator.ended(coordinator.steps("cat link; stat -c %a d/f",
                                                 **on(("application/x-tar", first.files["workspace"]))))
    assert second.results[0]["text"] == "x\n700\n"
    assert "diff" not in second.files and "workspace" not in second.files


def test_members_keep_what_they_may(coordinator, workers):
    upload = tar(("run", "#!/bin/sh\necho ran\n", {"mode": 0o4755}), ("link", b"", {"type": tarfile.SYMTYPE, "linkname": "run"}),
                 ("hard", b"", {"type": tarfile.LNKTYPE, "linkname": "run"}), ("out", b"", {"type": tarfile.SYMTYPE,
                                                                                           "linkname": "/etc/passwd"}))
    workers.start()
    job = coordinator.ended(coordinator.steps("./run; ./link; cat hard | head -1; stat -c %a run; readlink out", **on(upload)))
    assert job.results[0]["text"] == "ran\nran\n#!/bin/sh\n755\n/etc/passwd\n"


HOSTILE = {
    "up": (tar(("../evil", "x")), "not a path beneath"),
    "inside": (tar(("a/../../evil", "x")), "not a path beneath"),
    "absolute": (tar(("/tmp/evil", "x")), "not a path beneath"),
    "through a link": (tar(("d", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}), ("d/evil", "x")), "no folder"),
    "hard link": (tar(("h", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})), "not a path beneath"),
    "hard link to a link": (tar(("l", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
                                ("h", b"", {"type": tarfile.LNKTYPE, "linkname": "l"})), "does not hold"),
    "device": (tar(("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})), "device"),
    "fifo": (tar(("fifo", b"", {"type": tarfile.FIFOTYPE})), "FIFO"),
    "zip up": (zipped(("../evil", "x")), "not a path beneath"),
    "bomb": (zipped(("zero", b"\0" * (100 << 20))), "more than 64 MB"),
    "tar bomb": (tar(("zero", b"\0" * (100 << 20))), "more than 64 MB"),
    "damaged": (("application/x-tar", b"not an archive at all" * 100), "cannot be read"),
    "cut": (("application/x-tar", tar(("a", "x" * 100000), compression="")[1][:50000]), "cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_fail_the_job(coordinator, workers, name):
    upload, word = HOSTILE[name]
    workers.start()
    job = coordinator.ended(coordinator.steps("true", **on(upload)))
    assert job.state == "failed" and job.finish["exit_reason"] == "error" and not job.finish["retry"]
    assert job.finish["error"].startswith("cannot prepare the workspace: ") and word in job.finish["error"]
    assert job.token == 1 and workers.leave_nothing()
    for folder in ("/tmp", workers.box.caller.home / ".local/state/hutch/worker"):
        assert not (workers.box.workspace.__class__(folder) / "evil").exists()


def test_artifacts_by_pattern(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps(
        "mkdir -p out/deep; echo 1 >out/a.log; echo 2 >'out/deep/b c.log'; echo 3 >x.txt; echo 4 >secret; ln -s secret l.txt; "
        "echo 5 >'é.txt'; echo 6 >out/.hidden; echo '*.txt' >.gitignore; ln x.txt y.txt",
        spec={"artifacts": ["*.txt", "out/**"]}))
    assert job.state == "completed", job.finish
    assert {k.removeprefix("files/"): v for k, v in job.files.items() if k.startswith("files/")} == {
        "out/a.log": b"1\n", "out/deep/b c.log": b"2\n", "x.txt": b"3\n", "y.txt": b"3\n", "é.txt": b"5\n", "out/.hidden": b"6\n"}


@pytest.mark.parametrize("command, word", [
    ("for i in $(seq 1100); do echo >f$i; done", "more than 1000"), ("truncate -s 300M big", "larger than 256 MB"),
    ("echo >$'\\xff'", "not UTF-8")])
def test_artifacts_have_limits(coordinator, workers, command, word):
    workers.start()
    job = coordinator.ended(coordinator.steps(command, spec={"artifacts": ["**"]}))
    assert job.state == "failed" and job.finish["exit_reason"] == "error" and job.token == 1
    assert "artifacts: " in job.finish["error"] and word in job.finish["error"]
    assert not job.results[0]["failed"]


def test_box_cannot_choose_what_is_an_artifact(coordinator, workers):
    """A tar of the job's own, first in its PATH, is not used; and what it makes goes nowhere but into its own files."""
    fake = ("#!/usr/bin/python3\nimport tarfile,sys,io\nt=tarfile.open(fileobj=sys.stdout.buffer,mode='w|')\n"
            "for n in ('../evil','/etc/evil','other','a.txt'):\n i=tarfile.TarInfo(n); i.size=3; t.addfile(i,io.BytesIO(b'bad'))\nt.close()\n")
    workers.start()
    job = coordinator.ended(coordinator.steps(
        {"tool": "bash", "command": "echo good >a.txt; mkdir bin; cat >bin/tar; chmod +x bin/tar", "stdin": fake},
        spec={"artifacts": ["a.txt"], "box": {"env": {"PATH": "/workspace/bin:/usr/bin:/bin"}}}))
    assert [k for k in job.files if k.startswith("files/")] in ([], ["files/a.txt"])
    assert not coordinator.wrong


def test_large_checkpoint(coordinator, workers):
    workers.start()
    job = coordinator.ended(coordinator.steps("head -c 50M /dev/urandom >f", "ls -s f", spec={"box": {"disk": "100M"}}))
    assert job.state == "completed", job.finish
    assert len(json.dumps(job.results)) < 10000
