"""--ro and --rw with regular files of the host."""
import os
import socket

import pytest



def shared_file(box, data="from the host\n", mode=0o644):
    folder = box.caller.folder(box.scratch, "share")
    path = folder / "settings.txt"
    path.write_text(data)
    path.chmod(mode)
    (folder / "sibling.txt").write_text("not shared\n")
    return box.caller.own(path)


def new_box(box, *options):
    done = box.hutch("box", "new", "-w", box.workspace, *options)
    assert done.returncode == 0, done
    return done.stdout.strip()


def test_file_is_shown_read_only_at_its_own_path_without_its_neighbours(box):
    path = shared_file(box)
    done = box.run("sh", "-c", f"cat {path}; ls {path.parent}; echo new >>{path}", opts=["--ro", path])
    assert done.stdout == "from the host\nsettings.txt\n"
    assert "Read-only file system" in done.stderr or "Permission denied" in done.stderr, done
    assert path.read_text() == "from the host\n"


def test_file_is_shown_at_another_path(box):
    path = shared_file(box)
    assert box.run("cat", "/srv/app/config", opts=["--ro", f"{path}:/srv/app/config"]).stdout == "from the host\n"


def test_writable_file_is_written_through(box):
    path = shared_file(box)
    done = box.run("sh", "-c", f"echo more >>{path}", opts=["--rw", path])
    assert done.returncode == 0, done
    assert path.read_text() == "from the host\nmore\n"


def test_forks_and_restored_boxes_show_the_file(box):
    path = shared_file(box)
    first = new_box(box, "--ro", f"{path}:/srv/config")
    try:
        snapshot = box.hutch("box", "snapshot", first).stdout.strip()
        fork = box.hutch("box", "fork", first).stdout.strip()
        assert box.hutch("box", "exec", fork, "cat", "/srv/config").stdout == "from the host\n"
        assert box.hutch("box", "restore", first, snapshot).returncode == 0
        assert box.hutch("box", "exec", first, "cat", "/srv/config").stdout == "from the host\n"
        assert box.hutch("box", "rm", fork).returncode == 0
    finally:
        box.hutch("box", "rm", first)


@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_what_is_no_regular_file_is_refused(box, option):
    folder = box.caller.folder(box.scratch, "odd")
    os.mkfifo(folder / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket"))
    os.symlink(folder / "socket", folder / "link")
    for name in ("fifo", "socket", "link"):
        box.caller.own(folder / name)
        done = box.hutch("run", "-w", box.workspace, option, f"{folder / name}:/x", "true")
        assert (done.returncode, done.stdout) == (125, ""), done
        assert "it is neither a folder nor a regular file" in done.stderr and done.stderr.count("\n") == 1
    server.close()
    done = box.hutch("run", "-w", box.workspace, option, "/dev/null:/x", "true")
    assert done.returncode == 125 and "neither a folder nor a regular file" in done.stderr


@pytest.mark.parametrize("name", ["/proc/version", "/proc/self/environ", "/sys/kernel/notes"])
def test_files_of_the_kernel_are_refused(box, name):
    if not os.path.exists(name):
        pytest.skip(f"this host has no {name}")
    done = box.hutch("run", "-w", box.workspace, "--ro", f"{name}:/x", "true")
    assert done.returncode == 125 and "it belongs to the kernel" in done.stderr, done


def test_missing_file_is_named(box):
    done = box.hutch("run", "-w", box.workspace, "--ro", "/nonexistent/file", "true")
    assert done.returncode == 125 and "/nonexistent/file" in done.stderr and "No such file" in done.stderr
