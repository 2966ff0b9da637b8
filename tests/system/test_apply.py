"""What apply and sync promise about the person's files: nothing that the box has not seen is replaced or removed, and nothing that
the person writes meanwhile is lost."""
import os
import re
import shutil
import signal
import stat
import subprocess
import threading

import pytest

import harness
from test_box import Boxes, boxes  # noqa: F401 (a fixture)


@pytest.fixture
def folder(boxes):
    return boxes.box.workspace


def put(boxes, path, text):
    """Saves a file as the person: in place if it is there."""
    boxes.box.put(path, text)


def save_by_rename(boxes, path, text):
    """Saves a file as most editors do."""
    boxes.box.put(path + ".editor", text)
    os.rename(boxes.box.workspace / (path + ".editor"), boxes.box.workspace / path)


def make_dir(boxes, path):
    where = boxes.box.workspace
    for part in path.split("/"):
        where = where / part
        if not where.exists():
            where.mkdir()
            boxes.box.caller.own(where)
    return where


def lines(*words):
    return "".join(f"{word}\n" for word in words)


def temporary(folder):
    return [path for path in folder.rglob(".hutch-*")]


# Folders that were moved.


def prepare_build_and_precious(boxes):
    make_dir(boxes, "build/sub")
    make_dir(boxes, "precious/sub")
    put(boxes, "build/out.o", "object")
    put(boxes, "build/sub/deep.o", "object")
    put(boxes, "precious/thesis.txt", "ten years of work")
    put(boxes, "precious/out.o", "not an object")
    put(boxes, "precious/sub/deep.o", "not an object")


def swap_precious_in(folder):
    shutil.rmtree(folder / "build")
    os.rename(folder / "precious", folder / "build")


def assert_precious_is_whole(folder):
    assert (folder / "build/thesis.txt").read_text() == "ten years of work"
    assert (folder / "build/out.o").read_text() == "not an object"
    assert (folder / "build/sub/deep.o").read_text() == "not an object"


@pytest.mark.parametrize("script", [
    "rm -rf build",
    "rm -rf build; mkdir build",
    "rm -rf build; mkdir -p build/sub; echo box > build/out.o",
    "echo box > build/out.o; rm build/sub/deep.o",
    "rm -rf build; echo box > build",
], ids=["deleted", "emptied", "recreated", "changed", "became-a-file"])
def test_apply_leaves_a_folder_alone_that_was_moved_into_place(boxes, folder, script):
    prepare_build_and_precious(boxes)
    one = boxes.new()
    boxes.sh(one, script)
    swap_precious_in(folder)
    done = boxes("apply", one)
    assert done.returncode == 1 and re.search("conflict: build[/:]", done.stderr), done
    assert_precious_is_whole(folder)


def test_apply_leaves_a_folder_alone_that_was_swapped_during_the_command(boxes, folder):
    prepare_build_and_precious(boxes)
    one = boxes.new()
    with boxes.start("exec", one, "--", "sh", "-c", "rm -rf build; echo ready; read go") as running:
        running.stdout.readline()
        swap_precious_in(folder)
        running.communicate(b"\n")
    boxes("apply", one)
    assert_precious_is_whole(folder)


def test_apply_leaves_what_came_into_a_folder_after_the_box_had_deleted_it(boxes, folder):
    """Later commands make the box look names up anew, but what is below a deleted folder it never sees."""
    prepare_build_and_precious(boxes)
    one = boxes.new()
    boxes.sh(one, "rm -rf build")
    os.rename(folder / "build", folder / "aside")
    os.rename(folder / "precious", folder / "aside/moved")
    put(boxes, "aside/new", "the person's")
    boxes.sh(one, "echo 1 > other")
    boxes("sync", one)
    os.rename(folder / "aside", folder / "build")
    boxes.sh(one, "echo 2 > another")
    assert boxes("apply", one).returncode == 1
    assert (folder / "build/new").read_text() == "the person's"
    assert (folder / "build/moved/thesis.txt").read_text() == "ten years of work"


def test_run_apply_leaves_a_moved_folder_alone(boxes, folder):
    prepare_build_and_precious(boxes)
    with boxes.box.start("sh", "-c", "rm -rf build; echo ready; read go", opts=["--apply"]) as running:
        running.stdout.readline()
        swap_precious_in(folder)
        running.communicate(b"\n")
    assert_precious_is_whole(folder)


def test_apply_removes_what_the_box_removed_if_nobody_touched_it(boxes, folder):
    prepare_build_and_precious(boxes)
    one = boxes.new()
    boxes.sh(one, "rm -rf build precious/sub")
    assert boxes("apply", one).returncode == 0
    assert not (folder / "build").exists() and sorted(os.listdir(folder / "precious")) == ["out.o", "thesis.txt"]


def test_apply_keeps_files_that_appeared_in_a_deleted_folder(boxes, folder):
    prepare_build_and_precious(boxes)
    one = boxes.new()
    boxes.sh(one, "rm -rf build")
    put(boxes, "build/new", "the person's")
    assert boxes("apply", one).returncode == 1
    assert (folder / "build/new").read_text() == "the person's"
    assert sorted(os.listdir(folder / "build")) == ["new"]


# What the box really saw. The overlay keeps names that it looked up.


def test_a_file_saved_by_rename_is_not_overwritten_by_what_the_box_made_of_the_old_one(boxes, folder):
    put(boxes, "a.txt", "old\n")
    one = boxes.new()
    boxes.sh(one, "cat a.txt")
    save_by_rename(boxes, "a.txt", "the person's\n")
    boxes.sh(one, "echo box >> a.txt")
    done = boxes("apply", one)
    text = (folder / "a.txt").read_text()
    assert "the person's\n" in text, done
    assert done.returncode == 1 or text == "the person's\nbox\n"


def test_neighbours_of_a_saved_file_are_no_conflict(boxes, folder):
    make_dir(boxes, "src")
    put(boxes, "src/mine.c", "1\n")
    put(boxes, "src/theirs.c", "1\n")
    one = boxes.new()
    save_by_rename(boxes, "src/mine.c", "2\n")
    boxes.sh(one, "echo 2 > src/theirs.c")
    save_by_rename(boxes, "src/mine.c", "3\n")
    assert boxes("apply", one).returncode == 0
    assert (folder / "src/theirs.c").read_text() == "2\n" and (folder / "src/mine.c").read_text() == "3\n"


# Saves during an apply.


def test_a_save_while_apply_writes_a_large_file_is_kept(boxes, folder):
    """The save happens when the temporary file has appeared, and before it is complete."""
    put(boxes, "a.txt", "old\n")
    put(boxes, "large", "old\n")
    one = boxes.new("--disk", "600M", "--memory", "1G")
    boxes.sh(one, "head -c 300000000 /dev/zero | tr '\\0' x > large; echo box > z.txt")
    running = boxes.start("apply", one)
    harness.wait_until(lambda: temporary(folder) or running.poll() is not None, what="a temporary file")
    size = temporary(folder)[0].stat().st_size if temporary(folder) else 300000000
    put(boxes, "large", "saved meanwhile\n")
    err = running.communicate()[1].decode()
    assert size < 300000000, "the apply was too fast for this test"
    assert (folder / "large").read_text() == "saved meanwhile\n"
    assert running.returncode == 1 and "conflict: large: " in err
    assert (folder / "z.txt").read_text() == "box\n"
    assert not temporary(folder)


def test_a_file_that_a_program_writes_is_left_to_it(boxes, folder):
    put(boxes, "log", "old\n")
    one = boxes.new()
    boxes.sh(one, "echo box > log")
    with subprocess.Popen([*boxes.box.caller.prefix, "sh", "-c", f"exec 3>>{folder}/log; echo open; read go; echo more >&3"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        done = boxes("apply", one)
        writer.communicate(b"\n")
    assert done.returncode == 1 and "conflict: log: another program has it open for writing" in done.stderr, done
    assert (folder / "log").read_text() == "old\nmore\n"


def test_concurrent_applies_leave_the_files_of_one_of_them(boxes, folder):
    """Two boxes change the same files. One wins each file whole, and the other reports it."""
    names = [f"f{i}" for i in range(40)]
    for name in names:
        put(boxes, name, "base\n")
    one, two = boxes.new(), boxes.new()
    for box, word in ((one, "one"), (two, "two")):
        boxes.sh(box, f"for f in {' '.join(names)}; do echo {word} > $f; done")
    results = {}

    def apply(box):
        results[box] = boxes("apply", box)

    threads = [threading.Thread(target=apply, args=(box,)) for box in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = {(folder / name).read_text() for name in names}
    assert len(texts) == 1 and texts <= {"one\n", "two\n"}, "the applies were mixed"
    winner, loser = (one, two) if texts == {"one\n"} else (two, one)
    assert results[winner].returncode == 0 and results[loser].returncode == 1
    assert results[loser].stderr.count("conflict: f") == len(names)


def test_an_empty_folder_in_the_place_of_a_file_is_a_conflict(boxes, folder):
    put(boxes, "a", "old")
    one = boxes.new()
    boxes.sh(one, "echo box > a")
    os.unlink(folder / "a")
    make_dir(boxes, "a")
    assert boxes("apply", one).returncode == 1
    assert (folder / "a").is_dir()


# Merging.


def prepare_merge(boxes, mine, theirs, base=lines(1, 2, 3, 4, 5)):
    put(boxes, "a.txt", base)
    one = boxes.new()
    boxes.sh(one, f"cat > a.txt <<'END'\n{theirs}END")
    save_by_rename(boxes, "a.txt", mine)
    return one


def test_changes_of_different_lines_are_merged(boxes, folder):
    one = prepare_merge(boxes, lines("one", 2, 3, 4, 5), lines(1, 2, 3, 4, "five"))
    done = boxes("apply", one)
    assert (done.returncode, done.stderr) == (0, "hutch: merged: a.txt (your changes and the box's)\nhutch: applied 1 change\n")
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, "five")
    assert boxes.sh(one, "cat a.txt") == lines("one", 2, 3, 4, "five")
    assert boxes.ok("diff", one) == ""
    boxes.sh(one, "echo six >> a.txt")
    assert boxes("apply", one).returncode == 0
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, "five", "six")


def test_changes_of_the_same_line_are_a_conflict_with_a_choice(boxes, folder):
    one = prepare_merge(boxes, lines(1, 2, "mine", 4, 5), lines(1, 2, "theirs", 4, 5))
    done = boxes("apply", one)
    assert done.returncode == 1 and done.stderr.splitlines() == [
        "hutch: conflict: a.txt: it changed in your folder since the box read it",
        f"hutch: choose with 'hutch box apply {one} --on-conflict mine|theirs|markers [PATH...]'",
        "hutch: applied 0 changes; 1 not applied"]
    assert (folder / "a.txt").read_text() == lines(1, 2, "mine", 4, 5)


@pytest.mark.parametrize("choice, expected", [
    ("mine", lines(1, 2, "mine", 4, 5)),
    ("theirs", lines(1, 2, "theirs", 4, 5)),
    ("markers", lines(1, 2, "<<<<<<< folder", "mine", "=======", "theirs", ">>>>>>> box", 4, 5)),
])
def test_a_choice_settles_a_conflict_in_the_folder_and_in_the_box(boxes, folder, choice, expected):
    one = prepare_merge(boxes, lines(1, 2, "mine", 4, 5), lines(1, 2, "theirs", 4, 5))
    done = boxes("apply", one, "--on-conflict", choice, "./a.txt")
    assert done.returncode == 0, done
    assert (folder / "a.txt").read_text() == expected
    assert boxes.sh(one, "cat a.txt") == expected
    assert boxes.ok("diff", one) == ""
    assert boxes("apply", one).returncode == 0


def test_a_choice_for_one_path_leaves_the_others(boxes, folder):
    for name in ("a", "b"):
        put(boxes, name, "base\n")
    one = boxes.new()
    boxes.sh(one, "echo theirs > a; echo theirs > b")
    for name in ("a", "b"):
        put(boxes, name, "mine\n")
    assert boxes("apply", one, "--on-conflict", "theirs", "a").returncode == 0
    assert (folder / "a").read_text() == "theirs\n" and (folder / "b").read_text() == "mine\n"


def test_a_deletion_against_a_change_is_settled_by_choice(boxes, folder):
    for name in ("box-deletes", "box-deletes-2", "i-delete", "i-delete-2"):
        put(boxes, name, "base\n")
    one = boxes.new()
    boxes.sh(one, "rm box-deletes box-deletes-2; echo box > i-delete; echo box > i-delete-2")
    for name in ("box-deletes", "box-deletes-2"):
        put(boxes, name, "mine\n")
    for name in ("i-delete", "i-delete-2"):
        os.unlink(folder / name)
    assert boxes("apply", one).returncode == 1
    assert (folder / "box-deletes").read_text() == "mine\n" and not (folder / "i-delete").exists()
    assert boxes("apply", one, "--on-conflict", "mine", "box-deletes", "i-delete").returncode == 0
    assert boxes.sh(one, "cat box-deletes; ls") == "mine\nbox-deletes\ni-delete-2\n"
    assert boxes("apply", one, "--on-conflict", "theirs").returncode == 0
    assert sorted(os.listdir(folder)) == ["box-deletes", "i-delete-2"]


def test_a_wrong_choice_or_path_is_a_usage_error(boxes):
    one = boxes.new()
    for args, words in ((["--on-conflict", "ours"], "must be mine, theirs or markers, not 'ours'"),
                        (["/etc/passwd"], "is not a path relative to the box's folder"), (["../x"], "is not a path relative")):
        done = boxes("apply", one, *args)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done


# Modes, links, holes, leftovers.


def test_modes_of_folders_survive(boxes, folder):
    make_dir(boxes, "existing").chmod(0o755)
    one = boxes.new()
    boxes.sh(one, "umask 0; mkdir -m 700 private; echo x > private/key; mkdir -m 555 closed; chmod 711 existing; "
                  "chmod 755 closed; echo y > closed/file; chmod 555 closed")
    assert boxes("apply", one).returncode == 0
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("private", "closed", "existing")] == [0o700, 0o555, 0o711]
    (folder / "closed").chmod(0o755)


def test_a_mode_of_a_folder_that_both_changed_is_a_conflict(boxes, folder):
    make_dir(boxes, "d").chmod(0o755)
    one = boxes.new()
    boxes.sh(one, "chmod 711 d")
    (folder / "d").chmod(0o700)
    assert boxes("apply", one).returncode == 1
    assert stat.S_IMODE((folder / "d").stat().st_mode) == 0o700


def test_hard_links_are_links_and_do_not_multiply(boxes, folder):
    one = boxes.new("--disk", "64M")
    boxes.sh(one, "head -c 20000000 /dev/zero | tr '\\0' x > a; for i in 1 2 3 4 5 6 7 8; do ln a a$i; done")
    assert boxes("apply", one).returncode == 0
    assert (folder / "a").stat().st_nlink == 9 and (folder / "a8").stat().st_ino == (folder / "a").stat().st_ino


def test_a_sparse_file_stays_sparse(boxes, folder):
    one = boxes.new("--disk", "64M")
    boxes.sh(one, "truncate -s 1T huge; echo end | dd of=huge bs=1 seek=1000000000000 conv=notrunc 2>/dev/null")
    assert boxes("apply", one).returncode == 0
    assert (folder / "huge").stat().st_size == 2 ** 40 and (folder / "huge").stat().st_blocks < 4096
    with open(folder / "huge", "rb") as file:
        file.seek(1000000000000)
        assert file.read(4) == b"end\n"


def test_the_next_apply_removes_what_a_killed_one_left(boxes, folder):
    put(boxes, ".hutch-abcdefghijkl", "a file of the person that looks like ours")
    script = "head -c 400000000 /dev/zero | tr '\\0' x > large"
    with boxes.box.start("sh", "-c", script, opts=["--apply", "--disk", "600M", "--memory", "1G"], env=boxes.env) as running:
        ours = lambda: [p for p in temporary(folder) if p.name != ".hutch-abcdefghijkl"]  # noqa: E731
        harness.wait_until(lambda: ours() or running.poll() is not None, seconds=120, what="a temporary file")
        running.send_signal(signal.SIGKILL)
    assert len(ours()) == 1 and not (folder / "large").exists()
    done = boxes.box.run("sh", "-c", "echo x > new", opts=["--apply"], env=boxes.env)
    assert done.returncode == 0 and not ours(), done
    assert (folder / ".hutch-abcdefghijkl").exists()


# A folder that was removed and created again.


def test_a_replaced_folder_is_reported_and_the_changes_stay_reachable(boxes, folder):
    put(boxes, "a.txt", lines(1, 2, 3))
    one = boxes.new()
    boxes.sh(one, "echo 4 >> a.txt; echo new > new.txt")
    shutil.rmtree(folder)
    folder.mkdir()
    boxes.box.caller.own(folder)
    put(boxes, "a.txt", lines(0, 1, 2, 3))
    failed = boxes.fails("apply", one)
    assert failed.startswith(f"the folder {folder} was replaced since the box started"), failed
    assert "hutch box diff" in failed and "--new-folder" in failed
    assert sorted(os.listdir(folder)) == ["a.txt"]
    assert "+new" in boxes.ok("diff", one)
    done = boxes("apply", "--new-folder", one)
    assert done.returncode == 0, done
    assert (folder / "new.txt").read_text() == "new\n"
    assert (folder / "a.txt").read_text() == lines(0, 1, 2, 3, 4)


def test_a_removed_folder_is_reported(boxes, folder):
    one = boxes.new()
    boxes.sh(one, "echo new > new.txt")
    os.rename(folder, str(folder) + ".moved")
    assert "was removed or moved since the box started" in boxes.fails("apply", one)
    assert "+new" in boxes.ok("diff", one)
    os.rename(str(folder) + ".moved", folder)
    assert boxes("apply", one).returncode == 0


# Sync.


def test_sync_shows_saved_new_and_deleted_files(boxes, folder):
    """The overlay would show the old state of names that were looked up before."""
    for name in ("in-place", "renamed", "deleted"):
        put(boxes, name, "old\n")
    one = boxes.new()
    boxes.sh(one, "cat in-place renamed deleted; cat new; true")
    put(boxes, "in-place", "saved\n")
    save_by_rename(boxes, "renamed", "saved\n")
    os.unlink(folder / "deleted")
    put(boxes, "new", "saved\n")
    assert boxes("sync", one).returncode == 0
    assert boxes.sh(one, "cat in-place renamed new; ls") == "saved\n" * 3 + lines("in-place", "new", "renamed")
    assert boxes.ok("diff", one) == ""


def test_sync_merges_into_the_box(boxes, folder):
    one = prepare_merge(boxes, lines("one", 2, 3, 4, 5), lines(1, 2, 3, 4, "five"))
    done = boxes("sync", one)
    assert done.returncode == 0 and "merged: a.txt (your changes and the box's)" in done.stderr, done
    assert boxes.sh(one, "cat a.txt") == lines("one", 2, 3, 4, "five")
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, 5)
    assert boxes("apply", one).returncode == 0
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, "five")


@pytest.mark.parametrize("choice, in_box", [("mine", "mine"), ("theirs", "theirs")])
def test_sync_settles_a_conflict_by_choice(boxes, folder, choice, in_box):
    one = prepare_merge(boxes, lines(1, 2, "mine", 4, 5), lines(1, 2, "theirs", 4, 5))
    assert boxes("sync", one).returncode == 1
    assert boxes.sh(one, "cat a.txt") == lines(1, 2, "theirs", 4, 5)
    assert boxes("sync", one, "--on-conflict", choice).returncode == 0
    assert boxes.sh(one, "cat a.txt") == lines(1, 2, in_box, 4, 5)
    assert (folder / "a.txt").read_text() == lines(1, 2, "mine", 4, 5)
    assert boxes("apply", one).returncode == 0
    assert (folder / "a.txt").read_text() == lines(1, 2, in_box, 4, 5)


def test_sync_brings_the_persons_version_of_a_file_that_the_box_only_opened(boxes, folder):
    put(boxes, "a", "old\n")
    put(boxes, "b", "old\n")
    one = boxes.new()
    boxes.sh(one, "touch a b")
    save_by_rename(boxes, "a", "saved\n")
    os.unlink(folder / "b")
    assert boxes("sync", one).returncode == 0
    assert boxes.sh(one, "cat a; ls") == lines("saved", "a")
    assert boxes.ok("diff", one) == ""


# Forks.


def test_a_fork_knows_what_its_parent_saw(boxes, folder):
    put(boxes, "a.txt", lines(1, 2, 3, 4, 5))
    one = boxes.new()
    boxes.sh(one, "sed -i s/5/five/ a.txt")
    two = boxes.ok("fork", one).strip()
    save_by_rename(boxes, "a.txt", lines("one", 2, 3, 4, 5))
    done = boxes("apply", two)
    assert done.returncode == 0 and "merged: a.txt" in done.stderr, done
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, "five")
    assert boxes("apply", one).returncode == 0
    assert (folder / "a.txt").read_text() == lines("one", 2, 3, 4, "five")


def test_run_apply_merges_nothing_it_has_no_base_for(boxes, folder):
    """`hutch run` records what the box saw when the command has ended: what changed during it is a conflict."""
    put(boxes, "a.txt", lines(1, 2, 3))
    with boxes.box.start("sh", "-c", "echo 4 >> a.txt; echo ready; read go", opts=["--apply"]) as running:
        running.stdout.readline()
        save_by_rename(boxes, "a.txt", lines(0, 1, 2, 3))
        err = running.communicate(b"\n")[1].decode()
    assert running.returncode == 1 and "conflict: a.txt: it changed in your folder since the box read it" in err
    assert (folder / "a.txt").read_text() == lines(0, 1, 2, 3)
