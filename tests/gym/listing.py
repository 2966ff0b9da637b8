"""Trees of files for a caller, and `hutch gym tasks` over them."""
import json
import os


def write(box, name, files):
    """Files (text, bytes, or a link as ("link", TARGET)) in a new folder of the caller's."""
    root = box.workspace / name
    for path, content in files.items():
        at = root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            at.symlink_to(content[1])
        else:
            at.write_bytes(content if isinstance(content, bytes) else content.encode())
    for at in [root, *root.rglob("*")]:
        box.caller.own(at)
        if not at.is_symlink():
            at.chmod(0o755 if at.is_dir() or at.suffix == ".sh" else 0o644)
    return root


def tasks(box, *options, timeout=300, env=None):
    """What is listed, by name; the whole is an object of `status`, `tasks` and `said`."""
    done = box.hutch("gym", "tasks", "--json", *options, timeout=timeout, env=env)
    assert done.returncode in (0, 1), done
    found = {one["name"]: one for one in json.loads(done.stdout_bytes)}
    return Listed(done.returncode, found, done.stderr)


class Listed:
    def __init__(self, status, found, said):
        self.status, self.tasks, self.said = status, found, said

    def __repr__(self):
        return json.dumps(self.tasks, indent=1) + self.said


def is_empty(folder):
    return not folder.exists() or not os.listdir(folder)
