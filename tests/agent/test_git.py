"""An agent that commits: what it committed reaches the person's repository with its files."""
import subprocess

import pytest

from agent_env import Asked
from model_reply import Reply, call

HEAD_FILE = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"


@pytest.fixture
def git(agent_env):
    """git on the host, in the workspace, which has one commit."""
    config = agent_env.home / ".gitconfig"
    config.write_text(HEAD_FILE)
    agent_env.caller.own(config)

    def run(*args):
        return subprocess.run([*agent_env.caller.prefix, "git", *args], cwd=agent_env.workspace, env=agent_env.env, check=True,
                              capture_output=True, text=True).stdout.strip()

    run("init", "-q")
    agent_env.put("f", "1\n")
    run("add", "f")
    run("commit", "-q", "-m", "one")
    return run


def test_commit_of_the_agent_is_applied(agent_env, model_server, git):
    model_server.script([Reply(call("bash", command="echo 2 >f; git status; git commit -qam two")), Reply("Done.")])
    done = agent_env.ask("go", "--apply")
    assert git("log", "--format=%s %an") == "two Ada\none Ada" and git("status", "--porcelain") == "", done
    assert done.one("changes")["commits"] is True and done.one("done")["applied"] is True
    assert agent_env.boxes() == [], "all is delivered: the box is not needed any more"


def test_commit_without_changed_files_is_applied(agent_env, model_server, git):
    agent_env.put("f", "the person's work\n")
    model_server.script([Reply(call("bash", command="git commit -qam 'their work'")), Reply("Done.")])
    agent_env.ask("commit my work", "--apply")
    assert git("log", "-1", "--format=%s") == "their work" and git("status", "--porcelain") == ""


def test_commit_that_is_not_applied_keeps_the_box(agent_env, model_server, git):
    agent_env.put("f", "the person's work\n")
    model_server.script([Reply(call("bash", command="git commit -qam 'their work'")), Reply("Done.")])
    agent_env.ask("commit my work")
    (box,) = agent_env.boxes()
    assert agent_env.hutch("box", "apply", box).returncode == 0 and git("log", "-1", "--format=%s") == "their work"


def test_refreshed_index_does_not_make_apply_fail(agent_env, model_server, git):
    model_server.script([Reply(call("bash", command="touch f; git status; echo 2 >g")), Reply("Done.")])
    done = agent_env.ask("go", "--apply")
    assert done.status == 0 and ".git" not in done.stderr and done.one("done")["conflicts"] == 0, done


def test_diverged_commits_are_kept_under_the_session(agent_env, model_server, git):
    def meddle(request):
        if request.answers:
            agent_env.put("g", "mine\n")
            git("add", "g")
            git("commit", "-q", "-m", "mine")
            return Reply("Done.")
        return Reply(call("bash", command="echo 2 >f; git commit -qam two"))

    model_server.script(meddle)
    done = agent_env.ask("go", "--apply")
    assert git("log", "-1", "--format=%s", f"refs/hutch/{done.session}/heads/main") == "two"
    assert f"git merge refs/hutch/{done.session}/heads/main" in done.stderr and git("log", "-1", "--format=%s") == "mine"


def in_folder(env, folder, *opts):
    """`hutch ask` as it is typed in a folder, without -w."""
    return Asked(env.hutch("ask", "--json", "--model", env.speak("anthropic"), *opts, "go", cwd=folder))


def test_agent_that_is_started_in_a_subfolder_has_the_whole_repository(agent_env, model_server, git):
    agent_env.put("src/deep er/x", "1\n")
    model_server.script([Reply(call("bash", command="pwd; echo 2 >x; git add -A; git commit -qm two; cd /; pwd")), Reply(call("bash", command="pwd")),
                         Reply("Done.")])
    done = in_folder(agent_env, agent_env.workspace / "src/deep er", "--apply")
    assert done.status == 0 and git("log", "-1", "--format=%s") == "two" and git("status", "--porcelain") == "", done
    assert agent_env.get("src/deep er/x") == "2\n"
    first, second = done.events("tool_result")
    assert first["data"]["output"].startswith("/workspace/src/deep er\n") and second["data"]["output"].startswith("/\n"), done
    assert "/workspace/src/deep er" in str(model_server.requests[0].body["system"])


def test_folder_that_is_named_is_the_workspace_and_git_is_explained(agent_env, model_server, git):
    agent_env.put("src/x", "1\n")
    model_server.script([Reply(call("bash", command="ls; git status")), Reply("Done.")])
    done = in_folder(agent_env, agent_env.workspace, "-w", "src")
    assert done.events("tool_result")[0]["data"]["output"].startswith("x\n"), done
    assert f"-w {agent_env.workspace}" in done.stderr


def test_repository_of_the_home_folder_is_not_taken(agent_env, model_server):
    subprocess.run([*agent_env.caller.prefix, "git", "init", "-q"], cwd=agent_env.home, env=agent_env.env, check=True)
    folder = agent_env.home / "project"
    folder.mkdir()
    agent_env.caller.own(folder)
    model_server.script([Reply("Done.")])
    done = in_folder(agent_env, folder)
    assert done.one("session")["workspace"] == str(folder), done


def test_commit_in_a_linked_worktree_is_applied(agent_env, model_server, git):
    tree = agent_env.caller.folder(agent_env.box.scratch, "side") / "tree"
    git("worktree", "add", "-q", "-b", "side", str(tree))
    model_server.script([Reply(call("bash", command="git status; git commit -q --allow-empty -m two")), Reply("Done.")])
    done = in_folder(agent_env, tree, "--apply")
    assert done.status == 0 and git("log", "-1", "--format=%s", "side") == "two" and git("log", "-1", "--format=%s") == "one", done
