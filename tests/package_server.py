"""A package index of the tests' own: PEP 503 with one wheel for pip, and a registry with one package for npm.

It is on a private address of this machine, as a company's mirror would be, and not on 127.0.0.1: a box has its own."""
import base64
import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
import zipfile

import pytest

NAME, VERSION = "greeting", "1.0"
MODULE = 'def greet():\n    return "hello from the package"\n'


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but 127.0.0.1")
        return probe.getsockname()[0]


def wheel():
    data = io.BytesIO()
    info = f"{NAME}-{VERSION}.dist-info"
    files = {f"{NAME}.py": MODULE, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return data.getvalue()


def npm_package():
    data = io.BytesIO()
    files = {"package/package.json": json.dumps({"name": NAME, "version": VERSION + ".0", "main": "index.js"}),
             "package/index.js": 'module.exports = "hello from the package";\n'}
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


class PackageServer:
    """`with PackageServer() as server`: server.pip and server.npm are the addresses, server.paths what was asked for."""

    def __init__(self):
        self.paths, self.authorizations = [], []
        self.wheel, self.tarball = wheel(), npm_package()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.paths.append(self.path)
                owner.authorizations.append(self.headers.get("authorization"))
                kind, body = owner.answer(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args):
                pass

        self.host = own_address()
        self.http = http.server.ThreadingHTTPServer((self.host, 0), Handler)
        self.port = self.http.server_address[1]
        self.place = f"{self.host}:{self.port}"
        self.pip = f"http://{self.place}/simple/"
        self.npm = f"http://{self.place}/npm/"
        self.thread = threading.Thread(target=self.http.serve_forever, args=[0.05], daemon=True)

    def answer(self, path):
        file = f"{NAME}-{VERSION}-py3-none-any.whl"
        if path == f"/simple/{NAME}/":
            return "text/html", f'<!DOCTYPE html><html><body><a href="/files/{file}">{file}</a></body></html>'.encode()
        if path == f"/files/{file}":
            return "application/octet-stream", self.wheel
        if path == f"/npm/{NAME}":
            return "application/json", json.dumps(self.packument()).encode()
        if path == f"/npm/{NAME}.tgz":
            return "application/octet-stream", self.tarball
        return "text/plain", None

    def packument(self):
        version = VERSION + ".0"
        digest = "sha512-" + base64.b64encode(hashlib.sha512(self.tarball).digest()).decode()
        return {"name": NAME, "dist-tags": {"latest": version}, "versions": {version: {
            "name": NAME, "version": version, "dist": {"tarball": f"{self.npm}{NAME}.tgz", "integrity": digest}}}}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


def write_pip_conf(caller, home, text):
    """The person's own ~/.config/pip/pip.conf."""
    for folder in (home / ".config", home / ".config" / "pip"):
        folder.mkdir(exist_ok=True)
        caller.own(folder)
    path = home / ".config" / "pip" / "pip.conf"
    path.write_text(text)
    caller.own(path)


def write_npmrc(caller, home, text):
    path = home / ".npmrc"
    path.write_text(text)
    caller.own(path)
