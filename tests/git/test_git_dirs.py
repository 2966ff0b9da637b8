"""A folder that is a git directory under another name would make git on the host run programs: it is not applied unasked."""
import pytest

BARE = "mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; echo x >docs/README; "


def trapped(repo):
    trap = repo.path.parent / f"fired-{repo.path.name}"
    return trap, f"printf '[core]\\n\\tfsmonitor = touch {trap}; true\\n\\tbare = false\\n\\tworktree = .\\n' >docs/config; "


def test_bare_repository_of_a_box_is_not_applied(repo):
    trap, config = trapped(repo)
    done = repo.run(BARE + config)
    assert done.returncode == 1 and "docs/config" in done.stderr and "--allow-git-dirs" in done.stderr, done
    assert (repo.path / "docs/README").exists() and not (repo.path / "docs/config").exists()
    repo.git("-C", "docs", "status", check=False)
    assert not trap.exists(), "BREACH git on the host ran what the box wrote"


def test_it_is_applied_when_the_person_allows_it(repo):
    done = repo.run(BARE + "echo >docs/config", opts=["--allow-git-dirs"])
    assert done.returncode == 0 and (repo.path / "docs/config").exists() and (repo.path / "docs/HEAD").exists(), done


def test_parts_that_come_in_several_applies_are_found(repo):
    trap, config = trapped(repo)
    with repo.kept() as kept:
        kept.sh("mkdir docs; echo 'ref: refs/heads/main' >docs/HEAD")
        assert kept.apply().returncode == 0
        kept.sh("mkdir -p docs/objects; echo x >docs/objects/x")
        assert kept.apply().returncode == 0
        kept.sh(config + "mkdir docs/refs; echo x >docs/refs/x")
        done = kept.apply()
        assert done.returncode == 1 and not (repo.path / "docs/refs").exists() and not (repo.path / "docs/config").exists(), done
        done = kept.apply("--allow-git-dirs")
        assert done.returncode == 0 and (repo.path / "docs/refs/x").exists(), done


def test_config_of_a_git_directory_that_is_there_is_not_changed(repo):
    repo.git("init", "-q", "--bare", "fixture.git")
    before = (repo.path / "fixture.git/config").read_text()
    done = repo.run("printf '[core]\\n\\tfsmonitor = x\\n' >>fixture.git/config; echo x >fixture.git/hooks/post-update")
    assert done.returncode == 1 and (repo.path / "fixture.git/config").read_text() == before, done
    assert not (repo.path / "fixture.git/hooks/post-update").exists()


@pytest.mark.parametrize("script", [
    "echo 'gitdir: /workspace/evil' >sub/.git", "ln -s ../evil sub/.git", "mkdir sub/.GIT; echo >sub/.GIT/config",
    "mkdir 'sub/git~1'; echo >'sub/git~1/config'"])
def test_git_file_and_other_spellings_are_not_applied(repo, script):
    done = repo.run(f"mkdir sub evil; echo x >sub/x; echo x >evil/x; {script}")
    assert done.returncode == 1 and "not applied: sub/" in done.stderr, done
    assert [p.name for p in (repo.path / "sub").iterdir()] == ["x"]
