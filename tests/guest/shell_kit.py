"""A guest with shells of sessions."""

from guest_kit import wait_for
from wire import ENV, ROOT, Guest


class Shell(Guest):
    """A guest with the calls of one session made short."""

    def ask(self, script, **fields):
        fields.setdefault("ENV", ENV)
        return self.request("SHELL", TEXT=script, **fields)

    def sh(self, script, **fields):
        """(result fields, output); the call must not be refused."""
        c = self.ask(script, **fields)
        kind, result, output, _ = c.result()
        c.close()
        assert kind == "RESULT", result
        return result, output[1]

    def out(self, script, **fields):
        result, output = self.sh(script, **fields)
        assert result.get("EXIT_CODE") == 0, (result, output)
        return output

    def refused(self, script, **fields):
        c = self.ask(script, **fields)
        kind, result, _, _ = c.result()
        c.close()
        assert kind == "ERROR"
        return result["CODE"], result["TEXT"].decode()

    def ready(self):
        """Process ids of the shells that stand ready, seen from inside the box by another command."""
        script = r"""for p in /proc/[0-9]*; do
            if tr '\0' ' ' <$p/cmdline | grep -q '^bash --norc --noprofile -c'; then echo ${p#/proc/}; fi
        done 2>/dev/null; true"""
        return [int(x) for x in self.run(script)[2][1].split()]

    def wait_ready(self):
        """At least one; two after calls that followed each other closely."""
        assert wait_for(self.ready)
        return self.ready()

    def all_ready(self, signame):
        """Sends a signal to all that stand ready, as hostile code in the box could."""
        pids = self.wait_ready()
        self.run(f"kill -{signame} " + " ".join(map(str, pids)))
        return pids


def shell_box(tmp_path):
    """For a fixture: the session `main` stands in the workspace."""
    tmp_path.chmod(0o755)
    guest = Shell(tmp_path)
    guest.folder = tmp_path
    guest.out(f"cd {ROOT}")
    yield guest
    assert guest.end() == 0
