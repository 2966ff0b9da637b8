"""What the tests of tools share: calling a tool from the command line, in a box that stays or in a fresh one.

    @pytest.fixture
    def tools(box):
        yield from toolkit.kept(box)

    def test_reads(tools):
        tools.put("a", "text\n")
        assert tools.ok("read_file", path="a").data["content"] == "text\n"
"""
import contextlib
import json
import subprocess

import pytest


class Result:
    """What a call printed with --json."""

    def __init__(self, done):
        self.status = done.returncode
        try:
            whole = json.loads(done.stdout_bytes)
        except ValueError:
            pytest.fail(f"not one JSON object: {done!r}")
        self.failed, self.text, self.data = whole["failed"], whole["text"], whole["data"]
        self.image = whole.get("image")
        assert self.status == (1 if self.failed else 0), done

    def __repr__(self):
        return f"<{'failed' if self.failed else 'ok'}: {self.text[:2000]!r} {str(self.data)[:1000]}>"


class Tools:
    """The tools, called in one box that stays (`new` was called) or in a fresh box each."""

    def __init__(self, box):
        self.box, self.id = box, None
        self.runtime = box.caller.folder(box.scratch, "run")
        self.env = {"XDG_RUNTIME_DIR": str(self.runtime)}

    def hutch(self, *args, **more):
        return self.box.hutch(*args, env=self.env, **more)

    def new(self, *opts):
        """Makes the box that stays; options as those of `hutch run`."""
        done = self.hutch("box", "new", "-w", self.box.workspace, *opts)
        assert done.returncode == 0, done
        self.id = done.stdout.strip()
        return self

    def close(self):
        if self.id:
            self.hutch("box", "rm", self.id)
            self.id = None

    def where(self):
        return ["--box", self.id] if self.id else ["-w", self.box.workspace]

    def call(self, name, *opts, timeout=300, **input):
        """A call, however it ends. The input goes through stdin, so that it may be long."""
        text = json.dumps(input, ensure_ascii=False)
        return Result(self.hutch("tool", *self.where(), "--json", *opts, name, "-", input=text, timeout=timeout))

    def ok(self, name, *opts, **input):
        result = self.call(name, *opts, **input)
        assert not result.failed, result
        return result

    def fails(self, name, *opts, **input):
        """A call that fails: its text."""
        result = self.call(name, *opts, **input)
        assert result.failed, result
        return result.text

    def sh(self, script, timeout=300):
        """Runs a script in the box that stays; its output."""
        done = self.hutch("box", "exec", self.id, "--", "sh", "-ec", script, timeout=timeout)
        assert done.returncode == 0, done
        return done.stdout

    @contextlib.contextmanager
    def running(self, *argv):
        """A command in the box that stays, running meanwhile. It prints a line once it has begun, and ends when the
        file `stop` is there; with status 0, or the test fails."""
        command = [*self.box.caller.prefix, str(self.box.program), "box", "exec", self.id, "--", *argv]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                              env={**self.box.env, **self.env}) as child:
            try:
                assert child.stdout.readline(), child.stderr.read()
                yield
                self.sh("touch stop")
                out, err = child.communicate(timeout=300)
                assert child.returncode == 0, (out, err)
            finally:
                child.kill()

    def put(self, name, data):
        """Writes a file in the box that stays, byte by byte as given."""
        data = data.encode() if isinstance(data, str) else data
        done = self.hutch("box", "exec", self.id, "--", "sh", "-ec", 'mkdir -p "$(dirname "$0")"; cat > "$0"', name, input=data)
        assert done.returncode == 0, done

    def get(self, name):
        """The bytes of a file in the box that stays."""
        done = self.hutch("box", "exec", self.id, "--", "cat", name)
        assert done.returncode == 0, done
        return done.stdout_bytes


def kept(box, *opts):
    """For a fixture: tools in a box that is removed at the end."""
    tools = Tools(box).new(*opts)
    yield tools
    tools.close()
