"""MCP servers of the configuration that behave badly."""
import json

import harness
import pytest

WRONG = [
    ("stillborn", {}, "ended (exit status 3); it said: cannot find my configuration"),
    ("mute", {"timeout": 0.5}, "did not answer within 0.5 seconds; it said: nothing to say"),
    ("refuse", {}, "answered with an error: no licence (code -32000)"),
    ("future", {}, "speaks protocol '1999-12-31'"),
    ("list-hang", {"timeout": 0.5}, "did not answer within 0.5 seconds"),
    ("no-tools", {}, "answered tools/list without tools"),
]


@pytest.mark.parametrize("kind,more,said", WRONG, ids=[w[0] for w in WRONG])
def test_a_start_that_fails(users, kind, more, said):
    users.strange(kind, **more)
    result = users.tool("s.go")
    assert result["failed"] and said in result["text"]
    tools, stderr = users.list()
    assert "plan" in tools and said in stderr and len(stderr.splitlines()) == 1


CALLS = [
    ("crash", {}, "ended (exit status 7); it said: something terrible happened"),
    ("segfault", {}, "was ended by SIGSEGV"),
    ("hang", {"timeout": 0.5}, "did not answer within 0.5 seconds; it said: thinking hard"),
    ("garbage", {}, "sent a malformed message: not JSON"),
    ("no-rpc", {}, "sent a malformed message: 'jsonrpc' must be"),
    ("flood", {"timeout": 240}, "sent more than 67108864 bytes that answer nothing"),
    ("chatter", {}, "wrote more than 1000 lines that are not JSON"),
    ("pester", {"timeout": 240}, "sends requests and does not read the answers"),
    ("giant", {}, "a message of more than 16777216 bytes"),
    ("endless-line", {}, "a message of more than 16777216 bytes"),
    ("wrong-id", {"timeout": 0.5}, "did not answer within 0.5 seconds"),
    ("close", {}, "closed its output"),
    ("error", {}, "answered with an error: no[31m such thing (code -32602)"),
    ("is-error", {}, "it went wrong"),
]


@pytest.mark.parametrize("kind,more,said", CALLS, ids=[c[0] for c in CALLS])
def test_a_call_that_fails(users, kind, more, said):
    users.strange(kind, **more)
    result = users.tool("s.go", timeout=300)
    assert result["failed"] and said in result["text"], result["text"][:500]


GOOD = [("noise", "fine {}"), ("twice", "first"), ("batch", "in a batch"), ("old", "fine {}"), ("stubborn", "fine {}"),
        ("family", "fine {}")]


@pytest.mark.parametrize("kind,said", GOOD, ids=[g[0] for g in GOOD])
def test_oddities_that_are_let_be(desk, kind, said):
    desk.strange(kind)
    assert desk.tool("s.go")["text"] == said


def test_one_that_does_not_read(users):
    users.strange("deaf", timeout=0.5)
    assert "did not answer within 0.5 seconds" in users.tool("s.go")["text"]


def test_one_without_tools(users):
    users.strange("toolless")
    tools, stderr = users.list()
    assert not [t for t in tools if t.startswith("s.")] and stderr == ""
    assert "has no tool 'go'" in users.tool("s.go")["text"]


def test_a_server_that_crashes_is_started_again_but_not_for_ever(users):
    users.strange("crash")
    with users.door() as door:
        for _ in range(4):
            failed, text = door.call("s.go")
            assert failed and "something terrible happened" in text
        failed, text = door.call("s.go")
        assert failed and "ended 4 times; it is not started again" in text
        failed, _ = door.call("plan", {})
        assert not failed, "hutch goes on"


def test_a_hung_call_is_cancelled_and_the_server_goes_on(users):
    users.strange("wait", timeout=20)
    with users.door() as door:
        def recorded(fits):
            return [m for m in json.loads(door.call("s.record")[1]) if fits(m)]

        # Calls that only read run together: cancelled before it is sent, a call would never reach the server.
        number = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 1}})
        calls = harness.wait_until(lambda: recorded(lambda m: m.get("params", {}).get("name") == "go"), seconds=60, what="the call is there")
        door.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        cancelled = harness.wait_until(lambda: recorded(lambda m: m["method"] == "notifications/cancelled"), seconds=60,
                                       what="the server hears of it")
        assert cancelled[0]["params"]["requestId"] == calls[0]["id"]


def test_calls_at_once_over_one_connection(users):
    """The server answers both when both are there, in the other order."""
    users.strange("wait")
    with users.door() as door:
        door.call("s.record")
        one = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 1}})
        two = door.begin("tools/call", {"name": "s.go", "arguments": {"a": 2}})
        texts = [door.end(n)["result"]["content"][0]["text"] for n in (one, two)]
    assert texts == ['both {"a": 1}', 'both {"a": 2}']


def test_progress_is_passed_on_clean(users):
    users.strange("slow")
    with users.door() as door:
        assert door.call("s.go", _meta={"progressToken": 5}) == (False, "slow but fine")
        said = [n["params"].get("message") for n in door.news if n["method"] == "notifications/progress"]
    assert said and set(said) <= {"step 0", "step 1", "step 2"}


def test_what_a_server_asks_is_refused(users):
    users.strange("asks")
    said = json.loads(users.tool("s.go")["text"])
    assert said[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert [s["error"]["code"] for s in said[1:]] == [-32601] * 3 and [s["id"] for s in said] == [1, "r", 3, 4]


def test_tools_that_come_and_go(users):
    users.strange("changes")
    with users.door() as door:
        assert door.call("s.new")[0]
        assert door.call("s.go") == (False, "changed")
        assert door.call("s.new") == (False, "changed")
        names = [t["name"] for t in door.ask("tools/list", {})["result"]["tools"]]
        assert "s.go" in names and "s.new" not in names


def test_pages(users):
    users.strange("pages")
    assert [t for t in users.list()[0] if t.startswith("s.")] == [f"s.t{i}" for i in range(5)]
    users.strange("endless-pages")
    tools, stderr = users.list()
    assert len([t for t in tools if t.startswith("s.")]) == 100 and "behind 100 pages" in stderr
    users.strange("crowd")
    tools, stderr = users.list()
    assert len([t for t in tools if t.startswith("s.")]) == 1000 and "more than 1000 tools" in stderr


def test_names_and_schemas_are_judged(users):
    users.strange("names")
    tools, stderr = users.list()
    assert {t for t in tools if t.startswith("s.")} == {"s.good", "s.sly", "s.loop", "s.odd-output"}
    assert "a second tool 'good'" in stderr and "\x1b" not in stderr
    for name in ("schemaless", "list", "string", "deep", "wide"):
        assert f"'{name}'" in stderr, name
    sly = tools["s.sly"]
    assert sly["title"] == "A title" and sly["description"].startswith("line[2J one\nline twozz")
    assert len(sly["description"].encode()) <= (16 << 10) + 3
    assert "output_schema" not in tools["s.odd-output"]
    assert "too deep" in users.tool("s.loop", {"a": 1})["text"]


def test_contents(users):
    users.strange("contents")
    with users.door() as door:
        def text(name):
            return door.call("s." + name)
        assert text("nul") == (False, "a\u2400b")
        assert "image image/png" in text("bad-image")[1] and "\x1b" not in text("odd-image")[1]
        assert "[audio audio/wav, 4 bytes of base64, not shown]" in text("audio")[1]
        assert text("resource")[1] == "[resource file:///a text/plain]\ninside\n[resource file:///b , 4 bytes of base64, not shown]\n"
        assert text("link")[1] == "[link to resource file:///c: cee - third]\n"
        assert "hologram" in text("unknown")[1]
        assert text("no-list")[0] and "not an array" in text("no-list")[1]
        assert text("nothing")[0] is False
        for name in ("long", "many", "long-nul"):
            failed, said = text(name)
            assert not failed and "left out" in said and len(said.encode()) <= 1 << 20, name
        assert text("bad-data")[0] and "output.n: must be of type integer" in text("bad-data")[1]
        assert text("no-data")[0]
    result = users.tool("s.data")
    assert result["data"] == {"n": 5} and json.loads(result["text"]) == {"n": 5}
    result = users.tool("s.image")
    assert result["image"]["base64"].startswith("iVBOR") and "not shown" in result["text"]
    assert users.tool("s.array-data")["data"] is None
