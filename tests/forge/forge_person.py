"""A person with a repository that has a remote on a real git server, and a box with a commit on a feature branch."""
import json
import subprocess

import toolkit
from forge_api import ForgeApi
from git_servers import GitHttp, GitSsh

TOKEN = "secret-token-0123456789"


class Person:
    """Home, configuration, a remote repository and a clone of it that is the workspace."""

    def __init__(self, box):
        self.box, self.caller = box, box.caller
        self.workspace = box.workspace
        self.home = box.caller.folder(box.scratch, "fh")
        self.servers = box.caller.folder(box.scratch, "git")
        self.servers.chmod(0o755)
        self.tools = toolkit.Tools(box)
        self.tools.env |= {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config"), "no_proxy": "127.0.0.1"}
        self.closing = []
        (self.home / ".gitconfig").write_text("[user]\n\tname = Pat\n\temail = pat@example.org\n[safe]\n\tdirectory = *\n")
        self.caller.own(self.home / ".gitconfig")
        self.remote = self.bare("owner/repo.git")
        self.seed()

    def git(self, *args, cwd=None, check=True, **env):
        done = subprocess.run([*self.caller.prefix, "git", *map(str, args)], cwd=cwd or self.workspace, capture_output=True, text=True,
                              check=False, env={**self.box.env, "HOME": str(self.home), **env})
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def bare(self, name):
        path = self.servers / name
        subprocess.run([*self.caller.prefix, "git", "init", "-q", "--bare", "-b", "main", str(path)], check=True, cwd="/")
        return path

    def seed(self):
        self.git("init", "-q", "-b", "main")
        self.box.put("README", "hello\n")
        self.git("add", "README")
        self.git("commit", "-q", "-m", "first")
        self.git("push", "-q", self.remote, "main")

    def over_http(self, token=TOKEN):
        server = GitHttp(self.servers, token)
        self.closing.append(server)
        self.git("remote", "add", "origin", server.url("owner/repo.git"))
        return server

    def over_ssh(self):
        server = GitSsh(self.caller, self.caller.folder(self.box.scratch, "ssh"))
        self.closing.append(server)
        self.git("remote", "add", "origin", server.url(self.remote))
        self.tools.env["GIT_SSH_COMMAND"] = server.command()
        return server

    def api(self, kind, **more):
        server = ForgeApi(kind, **more)
        self.closing.append(server)
        return server

    def configure(self, **members):
        folder = self.home / "config" / "hutch"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(members))
        for path in (folder.parent, folder, folder / "config.json"):
            self.caller.own(path)

    def box_commits(self, branch="hutch/fix", name="fix.txt", message="Fix it"):
        """In the box: a commit on a branch. Its id."""
        if not self.tools.id:
            self.tools.new()
        return self.sh(f"git switch -q {branch} 2>/dev/null || git switch -q -c {branch}; echo {name} >>{name}; git add {name};"
                       f"git commit -q -m '{message}'; git rev-parse HEAD").strip().splitlines()[-1]

    def sh(self, script):
        return self.tools.sh("export HOME=/tmp GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' "
                             "GIT_CONFIG_KEY_1=user.name GIT_CONFIG_VALUE_1=Agent GIT_CONFIG_KEY_2=user.email "
                             f"GIT_CONFIG_VALUE_2=agent@example.org; {script}")

    def remote_branches(self):
        out = self.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.remote)
        return dict(line.split() for line in out.splitlines())

    def close(self):
        self.tools.close()
        for server in self.closing:
            server.close()
