"""Real git servers for the tests: smart HTTP with basic authentication (git http-backend behind a small server), and sshd."""
import base64
import http.server
import os
import pwd
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from harness import wait_until

BACKEND = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()) / "git-http-backend"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])


class GitHttp:
    """The repositories below a folder over smart HTTP; with `token` only for who has that password."""

    def __init__(self, root, token=None):
        self.root, self.token = root, token
        self.requests = []  # (method, path, authorized)
        self.redirect = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, *args):
                pass

            def answer(self):
                outer.serve(self)

            do_GET = do_POST = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def authority(self):
        return f"127.0.0.1:{self.port}"

    def url(self, name):
        return f"http://{self.authority}/{name}"

    def allows(self, request):
        given = request.headers.get("Authorization", "")
        if not given.startswith("Basic "):
            return False
        user, password = base64.b64decode(given[6:]).decode().split(":", 1)
        return password == self.token or (user == self.token and not password)

    def serve(self, request):
        allowed = self.token is None or self.allows(request)
        self.requests.append((request.command, request.path, allowed, request.headers.get("Authorization")))
        if self.redirect:
            request.send_response(302)
            request.send_header("Location", self.redirect + request.path)
            request.end_headers()
            return
        if not allowed:
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="test"')
            request.end_headers()
            return
        path, _, query = request.path.partition("?")
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length) if length else self.chunks(request)
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": request.command, "CONTENT_TYPE": request.headers.get("Content-Type", ""),
               "CONTENT_LENGTH": str(len(body)), "REMOTE_USER": "x", "HOME": "/nonexistent",
               "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
               "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "GIT_CONFIG_KEY_1": "http.receivepack", "GIT_CONFIG_VALUE_1": "true"}
        done = subprocess.run([BACKEND], input=body, capture_output=True, env=env, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            elif name:
                headers.append((name, value))
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.end_headers()
        try:
            request.wfile.write(content)
        except OSError:
            pass

    @staticmethod
    def chunks(request):
        """A body in chunks, as git sends a large one."""
        body = b""
        if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return body
        while size := int(request.rfile.readline().split(b";")[0], 16):
            body += request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return body

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class GitSsh:
    """sshd on a port of this machine, as the caller, with keys of its own."""

    def __init__(self, caller, folder):
        if not SSHD:
            pytest.skip("no sshd on this host")
        try:
            self.user = pwd.getpwuid(caller.uid).pw_name
        except KeyError:
            pytest.skip(f"user id {caller.uid} has no entry in /etc/passwd: ssh and sshd refuse to run")
        self.caller, self.folder = caller, folder
        for name in ("host", "key"):
            subprocess.run([*caller.prefix, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, cwd="/")
        if caller.uid == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = None
        for port in range(20000 + os.getpid() % 20000, 60000, 37):
            if self.start(port):
                break
        public = (folder / "host.pub").read_text().split()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n")
        caller.own(folder / "known_hosts")

    def start(self, port):
        config = self.folder / "sshd_config"
        config.write_text(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile {self.folder}/pid\n"
                          f"AuthorizedKeysFile {self.folder}/key.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                          "PasswordAuthentication no\nAcceptEnv GIT_PROTOCOL\n")
        self.caller.own(config)
        self.port = port
        self.process = subprocess.Popen([*self.caller.prefix, SSHD, "-D", "-e", "-f", str(config)], cwd="/",
                                        stdout=subprocess.DEVNULL, stderr=open(self.folder / "log", "w"))
        log = self.folder / "log"
        wait_until(lambda: self.process.poll() is not None or "listening" in log.read_text(), seconds=60, what="sshd listens")
        return self.process.poll() is None

    def url(self, path):
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"

    def command(self):
        return (f"ssh -F none -i {self.folder}/key -o IdentitiesOnly=yes -o UserKnownHostsFile={self.folder}/known_hosts "
                "-o StrictHostKeyChecking=yes")

    def close(self):
        self.process.terminate()
        self.process.wait()
