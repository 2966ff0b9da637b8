"""Calls over `hutch mcp` while others run: progress, cancellation, order, limits; and what becomes of the changes.

A command that is to run until the test says otherwise waits for a file, in a box that works right in the folder.
"""
import base64
import json
import os
import signal

import pytest

import harness

BUSY, INVALID = -32000, -32600
REQUESTS_MAX = 64
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
UNTIL_GO = "while [ ! -e go ]; do echo waiting; sleep 0.1; done"


@pytest.fixture
def direct(connect, box):
    made = connect("--mode", "direct", box=box)
    made.box = box
    made.initialize()
    return made


def wait_progress(server, token, count=1):
    """Until a call has told so often that it goes on."""
    while len([p for p in server.notifications("notifications/progress") if p["progressToken"] == token]) < count:
        server.seen.append(server.receive())


def test_progress(direct):
    id = direct.start_call("bash", meta={"progressToken": "tok"}, command=UNTIL_GO)
    wait_progress(direct, "tok", 3)
    direct.box.put("go")
    assert direct.wait(id)[0]["result"]["structuredContent"]["exit_code"] == 0
    told = direct.notifications("notifications/progress")
    assert [p["progress"] for p in told] == sorted({p["progress"] for p in told}) and told[0]["progress"] > 0
    assert told[-1]["message"] == "waiting"
    # None comes after the answer, and none to who did not ask.
    answered = next(i for i, m in enumerate(direct.seen) if m.get("id") == id)
    assert all("method" not in m for m in direct.seen[answered:])
    (direct.box.workspace / "go").unlink()
    id = direct.start_call("bash", command=UNTIL_GO)
    other = direct.start_call("bash", meta={"progressToken": 0}, command="true")
    direct.box.put("go")
    direct.wait(id, other)
    assert direct.notifications("notifications/progress") == told


def test_progress_of_tests(direct):
    id = direct.start_call("run_tests", meta={"progressToken": "t"}, command=UNTIL_GO, framework="exit_code")
    wait_progress(direct, "t", 2)
    direct.box.put("go")
    assert direct.wait(id)[0]["result"]["structuredContent"]["passed"] == 1
    assert direct.notifications("notifications/progress")[-1]["message"] == "waiting"


def test_progress_before_messages(connect, make_box):
    box = make_box("user")
    server = connect("--mode", "direct", box=box)
    server.initialize("2024-11-05")
    id = server.start_call("bash", meta={"progressToken": 7}, command=UNTIL_GO)
    wait_progress(server, 7)
    box.put("go")
    server.wait(id)
    assert set(server.notifications("notifications/progress")[0]) == {"progressToken", "progress"}


def test_looking_does_not_wait_for_a_long_command(direct):
    direct.box.put("seen", "text")
    id = direct.start_call("bash", meta={"progressToken": 1}, command=UNTIL_GO)
    wait_progress(direct, 1)
    assert direct.result("resources/read", {"uri": "file:///workspace/seen"})["contents"][0]["text"] == "text"
    assert id not in [m.get("id") for m in direct.seen]
    direct.box.put("go")
    direct.wait(id)


def test_cancel(direct):
    """A cancelled command ends with all it has started, and is not answered."""
    id = direct.start_call("bash", meta={"progressToken": 1}, command="sleep 1000 & sleep 1000")
    wait_progress(direct, 1)
    direct.notify("notifications/cancelled", requestId=id, reason="changed my mind")
    assert "none" in direct.text("bash", command="pgrep sleep || echo none")
    assert direct.close() == (0, "")
    assert id not in [m.get("id") for m in [*direct.seen, *direct.rest()]]


def test_cancel_what_waits(direct):
    """What is cancelled before its turn never begins; those behind it go on."""
    first = direct.start_call("bash", meta={"progressToken": 1}, command=UNTIL_GO)
    wait_progress(direct, 1)
    second = direct.start_call("write_file", path="second", content="2")
    third = direct.start_call("write_file", path="third", content="3")
    direct.notify("notifications/cancelled", requestId=second)
    direct.box.put("go")
    direct.wait(first, third)
    assert (direct.box.workspace / "third").read_text() == "3"
    assert not (direct.box.workspace / "second").exists()
    assert second not in [m.get("id") for m in direct.seen]


def test_id_in_use(direct):
    id = direct.start_call("bash", meta={"progressToken": 1}, command=UNTIL_GO)
    wait_progress(direct, 1)
    direct.start("tools/call", {"name": "plan"}, id=id)
    answer = direct.receive()
    while "method" in answer:
        answer = direct.receive()
    assert (answer["id"], answer["error"]["code"]) == (id, INVALID)
    direct.box.put("go")
    assert direct.wait(id)[0]["result"]["isError"] is False
    direct.seen.clear()
    direct.start("tools/call", {"name": "plan"}, id=id)  # it is free again
    assert direct.wait(id)[0]["result"]["isError"] is False


def test_at_most_so_many_at_once(direct):
    ids = [direct.start_call("bash", command=UNTIL_GO) for _ in range(REQUESTS_MAX)]
    refused = direct.start_call("bash", command="true")
    assert direct.wait(refused)[0]["error"]["code"] == BUSY
    assert direct.is_alive()  # what is quick is answered meanwhile
    direct.box.put("go")
    assert all(a["result"]["isError"] is False for a in direct.wait(*ids))
    assert direct.text("bash", command="echo again") == "again\n"


def test_nobody_overtakes(server):
    """Given all at once: every read sees the write before it."""
    ids = []
    for i in range(12):
        server.start_call("write_file", path="f", content=f"value {i}\n")
        ids += [server.start_call("read_file", path="f") for _ in range(3)]
    texts = [a["result"]["content"][0]["text"] for a in server.wait(*ids)]
    assert [f"value {i}\n" in texts[3 * i + j] for i in range(12) for j in range(3)] == [True] * 36


def test_resources_keep_the_order(server):
    ids = []
    for i in range(5):
        server.start_call("write_file", path="f", content=str(i))
        ids.append(server.start("resources/read", {"uri": "file:///workspace/f"}))
        ids.append(server.start("resources/read", {"uri": "hutch://diff"}))
    answers = [a["result"]["contents"][0]["text"] for a in server.wait(*ids)]
    assert answers[0::2] == ["0", "1", "2", "3", "4"]
    assert [f"\n+{i}\n" in text for i, text in enumerate(answers[1::2])] == [True] * 5


def test_large_diff_is_summarised(any_server):
    any_server.text("bash", command="seq 1500000 > large")
    [content] = any_server.result("resources/read", {"uri": "hutch://diff"})["contents"]
    assert content["text"].startswith("The diff is longer than ") and "large" in content["text"]


def test_image(server):
    server.box.put("p.png", PNG)
    result = server.call("read_file", path="p.png")
    [image] = [c for c in result["content"] if c["type"] == "image"]
    assert base64.b64decode(image["data"]) == PNG and image["mimeType"] == "image/png"


def test_failed_call_keeps_to_the_schema(any_server):
    """What fails is told as a result, and no client stumbles over its data."""
    any_server.box.put("f", "text\n")
    for tool, arguments in [("read_file", {"path": "none"}), ("edit_file", {"path": "f", "old": "nowhere", "new": "x"}),
                            ("bash", {"handle": 77})]:
        result = any_server.call(tool, **arguments)
        assert result["isError"] is True and result["content"][0]["text"]


@pytest.mark.parametrize("how", ["input", "signal"])
def test_end_while_a_call_runs(direct, how):
    """The command ends with the server: the fixture that looks for leftovers would tell."""
    direct.start_call("bash", meta={"progressToken": 1}, command="sleep 1000")
    queued = direct.start_call("write_file", path="never", content="")
    wait_progress(direct, 1)
    if how == "signal":
        os.kill(direct.process.pid, signal.SIGTERM)
        assert direct.finish() == (0, "")
    else:
        assert direct.close() == (0, "")
    assert queued not in [m.get("id") for m in direct.rest()]
    assert not (direct.box.workspace / "never").exists()


# What becomes of the changes.


def test_changes_are_dropped_and_that_is_told(server):
    server.box.put("old", "1\n")
    server.text("write_file", path="new", content="x")
    server.text("write_file", path="old", content="2\n")
    [content] = server.result("resources/read", {"uri": "hutch://diff"})["contents"]
    assert "+++ b/new" in content["text"] and "-1\n+2\n" in content["text"]
    status, told = server.close()
    assert status == 0 and "2 changes were dropped" in told and "--apply" in told
    assert not (server.box.workspace / "new").exists()


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_apply_at_the_end(connect, box, number):
    server = connect("--apply", box=box)
    server.initialize()
    server.text("write_file", path="new", content="kept\n")
    assert not (box.workspace / "new").exists()
    if number:
        os.kill(server.process.pid, number)
    status, told = server.finish() if number else server.close()
    assert (status, told) == (0, "hutch: applied 1 change\n")
    assert (box.workspace / "new").read_text() == "kept\n"


def test_apply_tells_conflicts(connect, box):
    box.put("both", "1\n")
    server = connect("--apply", box=box)
    server.initialize()
    server.text("write_file", path="both", content="theirs\n")
    box.put("both", "mine, meanwhile\n")
    status, told = server.close()
    assert status == 1 and "conflict: both" in told
    assert (box.workspace / "both").read_text() == "mine, meanwhile\n"


def test_direct(direct):
    direct.text("write_file", path="new", content="at once\n")
    assert (direct.box.workspace / "new").read_text() == "at once\n"
    assert direct.close() == (0, "")


def test_box_that_stays(connect, box):
    made = json.loads(box.hutch("box", "new", "-w", box.workspace, "--json").stdout)["id"]
    try:
        for text in ["first", "second"]:
            server = connect("--box", made, box=box, workspace=False)
            server.initialize()
            server.text("bash", command=f"echo {text} >> kept")
            [content] = server.result("resources/read", {"uri": "hutch://diff"})["contents"]
            assert f"+{text}\n" in content["text"]
            assert server.close() == (0, "")
        assert "+first\n+second\n" in box.hutch("box", "diff", made).stdout
        assert box.hutch("box", "apply", made).returncode == 0
        assert (box.workspace / "kept").read_text() == "first\nsecond\n"
        refused = box.hutch("mcp", "--box", made, "--net", "host", input="")
        assert refused.returncode != 0 and "--box" in refused.stderr
    finally:
        assert box.hutch("box", "rm", made).returncode == 0


def test_background_commands_are_watched_between_calls(connect, box):
    """What runs on uses more memory than the box has while no call runs: it ends, and the server does not."""
    server = connect("--memory", "64M", box=box)
    server.initialize()

    def hogs():
        return [pid for pid in harness.descendants(server.process.pid) if "tail" in harness.describe(pid)]

    server.call("bash", background=True, command="head -c 300M /dev/zero | tail -c 300M | sleep 1000")
    harness.wait_until(hogs, 60, what="it has begun")
    harness.wait_until(lambda: not hogs(), 60, what="it was ended")
    assert server.is_alive()


# The cache.


def is_cached(server, **arguments):
    return server.call("read_file", **arguments).get("_meta", {}).get("hutch/cached", False)


def test_cache(connect, box):
    box.put("f", "1\n")
    server = connect("--cache", box=box)
    server.initialize()
    assert [is_cached(server, path="f") for _ in range(3)] == [False, True, True]
    assert is_cached(server, path="f", limit=1) is False  # another input
    server.text("write_file", path="f", content="2\n")
    result = server.call("read_file", path="f")
    assert "2" in result["content"][0]["text"] and "_meta" not in result
    assert is_cached(server, path="f")
    server.text("bash", command="echo 3 > f")
    assert "3" in server.text("read_file", path="f")
    assert is_cached(server, path="f")
    server.call("plan")  # changes no files
    assert is_cached(server, path="f")


def test_cache_ends_with_background_commands(connect, make_box):
    box = make_box("user")
    box.put("f", "1\n")
    server = connect("--cache", "--mode", "direct", box=box)
    server.initialize()
    assert [is_cached(server, path="f") for _ in range(2)] == [False, True]
    server.call("bash", background=True, command="while [ ! -e go ]; do sleep 0.1; done; echo 2 > f; touch done")
    assert [is_cached(server, path="f") for _ in range(2)] == [False, False]
    server.text("bash", command="true")
    assert [is_cached(server, path="f") for _ in range(2)] == [False, False]
    box.put("go")
    harness.wait_until((box.workspace / "done").exists)
    assert "2" in server.text("read_file", path="f")


def test_no_cache_unless_asked(server):
    server.box.put("f", "1\n")
    assert [is_cached(server, path="f") for _ in range(3)] == [False] * 3
