"""Resources of `hutch mcp`: the files of the workspace, and the diff."""
import base64
import os
import urllib.parse

import pytest

NOT_FOUND, BAD_PARAMS = -32002, -32602
BYTES_MAX = 8 << 20


def uri(path):
    return "file:///workspace/" + urllib.parse.quote(path)


def read(server, path):
    [content] = server.result("resources/read", {"uri": uri(path)})["contents"]
    assert content["uri"] == uri(path)
    return content


def test_list(server):
    server.box.put("a.txt", "hello")
    server.box.put("b c.txt", "")
    server.box.put(".gitignore", "*.o\n")
    (server.box.workspace / "folder" / "inner").mkdir(parents=True)
    server.box.put("folder/inner/deep", "1234567")
    server.box.put("folder/x.o", "ignored")
    os.symlink("a.txt", server.box.workspace / "link")
    listed = server.result("resources/list")["resources"]
    assert listed[0]["uri"] == "hutch://diff" and listed[0]["mimeType"] == "text/x-diff"
    assert {(r["uri"], r["name"], r["size"]) for r in listed[1:]} == {
        ("file:///workspace/.gitignore", ".gitignore", 4), ("file:///workspace/a.txt", "a.txt", 5),
        ("file:///workspace/b%20c.txt", "b c.txt", 0), ("file:///workspace/folder/inner/deep", "folder/inner/deep", 7)}
    [template] = server.result("resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "file:///workspace/{path}"


def test_long_list_comes_in_pages(any_server):
    for i in range(450):
        any_server.box.put(f"{i:03}", "")
    names, params = [], {}
    for _ in range(3):
        page = any_server.result("resources/list", params)
        names += [r["name"] for r in page["resources"]]
        params = {"cursor": page.get("nextCursor")}
    assert "nextCursor" not in page
    assert names == ["diff", *(f"{i:03}" for i in range(450))]


def test_too_long_a_list_has_what_is_nearest(any_server):
    for i in range(12):
        (any_server.box.workspace / f"d{i:02}").mkdir()
        for j in range(100):
            any_server.box.put(f"d{i:02}/{j:02}", "")
    any_server.box.put("zzz", "")
    names, cursor = [], {}
    while cursor is not None:
        page = any_server.result("resources/list", cursor)
        names += [r["name"] for r in page["resources"]]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    assert "zzz" in names and 900 < len(names) <= 1001 and len(names) == len(set(names))


@pytest.mark.parametrize("name", ["plain", "with space", "ümläut €", "%41", "a?b#c", "new\nline", "quote\"'\\", "-x", "..."])
def test_names(server, name):
    server.box.put(name, "text of it\n")
    content = read(server, name)
    assert (content["text"], content["mimeType"]) == ("text of it\n", "text/plain")
    listed = server.result("resources/list")["resources"]
    assert [r["name"] for r in listed[1:]] == [name]
    [again] = server.result("resources/read", {"uri": listed[1]["uri"]})["contents"]
    assert again["text"] == "text of it\n"


def test_slashes_may_be_escaped(any_server):
    (any_server.box.workspace / "d").mkdir()
    any_server.box.put("d/f", "deep")
    for path in ["d/f", "d%2Ff", "d%2ff", "./d/f", "d//f"]:
        [content] = any_server.result("resources/read", {"uri": "file:///workspace/" + path})["contents"]
        assert content["text"] == "deep"


@pytest.mark.parametrize("data, mime", [(b"\x89PNG\r\n\x1a\n\0\0", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"),
                                        (b"a\0b", "application/octet-stream"), (b"\xff", "application/octet-stream"),
                                        (bytes(range(256)) * 100, "application/octet-stream")])
def test_bytes(server, data, mime):
    server.box.put("b", data)
    content = read(server, "b")
    assert (base64.b64decode(content["blob"]), content["mimeType"]) == (data, mime)
    assert "text" not in content


def test_size_limit(any_server):
    any_server.box.put("most", b"x" * BYTES_MAX)
    any_server.box.put("more", b"x" * (BYTES_MAX + 1))
    assert len(read(any_server, "most")["text"]) == BYTES_MAX
    code, text = any_server.error("resources/read", {"uri": uri("more")})
    assert code == BAD_PARAMS and "more" in text
    with open(any_server.box.workspace / "huge", "wb") as file:
        file.truncate(1 << 40)
    assert any_server.error("resources/read", {"uri": uri("huge")})[0] == BAD_PARAMS


def test_what_cannot_be_read(server):
    box = server.box
    (box.workspace / "folder").mkdir()
    os.mkfifo(box.workspace / "fifo")
    os.symlink("/etc/passwd", box.workspace / "out")
    os.symlink("loop", box.workspace / "loop")
    for path, code in [("none", NOT_FOUND), ("none/f", NOT_FOUND), ("folder", BAD_PARAMS), ("fifo", BAD_PARAMS),
                       ("out", BAD_PARAMS), ("loop", BAD_PARAMS), ("../etc/passwd", BAD_PARAMS), ("x" * 5000, BAD_PARAMS)]:
        answer = server.ask("resources/read", {"uri": uri(path)})
        assert answer["error"]["code"] == code, (path, answer)
    answer = server.ask("resources/read", {"uri": uri("none")})
    assert answer["error"]["data"] == {"uri": uri("none")}


@pytest.mark.parametrize("wrong", ["", "x", "file:///", "file:///workspace", "file:///workspace/", "file:///etc/passwd",
                                   "file://host/workspace/a", "FILE:///workspace/a", "hutch://", "hutch://diff/",
                                   "hutch://other", "http://example.org/", "file:///workspace/%", "file:///workspace/%4",
                                   "file:///workspace/%zz", "file:///workspace/%00", "file:///workspace/a?b",
                                   "file:///workspace/a#b", "file:///workspacex/a"])
def test_wrong_uris(any_server, wrong):
    answer = any_server.ask("resources/read", {"uri": wrong})
    assert answer["error"]["code"] == NOT_FOUND and answer["error"]["data"] == {"uri": wrong}


def test_path_that_is_not_utf8(any_server):
    assert any_server.error("resources/read", {"uri": "file:///workspace/%ff"})[0] == BAD_PARAMS


def test_empty_diff(server):
    assert server.result("resources/read", {"uri": "hutch://diff"})["contents"] == [
        {"uri": "hutch://diff", "mimeType": "text/x-diff", "text": ""}]


def test_no_diff_where_nothing_is_kept_apart(connect):
    server = connect("--mode", "direct")
    server.initialize()
    assert "error" in server.ask("resources/read", {"uri": "hutch://diff"})
    assert server.result("resources/list")["resources"][0]["uri"] == "hutch://diff"


def complete(server, value):
    return server.result("completion/complete", {"ref": {"type": "ref/resource", "uri": "file:///workspace/{path}"},
                                                 "argument": {"name": "path", "value": value}})["completion"]


def test_completion(server):
    (server.box.workspace / "src" / "inner").mkdir(parents=True)
    for name in ["src/main.c", "src/make.c", "setup", "x"]:
        server.box.put(name)
    assert complete(server, "")["values"] == ["setup", "src/", "x"]
    assert complete(server, "s") == {"values": ["setup", "src/"], "total": 2, "hasMore": False}
    assert complete(server, "src/")["values"] == ["src/inner/", "src/main.c", "src/make.c"]
    assert complete(server, "src/ma")["values"] == ["src/main.c", "src/make.c"]
    for value in ["none/x", "zzz", "../", "/etc/", "x/"]:
        assert complete(server, value)["values"] == []


def test_completion_has_a_limit(any_server):
    for i in range(150):
        any_server.box.put(f"f{i:03}")
    found = complete(any_server, "f")
    assert (found["total"], found["hasMore"], len(found["values"])) == (150, True, 100)
