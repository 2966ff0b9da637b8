"""Repositories for the tests of git: made by real git as the caller who runs hutch, with a home and an identity of its own."""
import json
import subprocess

NAME, EMAIL = "Ada Lovelace", "ada@example.org"


class Repository:
    """A repository of the caller of a box, in a folder that is the box's workspace unless another is named."""

    def __init__(self, box, path=None, init=True, **options):
        self.box, self.path = box, path or box.workspace
        self.env = {**box.env, "GIT_CONFIG_NOSYSTEM": "1"}
        if not self.path.exists():
            self.path.mkdir(parents=True)
            box.caller.own(self.path)
        config = box.caller.home / ".gitconfig"
        config.write_text(f"[user]\n\tname = {NAME}\n\temail = {EMAIL}\n[init]\n\tdefaultBranch = main\n"
                          "[protocol \"file\"]\n\tallow = always\n")
        box.caller.own(config)
        if init:
            self.git("init", "-q", *options.get("init_options", ()))

    def git(self, *args, check=True, input=None, env=None):
        done = subprocess.run([*self.box.caller.prefix, "git", *args], cwd=self.path, env={**self.env, **(env or {})},
                              capture_output=True, text=True, check=False, input=input)
        assert not check or done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
        return done.stdout.strip() if check else done

    def write(self, name, text):
        path = self.path / name
        for parent in reversed([p for p in path.parents if self.path in p.parents]):
            if not parent.exists():
                parent.mkdir()
                self.box.caller.own(parent)
        path.write_text(text)
        self.box.caller.own(path)

    def commit(self, name="f", text="1\n", message="one"):
        self.write(name, text)
        self.git("add", name)
        self.git("commit", "-q", "-m", message)
        return self.head()

    def head(self, name="HEAD"):
        return self.git("rev-parse", name)

    def status(self):
        return self.git("status", "--porcelain=v1", "--branch").splitlines()

    def aside(self):
        """What was kept in refs/hutch: the tail of each name (behind the ID) with its commit."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/hutch").splitlines()
        return {line.split()[0].split("/", 3)[3]: line.split()[1] for line in lines}

    def aside_ref(self, tail):
        names = [n for n in self.git("for-each-ref", "--format=%(refname)", "refs/hutch").splitlines() if n.endswith("/" + tail)]
        assert len(names) == 1, names
        return names[0]

    def run(self, script, opts=(), **more):
        """A shell script in a fresh box whose changes are applied."""
        return self.box.run("sh", "-ec", script, opts=["--apply", *opts], workspace=self.path, **more)

    def kept(self, *opts):
        return KeptBox(self, opts)


class KeptBox:
    """A box that outlives its commands (`hutch box new`)."""

    def __init__(self, repository, opts=()):
        self.repository, self.box = repository, repository.box
        done = self.box.hutch("box", "new", "--json", "-w", repository.path, *opts)
        assert done.returncode == 0, done
        self.id = json.loads(done.stdout)["id"]

    def sh(self, script):
        done = self.box.hutch("box", "exec", self.id, "--", "sh", "-ec", script)
        assert done.returncode == 0, done
        return done.stdout

    def apply(self, *opts, env=None):
        return self.box.hutch("box", "apply", *opts, self.id, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.box.hutch("box", "rm", self.id)
