"""Commits that are made in a box come back with apply: by a fast-forward, or to refs/hutch."""
import os
import shutil
import signal
import subprocess

import pytest

import harness
from repository import KeptBox, Repository

COMMIT = "echo 2 >f; git commit -qam two; "


def test_commit_of_a_box_fast_forwards_the_branch(repo):
    before = repo.head()
    done = repo.run(COMMIT + "git rev-parse HEAD")
    assert done.returncode == 0, done
    assert repo.head() == done.stdout.strip() != before
    assert repo.status() == ["## main"], "no phantom changes"
    assert "fast-forwarded by 1 commit" in done.stderr
    assert repo.git("log", "-1", "--format=%an <%ae>") == "Ada Lovelace <ada@example.org>"
    assert repo.aside() == {}
    assert "hutch: apply" in repo.git("reflog", "-1")
    repo.git("fsck", "--strict")


def test_uncommitted_changes_of_the_box_are_uncommitted_on_the_host(repo):
    done = repo.run(COMMIT + "echo 3 >f; echo new >g; git add g")
    assert done.returncode == 0, done
    assert repo.status() == ["## main", " M f", "?? g"]
    assert (repo.path / "f").read_text() == "3\n"


def test_commit_without_a_change_of_files_is_delivered(repo):
    repo.write("f", "mine\n")
    done = repo.run("git commit -qam 'what was there'; git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip(), done
    assert repo.status() == ["## main"]


def test_box_is_applied_twice_and_after_more_commits(repo):
    with repo.kept() as kept:
        kept.sh(COMMIT)
        assert kept.apply().returncode == 0
        first = repo.head()
        again = kept.apply()
        assert again.returncode == 0 and repo.head() == first, again
        kept.sh("echo 3 >f; git commit -qam three; echo 4 >g; git add g; git commit -qm four")
        done = kept.apply()
        assert done.returncode == 0 and "by 2 commits" in done.stderr, done
        assert repo.git("log", "--format=%s") == "four\nthree\ntwo\none"
        assert repo.status() == ["## main"] and repo.aside() == {}


def test_amended_commit_goes_to_refs_hutch(repo):
    with repo.kept() as kept:
        kept.sh(COMMIT)
        kept.apply()
        first = repo.head()
        new = kept.sh("echo 3 >f; git commit -q --amend -am better; git rev-parse HEAD").strip()
        done = kept.apply()
        assert done.returncode == 0, done
        assert repo.head() == first and repo.aside() == {"heads/main": new}
        assert f"refs/hutch/{kept.id}/heads/main" in done.stderr and "git merge refs/hutch/" in done.stderr


def test_commit_of_the_person_meanwhile_sends_the_boxs_to_refs_hutch(repo):
    with repo.kept() as kept:
        new = kept.sh(COMMIT + "git rev-parse HEAD").strip()
        mine = repo.commit("g", "mine\n", "mine")
        done = kept.apply()
        assert done.returncode == 0, done
        assert repo.head() == mine and repo.aside() == {"heads/main": new}
        repo.git("checkout", "-q", "--", "f")
        repo.git("merge", "-q", repo.aside_ref("heads/main"))
        assert (repo.path / "f").read_text() == "2\n" and (repo.path / "g").read_text() == "mine\n"


def test_staged_change_elsewhere_stays_staged(repo):
    with repo.kept() as kept:
        kept.sh(COMMIT)
        repo.write("g", "mine\n")
        repo.git("add", "g")
        assert kept.apply().returncode == 0
        assert repo.status() == ["## main", "A  g"] and repo.git("log", "-1", "--format=%s") == "two"


def test_staged_change_of_the_same_file_is_never_lost(repo):
    with repo.kept() as kept:
        new = kept.sh("echo 2 >f; git commit -qam two; echo 1 >f; git rev-parse HEAD").strip()
        before = repo.head()
        repo.write("f", "staged\n")
        repo.git("add", "f")
        repo.write("f", "1\n")
        kept.apply()
        assert repo.head() == before and repo.aside() == {"heads/main": new}
        assert repo.git("show", ":f") == "staged"


def test_index_lock_of_another_git_is_respected(repo):
    with repo.kept() as kept:
        new = kept.sh(COMMIT + "git rev-parse HEAD").strip()
        before = repo.head()
        (repo.path / ".git/index.lock").write_text("")
        done = kept.apply()
        assert repo.head() == before and repo.aside() == {"heads/main": new} and "index.lock" in done.stderr
        assert (repo.path / ".git/index.lock").read_text() == ""


def test_file_conflict_keeps_the_branch_where_it_is(repo):
    with repo.kept() as kept:
        new = kept.sh(COMMIT + "git rev-parse HEAD").strip()
        before = repo.head()
        repo.write("f", "mine\n")
        done = kept.apply()
        assert done.returncode == 1 and "conflict: f" in done.stderr, done
        assert repo.head() == before and repo.aside() == {"heads/main": new}
        assert (repo.path / "f").read_text() == "mine\n"


def test_new_branch_of_the_box_is_checked_out_on_the_host(repo):
    main = repo.head()
    done = repo.run("git checkout -qb topic/feature; " + COMMIT + "git rev-parse HEAD")
    assert done.returncode == 0, done
    assert repo.head("topic/feature") == done.stdout.strip() and repo.head("main") == main
    assert repo.status() == ["## topic/feature"]


def test_existing_branch_that_the_box_switched_to_is_checked_out(repo):
    repo.git("checkout", "-qb", "other")
    repo.commit("g", "other\n", "other")
    repo.git("checkout", "-q", "main")
    repo.commit("h", "main\n", "main goes on")
    done = repo.run("git checkout -q other; echo more >>g; git commit -qam more; git rev-parse HEAD")
    assert done.returncode == 0, done
    assert repo.status() == ["## other"] and repo.head() == done.stdout.strip()
    assert not (repo.path / "h").exists()


def test_branch_is_created_but_not_checked_out_when_the_person_committed(repo):
    with repo.kept() as kept:
        new = kept.sh("git checkout -qb feature; echo 2 >g; git add g; git commit -qm two; git rev-parse HEAD").strip()
        mine = repo.commit("h", "mine\n", "mine")
        done = kept.apply()
        assert repo.head("feature") == new and repo.head() == mine and repo.status()[0] == "## main", done
        assert "git switch feature" in done.stderr


def test_branch_of_another_worktree_does_not_move(repo):
    repo.git("branch", "side")
    beside = repo.box.caller.folder(repo.box.scratch, "side")
    repo.git("worktree", "add", "-q", str(beside / "tree"), "side")
    before = repo.head("side")
    done = repo.run("git update-ref refs/heads/side $(git commit-tree -p side -m x side^{tree}); git rev-parse side")
    assert repo.head("side") == before and repo.aside() == {"heads/side": done.stdout.strip()}, done


def test_detached_head_moves_with_the_boxs(repo):
    repo.git("checkout", "-q", "--detach")
    done = repo.run(COMMIT + "git rev-parse HEAD")
    assert repo.head() == done.stdout.strip() and repo.status() == ["## HEAD (no branch)"], done


def test_commits_of_a_head_that_is_detached_in_the_box_only_are_kept(repo):
    before = repo.head()
    done = repo.run("git checkout -q --detach; " + COMMIT + "git rev-parse HEAD")
    assert repo.head() == before and repo.aside() == {"HEAD": done.stdout.strip()}, done


def test_first_commit_of_an_empty_repository(box):
    repo = Repository(box)
    done = repo.run("echo 1 >f; git add f; git commit -qm one; git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip(), done
    assert repo.status() == ["## main"]


def test_tags_and_stashes_come_along(repo):
    repo.write("f", "stashed by me\n")
    repo.git("stash")
    done = repo.run("git tag light; git tag -a -m text heavy; echo a >f; git stash -q -m alpha; echo b >f; git stash -q -m beta")
    assert done.returncode == 0, done
    assert repo.git("cat-file", "-t", "heavy") == "tag" and repo.head("light") == repo.head()
    assert [line.split(": ", 1)[1] for line in repo.git("stash", "list").splitlines()] == [
        "On main: beta", "On main: alpha", f"WIP on main: {repo.head()[:7]} one"]
    assert repo.git("show", "stash@{0}:f") == "b"
    assert repo.status() == ["## main"]


def test_stashes_are_not_added_again_by_a_second_apply(repo):
    with repo.kept() as kept:
        kept.sh("echo a >f; git stash -q")
        kept.apply()
        kept.apply()
        assert len(repo.git("stash", "list").splitlines()) == 1


def test_shallow_repository(box):
    whole = Repository(box, box.caller.folder(box.scratch, "whole"))
    for i in range(3):
        whole.commit("f", f"old {i}\n", f"c{i}")
    repo = Repository(box, box.workspace / "shallow", init=False)
    repo.git("clone", "-q", "--depth=1", f"file://{whole.path}", ".")
    done = repo.run(COMMIT + "git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip(), done
    assert repo.status()[0].startswith("## main...origin/main [ahead 1]") and len(repo.status()) == 1
    repo.git("fsck", "--strict")


def test_sha256_repository(box):
    repo = Repository(box, init_options=["--object-format=sha256"])
    repo.commit()
    done = repo.run(COMMIT + "git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip() and len(repo.head()) == 64, done


def test_repository_with_alternates(box):
    source = Repository(box, box.workspace / "source")
    source.commit()
    repo = Repository(box, box.workspace / "copy", init=False)
    repo.git("clone", "-q", "--shared", str(source.path), ".")
    done = repo.run(COMMIT + "git rev-parse HEAD", opts=["--ro", source.path])
    assert done.returncode == 0 and repo.head() == done.stdout.strip(), done


def test_packed_refs_and_packed_objects(repo):
    for i in range(20):
        repo.git("tag", f"t{i}")
        repo.commit("f", f"{i}\n", f"c{i}")
    repo.git("gc", "-q")
    done = repo.run("git pack-refs --all; echo x >f; git commit -qam two; git gc -q; git branch b; git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip() == repo.head("b"), done
    repo.git("fsck", "--strict")


def test_sparse_checkout_stays_sparse(repo):
    repo.commit("in/a", "1\n", "a")
    repo.commit("out/b", "1\n", "b")
    repo.git("sparse-checkout", "set", "in")
    assert not (repo.path / "out").exists()
    done = repo.run("echo 2 >in/a; git commit -qam two; git rev-parse HEAD")
    assert done.returncode == 0 and repo.head() == done.stdout.strip(), done
    assert repo.status() == ["## main"] and not (repo.path / "out").exists()


def test_several_repositories_in_one_workspace(box):
    one, two = Repository(box, box.workspace / "one"), Repository(box, box.workspace / "two")
    one.commit(), two.commit()
    with KeptBox(Repository(box, init=False)) as kept:
        kept.sh(f"cd one; {COMMIT} cd ../two; {COMMIT}")
        done = kept.apply()
    assert done.returncode == 0 and "one: main: fast-forwarded" in done.stderr, done
    for repo in (one, two):
        assert repo.git("log", "-1", "--format=%s") == "two" and repo.status() == ["## main"]


def test_root_leaves_no_files_of_its_own_in_another_users_repository(make_box):
    if os.geteuid() != 0:
        pytest.skip("not root: only root can work in the repository of somebody else")
    owner, root = make_box("user"), make_box("root")
    repo = Repository(owner)
    repo.commit()
    os.chmod(owner.workspace, 0o755)
    root.workspace = owner.workspace
    done = root.run("sh", "-ec", "git config --global user.email r@x; git config --global user.name r; " + COMMIT,
                    opts=["--apply"])
    assert done.returncode == 0, done
    assert repo.git("log", "-1", "--format=%s") == "two" and repo.status() == ["## main"]
    strangers = subprocess.run(["find", repo.path, "!", "-uid", str(owner.caller.uid)], capture_output=True, text=True, check=True)
    assert strangers.stdout == ""


def path_without_git(repo):
    """A folder of programs that has what starts hutch as another user, and no git."""
    folder = repo.box.caller.folder(repo.box.scratch, "bin")
    (folder / "setpriv").symlink_to(shutil.which("setpriv"))
    return folder


def test_without_git_on_the_host_the_files_are_applied_and_the_rest_is_said(repo):
    before = repo.head()
    with repo.kept() as kept:
        kept.sh(COMMIT)
        done = kept.apply(env={"PATH": str(path_without_git(repo))})
        assert done.returncode == 0 and "git is not installed on this host" in done.stderr and "format-patch" in done.stderr, done
    assert (repo.path / "f").read_text() == "2\n" and repo.head() == before


def test_interrupt_ends_the_transfer_and_leaves_nothing_behind(repo):
    """A git that takes for ever to check the pack stands for a large one."""
    caller = repo.box.caller
    tools, temporary = caller.folder(repo.box.scratch, "bin"), caller.folder(repo.box.scratch, "tmp")
    slow = tools / "git"
    slow.write_text(f"#!/bin/sh\ncase \"$*\" in *index-pack*) touch {tools}/checks; exec sleep 600;; esac\nexec {shutil.which('git')} \"$@\"\n")
    slow.chmod(0o755)
    caller.own(slow)
    with repo.kept() as kept:
        new = kept.sh(COMMIT + "git rev-parse HEAD").strip()
        env = {**repo.box.env, "PATH": f"{tools}:{repo.box.env['PATH']}", "TMPDIR": str(temporary)}
        apply = subprocess.Popen([*caller.prefix, str(repo.box.program), "box", "apply", kept.id], env=env, stderr=subprocess.PIPE)
        harness.wait_until(lambda: (tools / "checks").exists(), 60, "git checks the pack")
        apply.send_signal(signal.SIGINT)
        said = apply.communicate(timeout=300)[1].decode()
        assert apply.returncode == 128 + signal.SIGINT and "interrupted" in said
        assert list(temporary.iterdir()) == [], "the quarantine is gone"
        assert kept.apply().returncode == 0 and repo.head() == new
