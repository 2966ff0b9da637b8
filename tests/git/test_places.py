"""Workspaces that are not the plain top of a plain repository: linked worktrees, submodules, their insides."""
from pathlib import Path

from repository import Repository

COMMIT = "echo 2 >f; git commit -qam two; "


def linked(repo):
    """A linked worktree of a repository, beside it."""
    path = repo.box.caller.folder(repo.box.scratch, "linked") / "tree"
    repo.git("worktree", "add", "-q", "-b", "side", str(path))
    return Repository(repo.box, path, init=False)


def with_submodule(repo):
    """A repository that has another one at `sub`; both are returned."""
    other = Repository(repo.box, repo.box.caller.folder(repo.box.scratch, "other"))
    other.commit("s", "1\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.path), "sub")
    repo.git("commit", "-q", "-m", "with sub")
    return repo, Repository(repo.box, repo.path / "sub", init=False)


def test_commit_in_a_linked_worktree(repo):
    tree = linked(repo)
    main = repo.head()
    done = tree.run("git status --porcelain --branch; " + COMMIT + "git log --oneline | wc -l; git rev-parse HEAD")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[:2] == ["## side", "2"] and tree.head() == done.stdout.splitlines()[2]
    assert tree.status() == ["## side"] and repo.status() == ["## main"] and repo.head() == main
    assert tree.git("log", "-1", "--format=%an") == "Ada Lovelace"
    repo.git("fsck", "--strict")


def test_linked_worktree_without_commits_is_left_alone(repo):
    tree = linked(repo)
    before = (tree.path / ".git").read_text()
    done = tree.run("git status; echo 2 >f")
    assert done.returncode == 0 and done.stderr == "hutch: applied 1 change\n", done
    assert (tree.path / ".git").read_text() == before and tree.status() == ["## side", " M f"]


def test_branches_and_stashes_of_a_linked_worktree(repo):
    tree = linked(repo)
    with tree.kept() as kept:
        kept.sh("git checkout -qb topic; " + COMMIT + "echo 3 >f; git stash -q; git tag here")
        assert kept.apply().returncode == 0
        assert tree.status() == ["## topic"] and tree.git("show", "stash@{0}:f") == "3"
        kept.sh("echo 4 >f; git commit -qam four")
        assert kept.apply().returncode == 0 and tree.git("log", "-1", "--format=%s") == "four"
    assert repo.git("rev-parse", "here") == tree.git("rev-parse", "topic~1")


def test_fork_of_a_box_keeps_the_repository_of_a_linked_worktree(repo):
    tree = linked(repo)
    with tree.kept() as kept:
        kept.sh(COMMIT)
        fork = repo.box.hutch("box", "fork", kept.id).stdout.strip()
        try:
            done = repo.box.hutch("box", "exec", fork, "--", "git", "log", "-1", "--format=%s")
            assert done.stdout == "two\n", done
        finally:
            repo.box.hutch("box", "rm", fork)


def test_credentials_of_the_common_repository_do_not_enter_the_box(repo):
    tree = linked(repo)
    repo.git("config", "remote.origin.url", "https://user:s3cret-token@example.org/x.git")
    repo.git("config", "http.extraHeader", "Authorization: s3cret-token")
    done = tree.run("git config --list; cat ~/.hutch-git/config; grep -rs s3cret-token ~ /run /workspace && exit 7 || true")
    assert done.returncode == 0 and "s3cret" not in done.stdout, "BREACH a credential of the host is in the box"


def test_commit_in_a_submodule_and_in_its_superproject(repo):
    top, sub = with_submodule(repo)
    done = top.run("cd sub; echo 2 >s; git commit -qam inner; cd ..; git commit -qam outer; git -C sub rev-parse HEAD")
    assert done.returncode == 0, done
    assert sub.head() == done.stdout.strip() and top.git("log", "-1", "--format=%s") == "outer"
    assert top.status() == ["## main"] and len(sub.status()) == 1
    assert top.git("ls-tree", "HEAD", "sub").split()[2] == sub.head()


def test_work_inside_of_a_submodule(repo):
    _, sub = with_submodule(repo)
    sub.git("checkout", "-qb", "work")
    done = sub.run("echo 2 >s; git commit -qam inner; git rev-parse HEAD")
    assert done.returncode == 0 and sub.head() == done.stdout.strip() and sub.status() == ["## work"], done


def test_files_of_another_user_do_not_stop_git_in_the_box(make_box):
    """safe.directory: the folder appears as somebody else's to git in the box."""
    box = make_box("user")
    repo = Repository(box)
    repo.commit()
    done = repo.run("git status --porcelain --branch")
    assert done.returncode == 0 and done.stdout == "## main\n", done
    assert box.run("git", "config", "--system", "safe.directory").stdout == "*\n"


def test_identity_of_the_repository_wins_over_the_persons(repo):
    repo.git("config", "user.email", "work@example.org")
    done = repo.run("git config --system user.email; git config user.email")
    assert done.stdout == "work@example.org\nwork@example.org\n", done


def test_identity_comes_from_a_conditional_include(repo):
    home = repo.box.caller.home
    extra = home / "work.inc"
    extra.write_text('[user]\n\temail = include@example.org\n\tname = Quote \\"d\\" \\\\ back\n')
    repo.box.caller.own(extra)
    with (home / ".gitconfig").open("a") as config:
        config.write(f"[includeIf \"gitdir:{repo.path}/\"]\n\tpath = {extra}\n")
    done = repo.run("git config user.email; git config user.name")
    assert done.stdout == 'include@example.org\nQuote "d" \\ back\n', done


def test_credentials_of_the_person_do_not_enter_the_box(repo):
    home = repo.box.caller.home
    with (home / ".gitconfig").open("a") as config:
        config.write("[credential]\n\thelper = store\n[url \"https://t0ken@example.org/\"]\n\tinsteadOf = ex:\n"
                     "[http]\n\textraHeader = X: t0ken\n")
    done = repo.run("git config --list --show-origin")
    assert "t0ken" not in done.stdout and "credential" not in done.stdout, "BREACH a credential of the host is in the box"
    assert Path(home, ".gitconfig").exists()


def test_credentials_of_the_repository_do_not_enter_the_box(repo):
    repo.git("config", "remote.origin.url", "https://user:s3cret-token@example.org/x.git")
    repo.git("config", "remote.work.url", "git@example.org:y.git")
    repo.git("config", "http.https://example.org/.extraHeader", "Authorization: basic s3cret-token")
    repo.git("config", "credential.helper", "!echo password=s3cret-token")
    with repo.kept() as kept:
        seen = kept.sh("git remote -v; git config --list; cat .git/config; git status -s")
        assert "s3cret" not in seen, "BREACH a credential of the host is in the box"
        assert "https://example.org/x.git" in seen and "git@example.org:y.git" in seen
        kept.sh("rm .git/config; git init -q; " + COMMIT)
        assert "s3cret" not in kept.sh("cat .git/config; rm -rf .git/config; ls .git"), "BREACH"
        repo.box.hutch("box", "restore", kept.id, "s0")
        assert "s3cret" not in kept.sh("cat .git/config"), "BREACH a credential of the host is in a restored box"
        done = kept.sh(COMMIT) or kept.apply()
        assert done.returncode == 0 and "configuration" not in done.stderr, done
    assert "s3cret-token" in (repo.path / ".git/config").read_text() and repo.git("log", "-1", "--format=%s") == "two"
