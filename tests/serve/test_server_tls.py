"""TLS and HTTP/2."""
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from hutch_server import WAIT, make_certificate, trust, wait_until


@pytest.fixture
def tls(box, start_server):
    folder = box.caller.folder(box.scratch, "tls")
    cert, key = make_certificate(folder)
    for path in (cert, key):
        box.caller.own(path)
    server = start_server("--tls", f"{cert},{key}")
    server.cert_files = cert, key
    server.context = trust(cert)
    return server


def curl(server, *words, input=None):
    """(status, version of HTTP, body) by curl."""
    done = subprocess.run(["curl", "-sS", "--max-time", "60", "--cacert", str(server.cert_files[0]), "-w",
                           "\n%{http_code} %{http_version}", *words], input=input, capture_output=True, check=False, timeout=WAIT)
    assert done.returncode == 0, done
    body, last = done.stdout.rsplit(b"\n", 1)
    status, version = last.decode().split()
    return int(status), version, body


def peer_certificate(server, context=None):
    context = context or ssl._create_unverified_context()  # pylint: disable=protected-access
    with socket.create_connection(("127.0.0.1", server.port), WAIT) as sock, context.wrap_socket(sock) as wrapped:
        return wrapped.getpeercert(True)


def test_https(tls):
    assert tls.url.startswith("https://")
    answer = tls.get("/v1/me")
    assert answer.status == 200 and answer.headers["strict-transport-security"].startswith("max-age=")
    with socket.create_connection(("127.0.0.1", tls.port), WAIT) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            assert b"200" not in plain.recv(1000)
        except ConnectionResetError:
            pass


@pytest.mark.parametrize("version, works", [("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
def test_versions(tls, version, works):
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    try:
        peer_certificate(tls, context)
        assert works
    except (ssl.SSLError, ConnectionResetError):
        assert not works


@pytest.mark.parametrize("how", ["files", "SIGHUP"])
def test_certificate_is_replaced_without_dropping_connections(tls, how):
    cert, key = tls.cert_files
    old = peer_certificate(tls)
    response = tls.open("GET", "/v1/me")
    kept = response.connection_of_test
    assert response.read()
    new_cert, new_key = make_certificate(cert.parent, stem="new")
    shutil.copy(new_cert, cert)
    wait_until(lambda: any("certificate" in line for line in tls.log), WAIT, "files that do not match are reported")
    assert peer_certificate(tls) == old, "a certificate without its key was taken"
    shutil.copy(new_key, key)
    if how == "SIGHUP":
        tls.process.send_signal(signal.SIGHUP)
    wait_until(lambda: peer_certificate(tls) != old, WAIT, "the new certificate is used")
    kept.request("GET", "/v1/me", headers={"X-API-Key": tls.key})
    assert kept.getresponse().status == 200
    kept.close()


def test_http2(tls):
    url = tls.url.replace("127.0.0.1", "localhost")
    bearer = ["-H", f"Authorization: Bearer {tls.key}"]
    assert curl(tls, "--http2", url + "/healthz")[:2] == (200, "2")
    status, version, body = curl(tls, "--http2", *bearer, url + "/v1/me")
    assert (status, version, json.loads(body)["role"]) == (200, "2", "admin")
    job = json.dumps({"steps": [{"tool": "shell", "command": "x" * 300000}], "title": "big"})
    status, version, body = curl(tls, "--http2", *bearer, "-d", "@-", url + "/v1/jobs", input=job.encode())
    assert (status, version) == (201, "2"), body
    made = json.loads(body)
    assert len(made["spec"]["steps"][0]["command"]) == 300000
    status, version, body = curl(tls, "--http2", url + "/openapi.json")
    assert (status, version) == (200, "2") and json.loads(body)["openapi"]
    assert curl(tls, "--http2", url + "/v1/me")[0] == 401
    assert curl(tls, "--http2", "-X", "DELETE", *bearer, f"{url}/v1/jobs/{made['id']}")[0] == 200
    status, version, body = curl(tls, "--http2", *bearer, f"{url}/v1/jobs/{made['id']}/events")
    assert (status, version) == (200, "2") and b'"cancelled"' in body
    assert curl(tls, "--http2", "-H", "Host: evil.example", *bearer, url + "/v1/me")[0] == 421
    assert curl(tls, "--http2", *bearer, url + "/v1/jobs?search=%0a")[0] == 400


def test_http2_streams_run_side_by_side(tls):
    url = tls.url.replace("127.0.0.1", "localhost")
    done = subprocess.run(["curl", "-sS", "--http2", "--parallel", "--max-time", "60", "--cacert", str(tls.cert_files[0]),
                           *[url + "/healthz"] * 30], capture_output=True, check=False, timeout=WAIT)
    assert done.returncode == 0 and done.stdout.count(b'"ok"') == 30, done


def test_http1_upload_over_tls(tls):
    body = b"PK\x05\x06" + b"\0" * 18
    answer = tls.post("/v1/uploads", body)
    assert answer.status == 201, answer
    big = tls.post("/v1/uploads", b"PK\x03\x04" + bytes(3 << 20))
    assert big.status == 201 and big.json()["size"] == (3 << 20) + 4


def test_upload_over_http2(tls):
    url = tls.url.replace("127.0.0.1", "localhost")
    status, version, body = curl(tls, "--http2", "-H", f"Authorization: Bearer {tls.key}", "--data-binary", "@-",
                                 url + "/v1/uploads", input=b"PK\x03\x04" + bytes(3 << 20))
    assert (status, version) == (201, "2"), body
    assert json.loads(body)["size"] == (3 << 20) + 4


def test_idle_tls_handshake_ends(tls):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", tls.port), WAIT) as sock:
        assert sock.recv(100) == b""
    assert time.monotonic() - began < WAIT
