"""`hutch mcp` with clients that nobody of hutch wrote: the official TypeScript SDK in both of its generations, the
inspector, and the conformance suite."""
import base64
import json
import re
import subprocess

import pytest

from peer import HERE, MODULES

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
GENERATIONS = pytest.mark.parametrize("generation", ["1", "2"])

# A call of each tool; every one that is built in must be here.
CALLS = {
    "bash": {"command": "echo hello; exit 3"},
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "new.txt", "content": "new\n"},
    "edit_file": {"path": "a.txt", "old": "one", "new": "two"},
    "list_files": {},
    "search_files": {"pattern": "main"},
    "apply_diff": {"diff": "--- /dev/null\n+++ b/added.txt\n@@ -0,0 +1 @@\n+added\n"},
    "run_tests": {"command": "true", "framework": "exit_code"},
    "plan": {"items": [{"text": "look", "state": "active"}]},
}

# These need a remote and somebody's consent: each says why it does nothing here (tests/forge has the rest).
REFUSED = {
    "git_clone": {"url": "https://example.org/a.git"},
    "git_push": {},
    "create_pr": {"title": "a", "body": "b"},
    "request_network": {"hosts": ["example.org"], "reason": "to look"},
}


def run_node(node, script, *args, timeout=120):
    done = subprocess.run([node, script, *map(str, args)], capture_output=True, text=True, timeout=timeout, cwd=HERE,
                          check=False)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done


def server_command(box, *options):
    return [*box.caller.prefix, str(box.program), "mcp", "-w", str(box.workspace), *options]


@pytest.fixture
def sdk(node, monkeypatch):
    """The SDK runs one scenario against a fresh server: sdk("1", "look", box, …)."""

    def run(generation, scenario, box, *options, **given):
        for name, value in box.env.items():
            monkeypatch.setenv(name, value)
        result = json.loads(run_node(node, "sdk.mjs", generation, scenario, json.dumps(given),
                                     *server_command(box, *options)).stdout)
        # The SDK hands notifications on later than answers: one that it reads together with the answer comes too late.
        assert [t for t in result["troubles"] if "progress notification for an unknown token" not in t] == []
        return result

    return run


@pytest.fixture
def ready(box):
    """A workspace with something in it."""
    box.put("a.txt", "one\n")
    box.put("p.png", PNG)
    (box.workspace / "src").mkdir()
    box.caller.own(box.workspace / "src")
    box.put("src/main.c", "int main(void)\n{\n    return 0;\n}\n")
    return box


def as_javascript(value):
    """Without what is lost of large numbers there."""
    return json.loads(json.dumps(value), parse_int=float)


@GENERATIONS
def test_sdk_looks_around(sdk, ready, generation):
    seen = sdk(generation, "look", ready)
    assert seen["server"]["name"] == "hutch" and "hutch://diff" in seen["instructions"]
    assert {"tools", "resources", "completions"} <= set(seen["capabilities"])
    listed = json.loads(ready.hutch("tool", "--list", "--json", "-w", ready.workspace).stdout)
    assert [t["name"] for t in seen["tools"]] == [t["name"] for t in listed]
    for shown, told in zip(seen["tools"], listed):
        assert as_javascript(shown["inputSchema"]) == as_javascript(told["input_schema"])
        assert as_javascript(shown.get("outputSchema")) == as_javascript(told.get("output_schema"))
        assert (shown["title"], shown["description"]) == (told["title"], told["description"])
        assert shown["annotations"]["readOnlyHint"] == told["reads_only"]
        assert shown["annotations"]["destructiveHint"] == (
            not told["reads_only"] and (told["changes_files"] or told["runs_code"]))
    assert {r["uri"] for r in seen["resources"]} == {"hutch://diff", "file:///workspace/a.txt", "file:///workspace/p.png",
                                                     "file:///workspace/src/main.c"}
    assert seen["templates"][0]["uriTemplate"] == "file:///workspace/{path}"


@GENERATIONS
def test_sdk_calls_each_tool(sdk, ready, generation):
    """The SDK checks each result's structured content against the tool's schema, and throws if it does not fit."""
    names = [t["name"] for t in json.loads(ready.hutch("tool", "--list", "--json", "-w", ready.workspace).stdout)]
    assert set(names) == CALLS.keys() | REFUSED.keys()
    results = sdk(generation, "calls", ready, calls=[[name, (CALLS | REFUSED)[name]] for name in names])["results"]
    for name, result in zip(names, results):
        assert result.get("isError", False) == (name in REFUSED), (name, result)
        if name in REFUSED:
            continue
        assert result["content"][0]["type"] == "text" and isinstance(result["structuredContent"], dict), name
    assert results[names.index("bash")]["structuredContent"]["exit_code"] == 3


@GENERATIONS
def test_sdk_calls_that_fail(sdk, ready, generation):
    calls = [["read_file", {"path": "none"}], ["read_file", {"path": "src"}], ["read_file", {}],
             ["edit_file", {"path": "a.txt", "old": "nowhere", "new": "x"}], ["bash", {"command": 1}]]
    results = sdk(generation, "calls", ready, calls=calls)["results"]
    assert [r["isError"] for r in results] == [True] * len(calls)
    assert "path" in results[2]["content"][0]["text"] and "input.command" in results[4]["content"][0]["text"]
    missing = -32002 if generation == "1" else -32602
    assert sdk(generation, "failures", ready)["codes"] == [-32602, missing, missing, -32602]


@GENERATIONS
def test_sdk_calls_together(sdk, ready, generation):
    calls = [["read_file", {"path": "a.txt"}]] * 20 + [["write_file", {"path": "a.txt", "content": "two\n"}]] + [
        ["read_file", {"path": "a.txt"}]] * 20
    results = sdk(generation, "together", ready, calls=calls)["results"]
    assert all("one" in r["content"][0]["text"] for r in results[:20])
    assert all("two" in r["content"][0]["text"] for r in results[21:])


@GENERATIONS
def test_sdk_gets_an_image(sdk, ready, generation):
    [result] = sdk(generation, "calls", ready, calls=[["read_file", {"path": "p.png"}]])["results"]
    [image] = [c for c in result["content"] if c["type"] == "image"]
    assert base64.b64decode(image["data"]) == PNG and image["mimeType"] == "image/png"


@GENERATIONS
def test_sdk_reads_resources(sdk, ready, generation):
    uris = ["file:///workspace/src/main.c", "file:///workspace/p.png", "hutch://diff"]
    seen = sdk(generation, "resources", ready, uris=uris, typed="src/m")
    assert seen["read"][0][0]["text"].startswith("int main")
    assert base64.b64decode(seen["read"][1][0]["blob"]) == PNG
    assert seen["read"][2][0]["text"] == ""
    assert seen["completion"]["values"] == ["src/main.c"]


@GENERATIONS
def test_sdk_hears_of_progress(sdk, ready, generation):
    seen = sdk(generation, "progress", ready, command="for i in 1 2 3 4; do echo step $i; sleep 0.6; done")
    steps = [p["progress"] for p in seen["told"]]
    assert len(steps) >= 2 and steps == sorted(set(steps))
    assert all(re.fullmatch(r"step \d", p["message"]) for p in seen["told"])
    assert seen["result"]["structuredContent"]["exit_code"] == 0


@GENERATIONS
def test_sdk_aborts(sdk, ready, generation):
    seen = sdk(generation, "abort", ready)
    assert "enough" in seen["failure"]
    assert "none" in seen["after"]["content"][0]["text"]


# The inspector.


@pytest.fixture
def inspect(node, ready, monkeypatch):
    for name, value in ready.env.items():
        monkeypatch.setenv(name, value)

    def run(method, *args):
        return json.loads(run_node(node, MODULES / ".bin" / "mcp-inspector", "--cli", *server_command(ready), "--method",
                                   method, *args).stdout)

    return run


def test_inspector(inspect):
    names = {t["name"] for t in inspect("tools/list", "--strict")["tools"]}
    assert {"bash", "read_file", "plan"} <= names <= CALLS.keys() | REFUSED.keys()
    result = inspect("tools/call", "--tool-name", "read_file", "--tool-arg", "path=a.txt")
    assert "one" in result["content"][0]["text"] and isinstance(result["structuredContent"], dict)
    assert inspect("resources/list")["resources"][0]["uri"] == "hutch://diff"
    assert inspect("resources/templates/list")["resourceTemplates"][0]["uriTemplate"] == "file:///workspace/{path}"
    assert inspect("resources/read", "--uri", "file:///workspace/a.txt")["contents"][0]["text"] == "one\n"


# The conformance suite.

# These scenarios say something about this server, and must pass.
APPLY = {"server-initialize", "logging-set-level", "ping", "tools-list", "resources-list"}
# These test streamable HTTP, which here is the bridge's and not hutch's.
OF_THE_TRANSPORT = {"server-sse-polling", "server-sse-multiple-streams", "dns-rebinding-protection"}
# These need tools, resources and prompts of fixed names (test_simple_text, test://static-text…) that the suite's own
# example server has; what they test of a server is tested above with hutch's tools.
NEED_A_TEST_SERVER = {
    "completion-complete", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
    "tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress", "tools-call-sampling",
    "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
    "resources-read-text", "resources-read-binary", "resources-templates-read"}
# These are of features that this server does not have, and does not claim to have: prompts, subscriptions.
NOT_CLAIMED = {"prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
               "prompts-get-with-image", "resources-subscribe", "resources-unsubscribe"}


@pytest.fixture
def bridge(node, make_box):
    """The URL of a server in front of `hutch mcp`."""
    box = make_box("user")
    process = subprocess.Popen([node, "bridge.mjs", *server_command(box)], cwd=HERE, env={**box.env}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    yield process.stdout.readline().strip()
    process.terminate()
    process.wait(30)
    process.stdout.close()


def test_conformance(node, bridge, tmp_path):
    suite = MODULES / ".bin" / "conformance"
    listed = subprocess.run([node, suite, "list", "--server"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  - (\S+)", listed, re.M)) == APPLY | OF_THE_TRANSPORT | NEED_A_TEST_SERVER | NOT_CLAIMED
    done = subprocess.run([node, suite, "server", "--url", bridge, "--suite", "all", "-o", str(tmp_path)], text=True,
                          capture_output=True, timeout=300, check=False)
    outcome = {name: (int(passed), int(failed)) for name, passed, failed in
               re.findall(r"^. ([\w-]+): (\d+) passed, (\d+) failed$", done.stdout, re.M)}
    assert {name: outcome.get(name) for name in APPLY} == {name: (1, 0) for name in APPLY}, done.stdout[-3000:]
    # What does not apply is refused with an error, as it should be, and ends nothing.
    assert all(outcome[name] == (0, 1) for name in NEED_A_TEST_SERVER | NOT_CLAIMED), outcome
