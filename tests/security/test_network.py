"""The network is off: no way out, and none to what runs on this machine.

All targets are servers that the test runs itself on addresses of this machine, or documentation addresses that lead
nowhere. Nothing here ever sends to another machine, whatever a box lets through.
"""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading

import pytest

from arsenal import breach_if

NOWHERE = ["198.51.100.1", "203.0.113.1", "2001:db8::1"]


def local_addresses():
    """Addresses of this machine, loopback first."""
    found = ["127.0.0.1", "::1"]
    if shutil.which("ip"):
        listed = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout or "[]")
        found += [a["local"] for link in listed for a in link.get("addr_info", []) if a.get("scope") == "global"]
    return list(dict.fromkeys(found))


class Server:
    """Listens where it is told and keeps what it heard."""

    def __init__(self, sock):
        self.sock, self.heard = sock, []
        sock.settimeout(0.1)
        self.going = True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while self.going:
            with contextlib.suppress(TimeoutError, OSError):
                if self.sock.type == socket.SOCK_DGRAM:
                    self.heard.append(self.sock.recv(100))
                    continue
                peer, _ = self.sock.accept()
                peer.settimeout(1)
                self.heard.append(b"connected " + peer.recv(100))
                peer.close()

    def stop(self):
        self.going = False
        self.thread.join()
        self.sock.close()
        return self.heard


@contextlib.contextmanager
def server(family, kind, address):
    sock = socket.socket(family, kind)
    sock.bind(address)
    if kind != socket.SOCK_DGRAM:
        sock.listen(8)
    made = Server(sock)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("address", local_addresses())
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_servers_of_this_machine_cannot_be_reached(box, arsenal, secret, protocol, address):
    """IPv4 and IPv6, TCP and UDP, on loopback and on the machine's own addresses."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with server(family, kind, (address, 0)) as listener:
        port = listener.sock.getsockname()[1]
        done = box.run(arsenal.arm(box, "egress"), protocol, address, port, secret)
        heard = listener.stop()
    breach_if(heard, f"reached {protocol} {address}: {heard}")
    breach_if("BREACH" in done.stdout, done.stdout)
    assert done.returncode == 0, done


@pytest.mark.parametrize("address", NOWHERE)
def test_there_is_no_route(box, arsenal, address):
    """A connection anywhere fails at once, with no route."""
    if os.environ.get("HUTCH_WEAKEN"):
        pytest.skip("never towards other machines where the network may be let through")
    done = box.run(arsenal.arm(box, "egress"), "nowhere", address)
    breach_if("BREACH" in done.stdout, done.stdout)
    assert "ENETUNREACH" in done.stdout or "EACCES" in done.stdout or "EPERM" in done.stdout, done
    assert done.seconds < 60


def test_raw_packet_netlink_icmp_and_vsock(box, attack):
    """Sockets that need rights, or that no namespace confines; no interface but lo; no say over it."""
    attack(box, "egress", "raw", [a for a in local_addresses() if ":" not in a][-1])


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["stream", "datagram"])
def test_abstract_sockets_of_the_host_cannot_be_reached(box, arsenal, secret, kind):
    with server(socket.AF_UNIX, kind, "\0" + secret) as listener:
        done = box.run(arsenal.arm(box, "egress"), "unix", "@" + secret, "hello")
        heard = listener.stop()
    breach_if(heard or "BREACH" in done.stdout, f"reached an abstract socket of the host: {heard} {done.stdout}")
    assert done.returncode == 0, done


def test_socket_files_of_the_host_cannot_be_reached(box, arsenal, loot):
    """In a folder that is not shown, and by a link to it."""
    path = str(loot[0].parent / "socket")
    with server(socket.AF_UNIX, socket.SOCK_STREAM, path) as listener:
        os.chmod(path, 0o777)
        os.symlink(path, box.workspace / "link")
        done = box.run(arsenal.arm(box, "egress"), "unix", path, "hello")
        linked = box.run("/workspace/egress", "unix", "/workspace/link", "hello")
        heard = listener.stop()
    breach_if(heard or "BREACH" in done.stdout + linked.stdout, f"reached a socket of the host: {heard}")


@pytest.mark.parametrize("shown", ["cow", "ro", "share"])
def test_socket_files_in_a_shown_folder_cannot_be_reached(box, arsenal, shown, loot):
    """A server of the host that listens in the workspace or in a folder shown by --ro: what is shown are files, not a
    way to talk to it. (In direct mode the folder is the host's own, and its sockets with it.)"""
    folder = loot[0].parent if shown == "share" else box.workspace
    inside = arsenal.arm(box, "egress")
    opts = ["--ro", f"{folder}:/shown"] if shown == "share" else ["--mode", shown]
    with server(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket")) as listener:
        os.chmod(folder / "socket", 0o777)
        done = box.run(inside, "unix", "/shown/socket" if shown == "share" else "/workspace/socket", "hello", opts=opts)
        heard = listener.stop()
    breach_if(heard or "BREACH" in done.stdout, f"reached a socket of the host: {heard}")


def test_no_socket_file_is_in_sight(box, attack):
    """None of the host's services: every socket that can be found is tried."""
    attack(box, "egress", "sockets")


def test_the_boxes_own_loopback_works(box):
    """What is off is the way out: programs that talk to themselves still can."""
    talk = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\n"
            "s.accept()[0].send(b'hello'); print(c.recv(5).decode())")
    done = box.run("/usr/bin/python3", "-c", talk)
    assert done.stdout == "hello\n", done


def test_loopback_is_not_shared_between_boxes(box, make_box, who, arsenal, secret):
    """A server in one box is not there in another."""
    serve = ("import socket\ns = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
             "s.settimeout(30)\nimport sys\nsys.stdin.read()")
    neighbour = make_box(who).start("/usr/bin/python3", "-c", serve)
    try:
        port = neighbour.stdout.readline().decode().strip()
        done = box.run(arsenal.arm(box, "egress"), "tcp", "127.0.0.1", port, secret)
        breach_if("BREACH" in done.stdout, done.stdout)
    finally:
        neighbour.communicate(b"", timeout=300)
