"""Folders of a group: the files of a project that belongs to another of the user's groups, or to several owners."""
import os

import pytest

import harness

GROUP, FOREIGN = 54321, 54322  # of no /etc/group, as those of a directory service


@pytest.fixture
def member(make_box):
    """An ordinary user's box; the user is a member of GROUP beside their own group."""
    if os.geteuid() != 0:
        pytest.skip("only root can put a user into a group")
    box = make_box("user")
    caller = harness.Caller("user", box.caller.uid, box.caller.gid, box.scratch)
    caller.home = box.caller.home
    caller.prefix = [word if word != "--clear-groups" else f"--groups={caller.gid},{GROUP}" for word in caller.prefix]
    box.caller = caller
    return box


def put(box, name, gid, mode=0o664, uid=None):
    path = box.workspace / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("old\n")
    for each in {path, path.parent} - {box.workspace}:
        os.chown(each, box.caller.uid if uid is None else uid, gid)
    path.chmod(mode)
    return path


def give_folder(box, gid, mode=0o775):
    os.chown(box.workspace, box.caller.uid, gid)
    box.workspace.chmod(mode)


EDIT = "echo new >>a && mv a b && mkdir sub/more && echo made >sub/more/c && git init -q repo && stat -c %g b sub/more"


def test_files_of_a_group_of_the_user_can_be_changed(member):
    give_folder(member, GROUP)
    put(member, "a", GROUP)
    put(member, "sub/x", GROUP)
    done = member.run("sh", "-c", EDIT)
    assert (done.stdout, done.stderr, done.returncode) == ("1000\n1000\n", "", 0), done


def test_apply_keeps_the_group(member):
    """Of a file that is replaced, of a set-group-id folder, and of the folder for what is new."""
    give_folder(member, GROUP)
    replaced = put(member, "replaced", GROUP)
    put(member, "shared/x", GROUP)
    (member.workspace / "shared").chmod(0o2775)
    script = "echo new >>replaced; echo new >added; echo new >shared/added; mkdir shared/deep; ln -s x link"
    done = member.run("sh", "-c", script, opts=["--apply"])
    assert done.returncode == 0, done
    for name, gid in (("replaced", GROUP), ("added", GROUP), ("link", GROUP), ("shared/added", GROUP), ("shared/deep", GROUP)):
        assert os.lstat(member.workspace / name).st_gid == gid, name
    assert replaced.read_text() == "old\nnew\n"
    assert (member.workspace / "shared/deep").stat().st_mode & 0o2000


def test_new_files_of_direct_mode_have_the_folders_group(member):
    give_folder(member, GROUP)
    done = member.run("sh", "-c", "echo x >new", opts=["--mode", "direct"])
    assert done.returncode == 0 and (member.workspace / "new").stat().st_gid == GROUP, done


def test_forks_and_tools_have_the_group(member):
    give_folder(member, GROUP)
    put(member, "a", GROUP)
    name = member.hutch("box", "new", "-w", member.workspace).stdout.split()[0]
    copy = member.hutch("box", "fork", name).stdout.split()[0]
    try:
        for box in (name, copy):
            done = member.hutch("box", "exec", box, "--", "sh", "-c", "echo new >>a && stat -c %g a")
            assert done.stdout == "1000\n", done
    finally:
        member.hutch("box", "rm", name, copy)


def test_without_new_privileges_the_box_starts_and_says_what_it_cannot(member):
    give_folder(member, GROUP)
    put(member, "a", GROUP)
    member.caller.prefix.insert(1, "--no-new-privs")
    done = member.run("sh", "-c", "echo x >mine && cat a")
    assert done.stdout == "old\n" and done.returncode == 0, done
    assert f"files of the group {GROUP}" in done.stderr and f"sg {GROUP} -c" in done.stderr, done
    assert done.stderr.count("\n") == 1


def test_a_group_of_others_is_named_with_the_remedy(make_box):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to a group of others")
    box = make_box("user")
    give_folder(box, FOREIGN)
    put(box, "a", FOREIGN)
    put(box, "sub/a", FOREIGN)
    done = box.run("cat", "a")
    assert done.stdout == "old\n" and done.stderr.count("\n") == 1, done
    assert f"files of the group {FOREIGN}, since you are not a member" in done.stderr and "chgrp" in done.stderr, done
    said = box.hutch("tool", "-w", box.workspace, "write_file", '{"path": "sub/a", "content": "x"}')
    assert "chgrp" in said.stdout + said.stderr, said


def test_a_folder_of_ones_own_group_needs_no_words(box):
    assert box.run("true").stderr == ""


OWNERS = [(0, 0), (1000, 1000), (33, 33), (33, 1000), (33, 0), (1000, 33), (70000, 5), (33, 70000)]


@pytest.mark.parametrize("disk", ["1G", "3G"], ids=["memory", "disk"])
def test_root_changes_files_of_all_owners(make_box, disk):
    """The folder is one user's and holds files of others, who let everybody write: all keep their owners."""
    box = make_box("root")
    os.chown(box.workspace, 33, 33)
    for uid, gid in OWNERS:
        put(box, f"{uid}-{gid}", gid, 0o666, uid)
    shared = box.workspace / "shared"
    shared.mkdir()
    os.chown(shared, 33, FOREIGN)
    shared.chmod(0o2777)
    script = "for f in *-*; do echo new >>$f && mv $f tmp && mv tmp $f; done; echo x >made; mkdir shared/deep; echo x >shared/deep/x"
    done = box.run("sh", "-c", script, opts=["--apply", "--disk", disk])
    assert done.returncode == 0, done
    assert shared.stat().st_mode & 0o7777 == 0o2777
    assert [path.stat().st_gid for path in (shared, shared / "deep", shared / "deep/x")] == [FOREIGN] * 3
    assert (shared / "deep").stat().st_mode & 0o2000
    for uid, gid in [*OWNERS]:
        st = (box.workspace / f"{uid}-{gid}").stat()
        assert (st.st_uid, st.st_gid, st.st_size) == (uid, gid, 8), (uid, gid, st)
    made = (box.workspace / "made").stat()
    assert (made.st_uid, made.st_gid) == (33, 33)


def test_root_gives_the_box_no_rights_over_files_of_others(make_box):
    box = make_box("root")
    os.chown(box.workspace, 33, 33)
    put(box, "secret", 0, 0o600, 0)
    put(box, "readable", 0, 0o644, 0)
    for mode in ("cow", "direct"):
        done = box.run("sh", "-c", "cat secret; echo x >>readable; chmod 777 readable; chown 1000 readable; cat readable",
                       opts=["--mode", mode])
        assert done.stdout == "old\n", done
    assert (box.workspace / "readable").read_text() == "old\n"
