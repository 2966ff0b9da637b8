"""What git writes for itself in a box is no change of the person's files: nobody hears of it."""


def test_refreshed_index_is_no_change(repo):
    repo.write("f", "1\n")
    done = repo.run("touch f; git status -s; git add -A; git diff")
    assert done.returncode == 0, done
    assert done.stderr == "hutch: nothing to apply\n"


def test_files_of_git_are_no_changes_in_a_result(repo):
    result = repo.box.json("sh", "-ec", "echo 2 >f; git commit -qam two")
    assert result["changes"] == [{"path": "f", "kind": "modified"}]


def test_files_of_git_are_in_no_diff(repo):
    with repo.kept() as kept:
        kept.sh("echo 2 >f; git commit -qam two; git config x.y z")
        assert ".git/" not in repo.box.hutch("box", "diff", kept.id).stdout
        assert ".git/" not in repo.box.hutch("box", "diff", "--stat", kept.id).stdout


def test_hooks_and_configuration_are_one_line_and_no_failure(repo):
    done = repo.run("echo '#!/bin/sh' >.git/hooks/pre-commit; echo >.git/hooks/post-merge; git config core.pager 'touch /tmp/x'; "
                    "echo 2 >g")
    assert done.returncode == 0, done
    lines = done.stderr.splitlines()
    assert [line for line in lines if "hooks and configuration" in line] and len(lines) == 2, done
    assert not (repo.path / ".git/hooks/pre-commit").exists() and repo.git("config", "core.pager", check=False).stdout == ""


def test_removed_git_folder_leaves_the_persons_alone(repo):
    before = repo.head()
    done = repo.run("rm -rf .git; echo 2 >f")
    assert repo.head() == before and repo.status() == ["## main", " M f"], done
    assert len(done.stderr.splitlines()) <= 3, done
