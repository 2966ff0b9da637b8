"""A client of hutch-guest: starts it as process 1 of a pid namespace and talks to it over the wire.

The numbers of types and keys are read from wire.h, so that there is one place for them.
"""

import array
import contextlib
import os
import re
import socket
import struct

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUEST = os.path.abspath(os.environ.get("HUTCH_GUEST", os.path.join(TOP, "build", "hutch-guest")))
ROOT = "/mnt"  # where a test's folder is shown to the guest

with open(os.path.join(TOP, "src", "wire", "include", "wire.h"), encoding="utf-8") as header:
    NUMBERS = {k[5:]: int(v) for k, v in re.findall(r"\b(WIRE_[A-Z_]+)\s*=\s*(\d+)", header.read())}
NAMES = {v: k[2:] for k, v in NUMBERS.items() if k.startswith("K_")}
TYPES = {NUMBERS[k]: k for k in ("OUTPUT", "DATA", "ENTRY", "RESULT", "ERROR", "WAITING", "ARRIVED")}
BYTES = {"DATA", "TEXT", "NAME", "PATH", "TARGET", "OUTPUT_PATH", "CWD", "NOTE", "BEFORE", "AFTER", "TAIL"}
ENV = ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"]

# The user inside is nobody special and has no capability, as in a box. /tmp is the guest's own.
START = """
exec 9<"$1" && mount -t proc proc /proc && mount --bind "$2" /mnt && mount -t tmpfs tmpfs /tmp && cd / &&
exec unshare --user --map-user=1000 --map-group=1000 /proc/self/fd/9
"""


def field(key, value):
    if isinstance(value, int):
        value = struct.pack("<Q", value)
    elif isinstance(value, str):
        value = os.fsencode(value)
    return struct.pack("<HHI", NUMBERS["K_" + key], 0, len(value)) + value


def frame(kind, **fields):
    body = b""
    for key, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            body += field(key, each)
    return struct.pack("<IB3x", len(body), NUMBERS[kind]) + body


def parse(body):
    fields = {}
    while body:
        key, _, size = struct.unpack_from("<HHI", body)
        value, body = body[8 : 8 + size], body[8 + size :]
        name = NAMES[key]
        fields[name] = value if name in BYTES else struct.unpack("<Q", value)[0]
    return fields


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(20)
        self.data = b""

    def send(self, kind, fds=(), **fields):
        data = frame(kind, **fields)
        if fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
            data = data[self.sock.sendmsg([data], [rights]) :]
        if data:  # an empty one is an error, too, once the other side is gone
            self.sock.sendall(data)

    def take(self, n):
        while len(self.data) < n:
            more = self.sock.recv(1 << 16)
            if not more:
                return None
            self.data += more
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def frame(self):
        """The next frame as (type, fields), or None at the end."""
        head = self.take(8)
        if head is None:
            return None
        size, kind = struct.unpack("<IB3x", head)
        return TYPES[kind], parse(self.take(size))

    def result(self):
        """Everything until the end: (final type, its fields, {stream: bytes}, entries)."""
        output, entries = {1: b"", 2: b"", "DATA": b""}, []
        while True:
            got = self.frame()
            if got is None:
                return None, {}, output, entries
            kind, fields = got
            if kind == "OUTPUT":
                output[fields["STREAM"]] += fields["DATA"]
            elif kind == "DATA":
                output["DATA"] += fields["DATA"]
            elif kind == "ENTRY":
                entries.append(fields)
            else:
                return kind, fields, output, entries

    def close(self):
        self.sock.close()


class Guest:
    def __init__(self, folder):
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        argv += ["sh", "-c", START, "sh", GUEST, str(folder)]
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(inner.fileno(), 3)
            os.closerange(4, 256)
            os.execvp(argv[0], argv)
        inner.close()

    def connect(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.sendmsg([b"C"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        theirs.close()
        return Connection(ours)

    def request(self, kind, fds=(), **fields):
        c = self.connect()
        c.send(kind, fds, **fields)
        return c

    def call(self, kind, **fields):
        c = self.request(kind, **fields)
        answer = c.result()
        c.close()
        return answer

    def start(self, argv, stdio="FRAMES", fds=(), **fields):
        fields.setdefault("ENV", ENV)
        fields.setdefault("CWD", ROOT)
        argv = ["/bin/sh", "-c", argv] if isinstance(argv, str) else argv
        return self.request("EXEC", fds, ARG=argv, STDIO=NUMBERS["STDIO_" + stdio], **fields)

    def run(self, argv, stdio="FRAMES", **fields):
        c = self.start(argv, stdio, **fields)
        if stdio == "FRAMES":
            with contextlib.suppress(BrokenPipeError):  # it may have been answered already
                c.send("STDIN", EOF=1)
        answer = c.result()
        c.close()
        return answer

    def processes(self):
        """Command lines of all processes but process 1 and the one that looks."""
        script = 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done 2>/dev/null'
        lines = self.run(["/bin/sh", "-c", script])[2][1].decode().splitlines()
        return [x for x in lines if x.strip() and "cmdline" not in x and x.split()[0] != "tr"]

    def end(self):
        self.control.close()
        return os.waitpid(self.pid, 0)[1]
