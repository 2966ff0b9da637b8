"""libhutch.so: what it exports, boxes through it, what it refuses, and how it behaves in other people's programs."""
import json
import re
import subprocess
from pathlib import Path

import pytest

import harness


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[2].split("@")[0] for line in lines.splitlines() if line.split()[1] != "A"}


def declared(header):
    return set(re.findall(r"\b(hutch_[a-z_]+)\(", header.read_text()))


def test_exports_are_what_the_header_declares(installed):
    assert exported(installed.library) == declared(installed.header)


def test_the_library_needs_little(installed):
    """Nothing of the models, the history or the terminal comes along."""
    lines = subprocess.run(["readelf", "-d", str(installed.library)], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", lines))
    wanted = {"libjansson.so.4", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert needed - {"libasan.so.8", "libubsan.so.1"} <= wanted
    assert re.search(r"SONAME.*\[libhutch\.so\.1\]", lines)


def test_pkg_config(installed):
    assert "-lhutch" in installed.pkg_config("--libs")
    assert installed.pkg_config("--modversion") == ["0.1.0"]


def test_the_header_is_c_and_cxx(installed, scratch, tmp_path):
    source = tmp_path / "alone.c"
    source.write_text('#include <hutch.h>\nint main(void) { return hutch_api_version() != HUTCH_API_VERSION; }\n')
    for compiler in (("cc", "-std=c99", "-pedantic"), ("c++", "-std=c++11", "-pedantic", "-xc++")):
        installed.compile(source, tmp_path / "alone", compiler)


def test_boxes(program, run):
    folder = run.caller.folder(run.caller.home, "ws")
    (folder / "a").write_text("old\n")
    run.caller.own(folder / "a")
    done = run(program("boxes"), folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_mistakes(program, run):
    done = run(program("mistakes"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("life", ["threads", "signals", "children", "ignored", "fork", "interrupt", "manners"])
def test_in_a_program_with_a_life_of_its_own(program, run, life):
    done = run(program("guests"), life)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_parts_are_named_when_they_are_missing(program, run):
    """$HUTCH_LIBEXEC is believed, and an installation that is not whole says so."""
    done = run(program("guests"), "ignored", HUTCH_LIBEXEC="/nowhere")
    assert done.returncode == 1
    assert "hutch-guest is missing from /nowhere; reinstall hutch" in done.stderr


def examples():
    """The programs of docs/c-api.md."""
    page = (harness.REPO / "docs" / "c-api.md").read_text()
    return re.findall(r"```c\n(.*?)```", page, re.S)


def test_the_example_of_the_manual(installed, run, tmp_path, scratch):
    source = tmp_path / "example.c"
    source.write_text(examples()[0])
    done = run(installed.compile(source, Path(scratch) / "lib-example"))
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert json.loads(lines[1])["stdout"] == "42\n"
    assert json.loads(lines[2]) == [{"path": "answer.py", "kind": "added"}]
    assert json.loads(lines[4])["stdout"] == "print(6 * 7)\n"
    assert json.loads(lines[5])["data"]["content"] == "print(6 * 7)\n"


def test_the_episode_of_the_manual(installed, run, tmp_path, scratch, tasks):
    source = tmp_path / "episode.c"
    source.write_text(examples()[1])
    done = run(installed.compile(source, Path(scratch) / "lib-episode"), HUTCH_TASKS=str(tasks))
    assert done.returncode == 0, done
    first, last = done.stdout.splitlines()
    assert "discount" in json.loads(first)["text"]
    assert last == "pass rate 1.00, return 0.9728, terminated"
