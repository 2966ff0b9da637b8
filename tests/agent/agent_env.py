"""A person's surroundings for the agent: a home, a workspace, keys that lead to the scripted model server.

    def test_x(agent_env, model_server):
        model_server.script([Reply(call("bash", command="touch a")), Reply("Done.")])
        done = agent_env.ask("make a", "--apply")
        assert done.status == 0 and done.events("tool_result")
"""
import json
import subprocess
import time

import pytest

import harness

# The model that is named for each protocol; which of OpenAI's two it is, OPENAI_API says.
MODELS = {"anthropic": "anthropic/scripted-1", "chat": "openai/scripted-1", "responses": "openai/scripted-1"}


class Asked:
    """How `hutch ask --json` ended."""

    def __init__(self, done):
        self.status, self.stdout, self.stderr, self.seconds = done.returncode, done.stdout, done.stderr, done.seconds
        self.all = []
        for line in done.stdout.splitlines():
            try:
                self.all.append(json.loads(line))
            except ValueError:
                pytest.fail(f"not one JSON object per line: {line[:500]!r}")

    def events(self, kind):
        return [e for e in self.all if e.get("type") == kind]

    def one(self, kind):
        found = self.events(kind)
        assert len(found) == 1, f"{len(found)} events {kind}: {self!r}"
        return found[0]

    @property
    def text(self):
        return "".join(e["text"] for e in self.events("text"))

    @property
    def session(self):
        return self.events("session")[0]["session"]

    def __repr__(self):
        lines = "\n".join(json.dumps(e)[:400] for e in self.all[-40:])
        return f"<status {self.status} after {self.seconds:.1f} s\n{lines}\nstderr: {self.stderr[-2000:]}>"


class AgentEnv:
    def __init__(self, box, server):
        self.box, self.caller, self.server, self.workspace = box, box.caller, server, box.workspace
        self.home = box.caller.folder(box.scratch, "h")
        self.runtime = box.caller.folder(box.scratch, "r")
        self.data = self.home / "data"
        self.env = {**box.env, "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config"), "XDG_RUNTIME_DIR": str(self.runtime),
                    "XDG_DATA_HOME": str(self.data), "XDG_CACHE_HOME": str(self.home / "cache"), "TERM": "xterm-256color",
                    "XDG_STATE_HOME": str(self.home / "state"), "no_proxy": "127.0.0.1",
                    "ANTHROPIC_API_KEY": server.key, "ANTHROPIC_BASE_URL": server.url,
                    "OPENAI_API_KEY": server.key, "OPENAI_BASE_URL": server.url + "/v1"}

    def configure(self, **members):
        """The person's own configuration."""
        folder = self.home / "config" / "hutch"
        for path in (folder.parent, folder):
            if not path.exists():
                path.mkdir(mode=0o700)
                self.caller.own(path)
        path = folder / "config.json"
        path.write_text(json.dumps(members))
        self.caller.own(path)

    def put(self, name, data="", mode=0o644):
        """A file of the workspace, with its folders."""
        folder = self.workspace
        for part in name.split("/")[:-1]:
            folder = folder / part
            if not folder.exists():
                folder.mkdir()
                self.caller.own(folder)
        return self.box.put(name, data, mode)

    def get(self, name):
        return (self.workspace / name).read_text()

    def has(self, name):
        return (self.workspace / name).exists()

    def files(self):
        return sorted(str(p.relative_to(self.workspace)) for p in self.workspace.rglob("*") if p.is_file())

    def argv(self, *args):
        return [*self.caller.prefix, str(self.box.program), *map(str, args)]

    def hutch(self, *args, timeout=300, env=None, **more):
        more.setdefault("cwd", self.workspace)
        return self.box.hutch(*args, timeout=timeout, env={**self.env, **(env or {})}, **more)

    def speak(self, api):
        """From now on in this protocol; the model's name."""
        self.env["OPENAI_API"] = "responses" if api == "responses" else "chat"
        return MODELS[api]

    def ask_words(self, words, opts, api):
        return ["ask", "--json", "--model", self.speak(api), "-w", self.workspace, *opts, words]

    def ask(self, words, *opts, api="anthropic", status=0, timeout=300, **more):
        """`hutch ask --json`, run to its end; `status` None: however it ends."""
        done = Asked(self.hutch(*self.ask_words(words, opts, api), timeout=timeout, **more))
        assert status is None or done.status == status, done
        return done

    def start(self, *args, **popen):
        """Any subcommand, left running."""
        for stream in ("stdin", "stdout", "stderr"):
            popen.setdefault(stream, subprocess.DEVNULL if stream == "stdin" else subprocess.PIPE)
        return subprocess.Popen(self.argv(*args), env=self.env, cwd=self.workspace, **popen)

    def start_ask(self, words, *opts, api="anthropic"):
        return self.start(*self.ask_words(words, opts, api))

    def finish(self, process, timeout=300):
        """Waits for what start_ask() began."""
        began = time.monotonic()
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"still running after {timeout} s\nstdout: {out[-3000:]!r}\nstderr: {err[-2000:]!r}")
        return Asked(harness.Finished(process.returncode, out, err, time.monotonic() - began))

    def histories(self):
        """The sessions' files, oldest first, parsed: each is one JSON document."""
        folder = self.data / "hutch" / "history"
        return [json.loads(p.read_bytes()) for p in sorted(folder.glob("*.json"))] if folder.exists() else []

    def boxes(self):
        done = self.hutch("box", "ls", "--json")
        return [b["id"] for b in json.loads(done.stdout)] if done.returncode == 0 and done.stdout.strip() else []

    def close(self):
        left = self.boxes()
        if left:
            self.hutch("box", "rm", *left)
