"""Boxes over HTTP, driven by the Python client and by plain requests: commands, files, snapshots, forks, tools, and what
one user can do to another's."""
import io
import json
import tarfile
import threading
import time

import pytest

from hutch_server import WAIT, wait_until
from live_server import nothing_left_running, server  # noqa: F401: fixtures

from hutch.client import ServerError


@pytest.fixture
def client(server):
    return server.client("alice")


@pytest.fixture
def live(client):
    with client.boxes.new(title="test") as one:
        yield one


def refused(call, *arguments, **more):
    with pytest.raises(ServerError) as caught:
        call(*arguments, **more)
    return caught.value.status, caught.value.type.rsplit(":", 1)[-1]


def state_of(client, one):
    return client.boxes.get(one.id).state


# --- commands ---


def test_command_gets_input_and_settings(live):
    result = live.exec("cat; echo $A; pwd; echo oops >&2; exit 3", stdin="in\n", env={"A": "b c"}, cwd="/tmp")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "in\nb c\n/tmp\n", "oops\n")
    assert live.exec(["printf", "%s|", "a b", "$HOME"]).stdout == "a b|$HOME|"


def test_command_ends_at_its_timeout(live):
    began = time.monotonic()
    result = live.exec("sleep 1000", timeout=1)
    assert result.timed_out and result.exit_code == 124 and time.monotonic() - began < WAIT


def test_output_comes_while_the_command_runs(live):
    live.exec("mkfifo go")
    events = live.stream("echo one; cat go >/dev/null; echo two >&2; printf '\\377'; exit 4")
    assert next(events) == ("output", {"stream": "stdout", "text": "one\n"})
    live.exec("echo >go")
    rest = list(events)
    assert ("output", {"stream": "stderr", "text": "two\n"}) in rest
    assert ("output", {"stream": "stdout", "base64": "/w=="}) in rest
    assert rest[-1][0] == "result" and rest[-1][1]["exit_code"] == 4


def test_characters_are_whole_in_streamed_output(live):
    text = "".join(data["text"] for kind, data in live.stream("yes ä€😀 | head -c 300001") if kind == "output"
                   and "text" in data)
    assert text.startswith("ä€😀\nä€😀\n") and "\ufffd" not in text


def test_large_output_is_cut_but_counted(live):
    result = live.exec("head -c 3000000 /dev/zero")
    assert result.truncated and result.stdout_bytes == 3000000


def test_command_that_is_wrong_is_refused(server, live):
    path = f"/v1/boxes/{live.id}/exec"
    for body in ({}, {"command": ""}, {"command": []}, {"command": [1]}, {"command": "true", "timeout": "soon"},
                 {"command": "true", "env": {"A=B": "c"}}, {"command": "true", "more": 1}):
        answer = server.post(path, body, key=server.key_for("alice"))
        assert answer.status in (400, 422), (body, answer)
    assert live.exec(["no-such-program"]).exit_code == 127


def test_client_that_goes_away_ends_its_command(server, live):
    response = server.open("POST", f"/v1/boxes/{live.id}/exec", {"command": "echo begun; sleep 100000", "stream": True},
                           key=server.key_for("alice"), headers={"Content-Type": "application/json"})
    assert b"event: output" in response.readline() + response.readline()
    wait_until(lambda: live.live()["commands"] == 1, WAIT)
    response.close()
    response.connection_of_test.close()
    wait_until(lambda: live.live()["commands"] == 0, WAIT)
    assert live.exec("pgrep -x sleep").exit_code == 1


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def test_slow_reader_stops_its_own_command_only(server, live):
    response = server.open("POST", f"/v1/boxes/{live.id}/exec", {"command": "yes | tee /dev/stderr", "stream": True},
                           key=server.key_for("alice"), headers={"Content-Type": "application/json"})
    response.readline()
    pids = [server.process.pid, *server.worker_pids()]
    before = [resident(pid) for pid in pids]
    for i in range(20):
        assert live.exec(f"echo {i}").stdout == f"{i}\n"
    for pid, was in zip(pids, before):
        assert resident(pid) < was + 64 * 1024, "it buffers without limit"
    response.close()
    response.connection_of_test.close()


def test_fifty_calls_at_once(live):
    results, failures = {}, []

    def call(i):
        try:
            results[i] = live.exec(f"echo {i}; sleep 0.2").stdout
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=call, args=[i]) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and results == {i: f"{i}\n" for i in range(50)}


# --- life ---


def test_idle_box_ends_after_its_ttl(client):
    one = client.boxes.new(ttl=10)
    wait_until(lambda: state_of(client, one) in ("completed", "cancelled"), WAIT)
    assert refused(one.exec, "true")[0] == 409


def test_closed_box_is_gone(client):
    one = client.boxes.new()
    one.close()
    wait_until(lambda: state_of(client, one) == "cancelled", WAIT)
    assert refused(one.exec, "true")[0] == 409
    one.close()


def test_box_that_cannot_be_made_says_why(client):
    status, kind = refused(client.boxes.new, image="no-such-image")
    assert (status, kind) == (409, "box-failed")
    assert refused(client.boxes.new, memory="much")[0] == 422
    assert refused(client.boxes.new, workspace={"git": "file:///etc"})[0] == 422
    assert refused(client.boxes.new, net="host")[0] == 422


def test_limits_change_while_it_runs(live):
    assert live.set(memory="300M", pids=99)["memory"] == 300 << 20
    now = live.live()
    assert (now["memory"], now["pids"]) == (300 << 20, 99)
    assert refused(live.set, net="host")[0] == 422


def test_boxes_are_listed(client, live):
    assert live.id in [one.id for one in client.boxes.list(state="running")]
    assert live.id not in [one.id for one in client.boxes.list(state="failed")]


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_box_begins_with_an_upload(server, client):
    answer = server.request("POST", "/v1/uploads", tar_of({"a/b.txt": b"hello\n"}), key=server.key_for("alice"),
                            headers={"Content-Type": "application/x-tar"})
    assert answer.status == 201, answer
    with client.boxes.new(workspace={"upload": answer.json()["id"]}) as one:
        assert one.read("a/b.txt") == b"hello\n"
        one.write("a/b.txt", "bye\n")
        assert b"-hello\n+bye\n" in one.diff()
        assert [(change.path, change.kind) for change in one.changes()] == [("a/b.txt", "modified")]
        fork, = one.fork()
        with fork:
            assert fork.read("a/b.txt") == b"bye\n"
            one.close()
            assert b"-hello\n+bye\n" in fork.diff()


# --- snapshots and forks ---


def test_restore_brings_files_back(live):
    live.write("a", "one")
    first = live.snapshot("first")
    live.write("a", "two")
    second = live.snapshot()
    assert [one.id for one in live.snapshots()] == [first.id, second.id]
    assert first.name == "first"
    live.restore(first)
    assert live.read("a") == b"one"
    live.restore(second)
    assert live.read("a") == b"two"
    live.restore("s0")
    assert live.list()["entries"] == []
    assert refused(live.restore, "s77")[0] == 404


def test_tree_of_forks(live):
    live.write("a", "root")
    snapshot = live.snapshot()
    live.write("a", "later")
    left, right = live.fork(2)
    old, = live.fork(snapshot=snapshot)
    with left, right, old:
        left.write("a", "left")
        leaf, = left.fork()
        with leaf:
            assert [one.read("a") for one in (live, left, right, old, leaf)] == \
                [b"later", b"left", b"later", b"root", b"left"]
            left.close()
            assert leaf.exec("cat a").stdout == "left"
            inherited, = leaf.snapshots()
            leaf.restore(inherited)
            assert leaf.read("a") == b"root"
            assert leaf.refresh().data["fork_of"] == left.id


# --- files ---

NAMES = ["a b", "-rf", "ü€😀", "%41", "a;b&c=d?e#f", "\\", "'\"", "x" * 255, "d/e/f/g", ".hidden", "...", "CON"]


@pytest.mark.parametrize("name", NAMES)
def test_files_of_any_name_go_up_and_down(live, name):
    live.write(name, name.encode())
    assert live.read(name) == name.encode()
    assert live.exec(["cat", name] if not name.startswith("-") else ["cat", "./" + name]).stdout == name
    assert name.split("/")[0] in [entry["name"] for entry in live.list()["entries"]]


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "a%2f..%2f..%2fb", "%2e%2e/x", "%2e%2e%2fx", "%00", "a%00b",
                                  "line%0aend", "%ff%fe", "x/" * 2100])
def test_paths_that_lead_elsewhere_are_refused(server, live, path):
    for method in ("GET", "PUT"):
        try:
            answer = server.request(method, f"/v1/boxes/{live.id}/files/{path}", b"x" if method == "PUT" else None,
                                    key=server.key_for("alice"))
            assert answer.status in (400, 404, 405, 414), answer
        except ConnectionError:
            pass  # closed at once
    assert live.list()["entries"] == []


@pytest.mark.parametrize("path,means", [("a//b", "a/b"), ("a/%2e/b", "a/b"), ("%2fetc%2fpasswd", "etc/passwd")])
def test_odd_paths_stay_in_the_workspace(server, live, path, means):
    answer = server.put(f"/v1/boxes/{live.id}/files/{path}", b"x", key=server.key_for("alice"))
    assert answer.status == 400 or answer.json()["path"] == means
    assert answer.status == 400 or live.exec(["cat", "/workspace/" + means]).stdout == "x"


def test_links_and_special_files_lead_nowhere(live):
    live.exec("ln -s /etc/passwd file; ln -s /etc folder; ln -s ../.. up; mkfifo fifo; ln -s inside ok; echo x >inside")
    assert refused(live.read, "file")[0] == 403
    assert refused(live.read, "folder/passwd")[0] == 403
    assert refused(live.read, "up/etc/passwd")[0] == 403
    assert refused(live.read, "fifo")[0] == 400
    assert refused(live.write, "file", "x")[0] == 403
    assert refused(live.write, "folder/passwd", "x")[0] == 403
    assert live.read("ok") == b"x\n"
    assert refused(live.read, "missing")[0] == 404
    live.exec("mkdir d")
    assert refused(live.read, "d") == (409, "is-a-folder")


def test_download_is_an_attachment_of_bytes(server, live):
    live.write("page.html", "<script>alert(1)</script>")
    answer = server.get(f"/v1/boxes/{live.id}/files/page.html", key=server.key_for("alice"))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-length"] == "25"


def test_large_file_passes_in_bounded_memory(server, live):
    pids = [server.process.pid, *server.worker_pids()]
    before = [resident(pid) for pid in pids]
    data = bytes(range(256)) * (48 << 12)
    live.write("large", data)
    assert live.read("large") == data
    for pid, was in zip(pids, before):
        assert resident(pid) < was + 24 * 1024


def test_folder_comes_as_tar(live, tmp_path):
    live.write("a/b/c", "deep")
    live.write("a/run", "#!/bin/sh\n", executable=True)
    live.download_tar(tmp_path / "a.tar", "a")
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert {m.name for m in tar if m.isfile()} == {"./b/c", "./run"}
        assert tar.getmember("./run").mode & 0o111
    with pytest.raises(ServerError) as caught:
        live.download_tar(tmp_path / "b.tar", "none")
    assert caught.value.status == 404


def test_upload_that_breaks_leaves_nothing(server, live):
    head = (f"PUT /v1/boxes/{live.id}/files/part HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"X-API-Key: {server.key_for('alice')}\r\nContent-Length: 1000000\r\n\r\n")
    server.raw(head.encode() + b"x" * 500000, shut=True)
    assert live.list()["entries"] == []


def test_full_box_says_so(client):
    with client.boxes.new(disk="16M") as one:
        assert refused(one.write, "large", bytes(32 << 20))[0] == 507
        one.write("small", "x")
        assert one.read("small") == b"x"


# --- users ---

ROUTES = [("GET", ""), ("DELETE", ""), ("PATCH", ""), ("GET", "/live"), ("POST", "/exec"), ("POST", "/tools/bash"),
          ("POST", "/fork"), ("POST", "/snapshots"), ("GET", "/snapshots"), ("POST", "/restore"), ("GET", "/diff"),
          ("GET", "/changes"), ("GET", "/files"), ("GET", "/files/secret"), ("PUT", "/files/secret")]
BODIES = {"/exec": {"command": "true"}, "/restore": {"snapshot": "s0"}, "": {"pids": 50}}


@pytest.mark.parametrize("method,below", ROUTES)
def test_box_of_another_user_does_not_exist(server, client, live, method, below):
    live.write("secret", "mine")
    body = b"x" if method == "PUT" else json.dumps(BODIES.get(below, {})) if method in ("POST", "PATCH") else None
    answer = server.request(method, f"/v1/boxes/{live.id}{below}", body, key=server.key_for("bob"),
                            headers={"Content-Type": "application/json"})
    assert answer.status == 404 and b"mine" not in answer.body, answer
    assert live.read("secret") == b"mine" and state_of(client, live) == "running"


def test_session_is_no_box(server, client, live):
    """A box is no job of another kind, and no other kind a box."""
    job = server.post("/v1/jobs", {"steps": [{"tool": "shell", "command": "true"}]}, key=server.key_for("alice")).json()["id"]
    assert server.get(f"/v1/boxes/{job}", key=server.key_for("alice")).status == 404
    assert server.post(f"/v1/boxes/{job}/exec", {"command": "true"}, key=server.key_for("alice")).status == 404


def test_limit_of_live_jobs(server):
    client = server.client("carol")
    answer = server.request("PATCH", "/v1/users/carol", {"live": 1}, headers={"Content-Type": "application/json"})
    assert answer.status < 300, answer
    with client.boxes.new() as one:
        assert refused(client.boxes.new)[0] in (409, 429)
        assert refused(one.fork)[0] in (409, 429)


# --- tools ---


def test_tools_in_a_box_and_without(server, live):
    def post(path, body):
        answer = server.post(path, body, key=server.key_for("alice"))
        assert answer.status == 200, answer
        return answer.json()

    names = [tool["name"] for tool in server.get("/v1/tools", key=server.key_for("alice")).json()["tools"]]
    assert "bash" in names and "git_push" not in names
    at = f"?box={live.id}"
    assert post("/v1/tools/write_file" + at, {"path": "f", "content": "x\n"})["data"]["action"] == "created"
    assert post("/shell" + at, {"command": "cat f; cd /tmp"})["data"]["output"] == "x\n"
    assert post("/shell" + at, {"command": "pwd"})["data"]["output"] == "/tmp\n", "its shell goes on"
    assert post("/code" + at, {"code": "print(6*7)"})["data"]["output"] == "42\n"
    assert post("/fs" + at, {"action": "read", "path": "f"})["text"]
    assert live.tool("bash", command="exit 3").data["exit_code"] == 3

    fresh = post("/shell", {"command": "ls; echo hi"})
    assert fresh["data"]["output"] == "hi\n" and fresh["job"]
    assert post("/v1/tools/python", {"code": "print(1+1)"})["data"]["output"] == "2\n"


def test_wrong_calls_of_tools(server, live):
    for path in ("/v1/tools/", f"/v1/boxes/{live.id}/tools/"):
        for name, body in (("none", {}), ("bash", {"cmd": 1}), ("git_push", {})):
            answer = server.post(path + name, body, key=server.key_for("alice"))
            assert answer.status in (404, 422), (path, name, answer)
