"""What the tests of search_files and list_files share: calling them, and making trees."""
import json
import os
import subprocess


class Tools:
    """Tools in one box: a fresh one for each call, or a live one once it was started."""

    def __init__(self, box):
        self.box = box
        self.live = None
        self.running = []
        runtime = box.caller.folder(box.scratch, "run")
        self.env = {"XDG_RUNTIME_DIR": str(runtime)}

    def start(self, *options):
        done = self.box.hutch("box", "new", "-w", self.box.workspace, *options, env=self.env)
        assert done.returncode == 0, done
        self.live = done.stdout.strip()

    def shell(self, script, program="sh"):
        done = self.box.hutch("box", "exec", self.live, "--", program, "-c", script, env=self.env, timeout=300)
        assert done.returncode == 0, done

    def python(self, script):
        self.shell(script, "/usr/bin/python3")

    def background(self, script):
        """Runs until the box is removed; what it prints first says that it has begun."""
        command = [*self.box.caller.prefix, str(self.box.program), "box", "exec", self.live, "--", "sh", "-c", script]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
                                   env={**self.box.env, **self.env})
        self.running.append(process)
        assert process.stdout.readline()
        return process

    def call(self, name, **given):
        where = ["--box", self.live] if self.live else ["-w", self.box.workspace]
        done = self.box.hutch("tool", name, *where, "--json", json.dumps(given), env=self.env, timeout=120)
        assert done.returncode in (0, 1), done
        result = json.loads(done.stdout_bytes)
        assert result["failed"] == bool(done.returncode)
        return result

    def data(self, name, **given):
        result = self.call(name, **given)
        assert not result["failed"], result["text"]
        return result["data"]

    def text(self, name, **given):
        result = self.call(name, **given)
        assert not result["failed"], result["text"]
        return result["text"]

    def error(self, name, **given):
        result = self.call(name, **given)
        assert result["failed"], result
        return result["text"]

    def end(self):
        if self.live:
            self.box.hutch("box", "rm", self.live, env=self.env)
        for process in self.running:
            process.stdout.close()
            process.wait(30)


def fill(box, files):
    """Files of the caller in the workspace: {path: content}; a path that ends in a slash is an empty folder."""
    for name, content in files.items():
        path = os.path.join(os.fsencode(box.workspace), name if isinstance(name, bytes) else os.fsencode(name))
        folder = path if path.endswith(b"/") else os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        if not path.endswith(b"/"):
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
    own(box)


def own(box):
    if os.geteuid() == 0:
        owner = f"{box.caller.uid}:{box.caller.gid}"
        subprocess.run(["chown", "-hR", owner, str(box.workspace)], check=True)
