"""What a hostile repository in a box can do to the person's: nothing that the person did not allow."""
import subprocess

import pytest

from repository import Repository

COMMIT = "echo 2 >f; git commit -qam two; "
# Loose objects of any content, past every check of git's own commands.
FORGE = """
import hashlib, os, sys, zlib
def put(kind, body):
    data = kind.encode() + b' %d\\0' % len(body) + body
    name = hashlib.sha1(data).hexdigest()
    os.makedirs('.git/objects/' + name[:2], exist_ok=True)
    with open('.git/objects/' + name[:2] + '/' + name[2:], 'wb') as f:
        f.write(zlib.compress(data))
    return name
def tree(*entries):
    return put('tree', b''.join(m.encode() + b' ' + n.encode() + b'\\0' + bytes.fromhex(i) for m, n, i in entries))
def commit(tree, parent):
    return put('commit', (f'tree {tree}\\nparent {parent}\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\n\\nx\\n').encode())
parent = open('.git/refs/heads/main').read().strip()
"""


def forge(code):
    return f"python3 - <<'END'\n{FORGE}{code}\nEND\n"


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".."])
def test_tree_that_names_a_git_folder_fails_the_check_and_the_files_are_applied(repo, name):
    before = repo.head()
    done = repo.run(forge(f"""
hook = put('blob', b'#!/bin/sh')
inner = tree(('100755', 'post-checkout', hook))
new = commit(tree(('40000', {name!r}, tree(('40000', 'hooks', inner)))), parent)
open('.git/refs/heads/main', 'w').write(new)
""") + "echo 2 >g")
    assert done.returncode == 1 and "not delivered" in done.stderr, done
    assert repo.head() == before and (repo.path / "g").read_text() == "2\n" and repo.aside() == {}
    repo.git("fsck", "--strict")


def test_commit_whose_objects_are_missing_is_refused(repo):
    before = repo.head()
    done = repo.run(forge("open('.git/refs/heads/main', 'w').write(commit('1' * 40, parent))"))
    assert done.returncode == 1 and "not delivered" in done.stderr and repo.head() == before, done


def test_garbage_for_objects_is_refused(repo):
    before = repo.head()
    done = repo.run(COMMIT + "for o in .git/objects/??/*; do chmod u+w $o; head -c 1000 /dev/urandom >$o; done; echo 3 >g")
    assert done.returncode == 1 and repo.head() == before and (repo.path / "g").read_text() == "3\n", done
    repo.git("fsck", "--strict")


def test_history_larger_than_the_disk_limit_is_refused(repo):
    """The box borrows objects from a folder that it is shown, so that it has more history than it can write."""
    large = Repository(repo.box, repo.box.caller.folder(repo.box.scratch, "large"))
    large.git("config", "core.compression", "0")
    for i in range(3):
        subprocess.run(["head", "-c", "10000000", "/dev/urandom"], stdout=(large.path / f"f{i}").open("wb"), check=True)
    large.git("add", "-A")
    large.git("commit", "-q", "-m", "large")
    before = repo.head()
    done = repo.run(f"echo {large.path}/.git/objects >.git/objects/info/alternates; git branch large {large.head()}; " + COMMIT,
                    opts=["--disk", "24M", "--ro", large.path])
    assert done.returncode == 1 and "not delivered" in done.stderr and "exceeds maximum" in done.stderr, done
    assert repo.head() == before and (repo.path / "f").read_text() == "2\n"


def test_neither_hooks_nor_filters_of_the_persons_repository_run(repo):
    trap = repo.path.parent / f"trap-{repo.path.name}"
    script = f"#!/bin/sh\ntouch {trap}\ncat\n"
    for hook in ("post-merge", "reference-transaction", "post-checkout", "post-index-change", "post-rewrite", "update", "pre-commit"):
        repo.write(f".git/hooks/{hook}", script)
        (repo.path / ".git/hooks" / hook).chmod(0o755)
    repo.write("trap.sh", script)
    (repo.path / "trap.sh").chmod(0o755)
    for name in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "core.pager", "core.alternateRefsCommand", "core.sshCommand",
                 "diff.external", "merge.x.driver", "core.editor", "gpg.program"):
        repo.git("config", name, str(repo.path / "trap.sh"))
    trap.unlink(missing_ok=True)
    done = repo.run("git -c core.fsmonitor=false -c core.hooksPath=/dev/null checkout -qb topic\n"
                    "echo '* filter=x' >.gitattributes; echo 2 >f; git -c core.fsmonitor=false -c core.hooksPath=/dev/null "
                    "-c filter.x.clean= commit -qam two; git rev-parse HEAD")
    assert done.returncode == 0, done
    assert not trap.exists(), "BREACH a program of the repository's configuration ran on the host"
    assert (repo.path / ".git/refs/heads/topic").read_text() == done.stdout


def test_configuration_of_the_box_does_not_reach_the_host(repo):
    trap = repo.path.parent / f"trap2-{repo.path.name}"
    done = repo.run(COMMIT + f"for k in core.fsmonitor core.hooksPath core.alternateRefsCommand uploadpack.packObjectsHook; do "
                    f"git config $k 'touch {trap}; true'; done")
    assert done.returncode == 0 and not trap.exists(), done
    assert repo.git("log", "-1", "--format=%s") == "two"


@pytest.mark.parametrize("name", ["-x", "a$(id)", "HEAD", "a'b", "\x1b[31mred"])
def test_branch_of_a_dangerous_name_is_left_out(repo, name):
    done = repo.run(forge(f"open(os.path.join('.git/refs/heads', {name!r}), 'w').write(parent)") + COMMIT)
    refs = repo.git("for-each-ref", "--format=%(refname)").splitlines()
    assert all(r == "refs/heads/main" or r.startswith("refs/hutch/") for r in refs), refs
    assert repo.git("log", "-1", "--format=%s") == "two", done


def test_replaced_objects_and_foreign_refs_are_not_taken(repo):
    done = repo.run(COMMIT + "git update-ref refs/remotes/origin/main HEAD; git update-ref refs/hutch/x HEAD; git replace HEAD~ HEAD; true")
    assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main", done
    assert repo.git("log", "-1", "--format=%s") == "two"


def test_git_of_the_box_that_lies_changes_nothing(repo):
    before = repo.head()
    kept = repo.kept()
    with kept:
        kept.sh("mkdir -p /tmp/x; " + COMMIT)
        # Whatever the box's .git says, the answer is parsed strictly.
        kept.sh("printf 'ref: refs/heads/../../config\\n' >.git/HEAD")
        done = kept.apply()
        assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main", done
        assert repo.head() in (before, repo.head("main"))


def test_new_repository_in_a_subfolder_is_named_once(repo):
    done = repo.run("mkdir sub; cd sub; git init -q; echo 1 >x; git add x; git commit -qm x")
    assert done.returncode == 0 and (repo.path / "sub/x").exists() and not (repo.path / "sub/.git").exists(), done
    assert len([line for line in done.stderr.splitlines() if "/workspace/sub" in line]) == 1, done


def test_repository_that_the_box_made_of_a_plain_folder(box):
    repo = Repository(box, init=False)
    with repo.kept() as kept:
        new = kept.sh("git init -q -b trunk; echo 1 >f; git add f; git commit -qm one; "
                      "echo '#!/bin/sh' >.git/hooks/pre-commit; git rev-parse HEAD").strip()
        done = kept.apply()
    assert done.returncode == 0, done
    assert repo.head() == new and repo.status() == ["## trunk"]
    assert not (repo.path / ".git/hooks/pre-commit").exists()
