"""Tools of the person's own: an executable with a manifest, in the workspace or in the person's configuration."""
import json
import os
import stat
import subprocess

import harness
import pytest

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
          "additionalProperties": False}
ECHO = "#!/bin/sh\nprintf 'got: '; cat\n"


class Desk:
    """A workspace with tools, and a configuration folder with tools, of one caller."""

    def __init__(self, box):
        self.box = box
        self.config = box.caller.folder(box.scratch, "config")
        box.env["XDG_CONFIG_HOME"] = str(self.config)
        self.persons = self._folder(self.config / "hutch", "tools")
        self.workspace = self._folder(box.workspace / ".hutch", "tools")

    def _folder(self, parent, name):
        self.box.caller.own(self._made(parent))
        return self.box.caller.own(self._made(parent / name))

    @staticmethod
    def _made(path):
        path.mkdir()
        return path

    def write(self, folder, name, data, mode=0o644):
        path = folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        return self.box.caller.own(path)

    def add(self, name, /, script=ECHO, folder=None, mode=0o755, **manifest):
        folder = folder or self.workspace
        whole = {"name": name, "description": f"Does {name}. More.", "input_schema": SCHEMA, **manifest}
        self.write(folder, name + ".json", json.dumps({k: v for k, v in whole.items() if v is not None}))
        if script is not None:
            self.write(folder, whole.get("command") or name, script, mode)

    def call(self, name, data=None, opts=(), **more):
        """The result object."""
        text = json.dumps({"text": "hello"} if data is None else data)
        done = self.box.hutch("tool", "--json", "-w", self.box.workspace, *opts, name, text, **more)
        assert done.stdout, done
        return json.loads(done.stdout)

    def list(self):
        """Names, and what was said about the rest."""
        done = self.box.hutch("tool", "--list", "--json", "-w", self.box.workspace)
        assert done.returncode == 0, done
        return {t["name"]: t for t in json.loads(done.stdout)}, done.stderr


@pytest.fixture
def desk(box):
    return Desk(box)


def test_a_tool_of_the_workspace_gets_the_input_and_its_output_is_the_result(desk):
    desk.add("echo")
    result = desk.call("echo")
    assert result == {"failed": False, "text": 'got: {"text":"hello"}', "data": None}
    tools, said = desk.list()
    assert tools["echo"]["description"] == "Does echo. More." and tools["echo"]["input_schema"] == SCHEMA
    assert said == ""


def test_it_runs_in_the_box_in_the_workspace(desk):
    desk.add("where", "#!/bin/sh\npwd; id -un; echo > written; ls -d " + str(desk.config) + "\nexit 0\n")
    result = desk.call("where")
    assert result["text"].splitlines()[:2] == ["/workspace", "agent"]
    assert str(desk.config) not in result["text"].splitlines()[2:], "the host's folders are not there"
    assert not (desk.box.workspace / "written").exists(), "changes stay in the box"


def test_a_json_object_becomes_data(desk):
    desk.add("count", '#!/bin/sh\necho \'{"words": 3, "deep": {"a": [1, null]}}\'\n')
    assert desk.call("count")["data"] == {"words": 3, "deep": {"a": [1, None]}}
    for other in ("[1, 2]", '"text"', "17", '{"broken": ', '{"a": 1} more'):
        desk.add("count", f"#!/bin/sh\ncat <<'EOF'\n{other}\nEOF\n")
        result = desk.call("count")
        assert result["data"] is None and result["text"] == other + "\n"


def test_what_an_output_schema_promises_is_checked(desk):
    promise = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    desk.add("n", "#!/bin/sh\necho '{\"n\": 5}'\n", output_schema=promise)
    assert desk.call("n")["data"] == {"n": 5}
    desk.add("n", "#!/bin/sh\necho '{\"n\": \"five\"}'\n", output_schema=promise)
    result = desk.call("n")
    assert result["failed"] and "output.n: must be of type integer" in result["text"]
    desk.add("n", "#!/bin/sh\necho five\n", output_schema=promise)
    assert "no JSON object" in desk.call("n")["text"]


def test_input_is_checked_before_anything_runs(desk):
    desk.add("echo", "#!/bin/sh\necho ran\n")
    result = desk.call("echo", {"text": 3})
    assert result["failed"] and result["text"].startswith("input.text: must be of type string")
    assert desk.call("echo", {"text": "a", "more": 1})["text"].startswith("input.more: is not known here")


def test_a_status_is_a_failure_with_stderr(desk):
    desk.add("bad", "#!/bin/sh\necho partial\necho 'first' >&2; echo 'the reason' >&2\nexit 3\n")
    result = desk.call("bad")
    assert result["failed"] and result["data"] == {"exit_code": 3, "timed_out": False, "stderr": "first\nthe reason\n"}
    assert "exited with status 3" in result["text"] and "the reason" in result["text"] and "partial" in result["text"]


def test_a_signal_is_told(desk):
    desk.add("bad", "#!/bin/sh\nkill -SEGV $$\n")
    assert "ended by SIGSEGV" in desk.call("bad")["text"]


def test_only_the_end_of_a_long_stderr_is_shown(desk):
    desk.add("bad", "#!/bin/sh\nyes wordy | head -c 3000000 >&2; echo 'the reason' >&2; exit 1\n")
    result = desk.call("bad")
    assert "the reason" in result["text"] and len(result["text"]) < 10000


def test_a_timeout_ends_it(desk):
    desk.add("slow", "#!/bin/sh\nsleep 1000\n", timeout=0.3)
    result = desk.call("slow")
    assert result["failed"] and result["data"]["timed_out"] and "0.3 seconds" in result["text"]


def test_output_is_bounded_and_the_gap_told(desk):
    desk.add("loud", "#!/bin/sh\nprintf start; yes | head -c 5000000; printf end\n")
    text = desk.call("loud")["text"]
    assert text.startswith("start") and text.endswith("end") and "bytes left out" in text and len(text) <= 1 << 20


def test_output_that_is_not_utf8_is_made_valid_and_stays_within_the_bound(desk):
    desk.add("raw", "#!/bin/sh\nhead -c 2000000 /dev/zero | tr '\\0' '\\377'\n")
    result = desk.call("raw")
    assert not result["failed"] and result["text"].startswith("\ufffd") and "bytes left out" in result["text"]
    assert len(result["text"].encode()) <= 1 << 20


def test_much_input_reaches_it(desk):
    desk.add("count", "#!/bin/sh\nwc -c\n")
    done = desk.box.hutch("tool", "-w", desk.box.workspace, "count", "-", input=json.dumps({"text": "x" * 3_000_000}))
    assert done.stdout.strip() == str(3_000_000 + len('{"text":""}')), done


def test_one_that_does_not_read_its_input_is_no_failure(desk):
    desk.add("deaf", "#!/bin/sh\nexec 0<&-\necho done\n")
    done = desk.box.hutch("tool", "-w", desk.box.workspace, "deaf", "-", input=json.dumps({"text": "x" * 3_000_000}))
    assert done.returncode == 0 and done.stdout == "done\n", done


def test_the_persons_own_are_copied_into_the_box(desk):
    desk.add("mine", "#!/bin/sh\necho mine: $0; cat\n", folder=desk.persons)
    result = desk.call("mine")
    assert result["text"] == 'mine: /tmp/.hutch/tools/mine\n{"text":"hello"}'
    assert "mine" in desk.list()[0]


def test_a_changed_executable_is_copied_anew(desk):
    made = desk.box.hutch("box", "new", "-w", desk.box.workspace)
    box_id = made.stdout.strip()
    try:
        for word in ("one", "two"):
            desk.add("mine", f"#!/bin/sh\necho {word}\n", folder=desk.persons)
            done = desk.box.hutch("tool", "--box", box_id, "mine", '{"text":""}')
            assert done.stdout == word + "\n", done
    finally:
        desk.box.hutch("box", "rm", box_id)


def test_a_kept_box_runs_tools_that_were_written_in_it(desk):
    made = desk.box.hutch("box", "new", "-w", desk.box.workspace)
    box_id = made.stdout.strip()
    manifest = json.dumps({"name": "fresh", "description": "New.", "input_schema": {"type": "object"}})
    script = f"cd /workspace/.hutch/tools && echo '{manifest}' > fresh.json && printf '#!/bin/sh\\necho new\\n' > fresh && chmod +x fresh"
    try:
        assert desk.box.hutch("box", "exec", box_id, "--", "sh", "-c", script).returncode == 0
        assert desk.box.hutch("tool", "--box", box_id, "fresh").stdout == "new\n"
        assert not (desk.workspace / "fresh").exists()
    finally:
        desk.box.hutch("box", "rm", box_id)


def test_a_command_beside_the_manifest(desk):
    (desk.workspace / "bin").mkdir()
    desk.box.caller.own(desk.workspace / "bin")
    desk.add("echo", command="bin/run.sh")
    assert desk.call("echo")["text"].startswith("got:")


def test_a_link_within_the_workspace_is_followed(desk):
    desk.add("echo", script=None)
    desk.box.put("real.sh", ECHO, 0o755)
    (desk.workspace / "echo").symlink_to("../../real.sh")
    assert desk.call("echo")["text"].startswith("got:")


def test_one_that_only_reads_says_so(desk):
    desk.add("look", reads_only=True)
    desk.add("echo")
    tools, _ = desk.list()
    assert tools["look"]["reads_only"] and not tools["echo"]["reads_only"] and tools["echo"]["runs_code"]


BAD = [
    ("broken JSON", "{\"name\": ", "bad.json: line 1, column 9"),
    ("empty", "", "bad.json: line 1"),
    ("no object", "[]", "manifest: must be of type object"),
    ("a member twice", '{"name": "bad", "name": "bad"}', "duplicate object key"),
    ("no name", {"name": None}, "manifest.name: is missing"),
    ("no description", {"description": None}, "manifest.description: is missing"),
    ("an empty description", {"description": ""}, "manifest.description:"),
    ("no schema", {"input_schema": None}, "manifest.input_schema: is missing"),
    ("a schema that is no object", {"input_schema": []}, "manifest.input_schema: must be of type object"),
    ("a schema of no object", {"input_schema": {"type": "string"}}, 'manifest.input_schema.type: must be "object"'),
    ("another name", {"name": "good"}, 'manifest.name: must be "bad"'),
    ("a timeout of nothing", {"timeout": 0}, "manifest.timeout:"),
    ("a timeout in words", {"timeout": "soon"}, "manifest.timeout: must be of type number"),
    ("a command elsewhere", {"command": "../../../bin/sh"}, "manifest.command: must be a path beside the manifest"),
    ("a command from the root", {"command": "/bin/sh"}, "manifest.command: must be a path beside the manifest"),
]


@pytest.mark.parametrize("change,said", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("place", ["workspace", "persons"])
def test_a_bad_manifest_is_told_and_hides_no_other(make_box, place, change, said):
    desk = Desk(make_box("user"))
    folder = getattr(desk, place)
    desk.add("good", folder=folder)
    if isinstance(change, str):
        desk.write(folder, "bad.json", change)
        desk.write(folder, "bad", ECHO, 0o755)
    else:
        desk.add("bad", folder=folder, script=None, **change)
        desk.write(folder, "bad", ECHO, 0o755)
    tools, stderr = desk.list()
    assert "good" in tools and "bad" not in tools
    assert said in stderr and "bad.json" in stderr and len(stderr.splitlines()) == 1
    result = desk.call("bad")
    assert result["failed"] and said in result["text"]
    assert desk.call("good")["text"].startswith("got:")


@pytest.mark.parametrize("place", ["workspace", "persons"])
def test_an_executable_must_be_there_and_executable(make_box, place):
    desk = Desk(make_box("user"))
    folder = getattr(desk, place)
    desk.add("gone", script=None, folder=folder)
    desk.add("plain", folder=folder, mode=0o644)
    desk.add("folder", script=None, folder=folder)
    desk.box.caller.own(desk._made(folder / "folder"))
    desk.add("good", folder=folder)
    tools, stderr = desk.list()
    assert "good" in tools and not {"gone", "plain", "folder"} & set(tools)
    assert "gone.json: its executable" in stderr and "is missing" in stderr
    assert "plain.json: its executable is not executable; run `chmod +x" in stderr
    assert "folder.json: its executable" in stderr


@pytest.mark.parametrize("name", ["Upper", "1st", "sp ace", "a" * 65, "dot.ted", "\u00e4", "esc\x1b[31m"])
def test_bad_names_are_refused(make_box, name):
    desk = Desk(make_box("user"))
    desk.add("good")
    desk.add(name)
    tools, stderr = desk.list()
    assert "good" in tools and name not in tools and "a tool is named with" in stderr and "\x1b" not in stderr


def test_a_built_in_tool_cannot_be_replaced(desk):
    desk.add("plan")
    desk.add("plan", folder=desk.persons)
    tools, stderr = desk.list()
    assert stderr.count("is built in") == 2 and "Does plan" not in tools["plan"]["description"]


def test_a_workspace_cannot_replace_the_persons_tool(desk):
    desk.add("both", "#!/bin/sh\necho mine\n", folder=desk.persons)
    desk.add("both", "#!/bin/sh\necho theirs\n")
    assert desk.call("both")["text"] == "mine\n"
    tools, stderr = desk.list()
    assert "both" in tools and "you have a tool of that name" in stderr
    desk.write(desk.persons, "both.json", "{")
    assert desk.call("both")["failed"], "not even a broken one gives way"


def test_a_manifest_that_is_no_file(make_box):
    desk = Desk(make_box("user"))
    desk.add("good")
    os.mkfifo(desk.workspace / "pipe.json")
    desk.box.caller.own(desk._made(desk.workspace / "folder.json"))
    (desk.workspace / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(desk.persons / "pipe2.json")
    tools, stderr = desk.list()
    assert "good" in tools and len(stderr.splitlines()) == 4
    for name in ("pipe", "folder", "link", "pipe2"):
        assert name + ".json" in stderr


def test_a_giant_manifest(make_box):
    desk = Desk(make_box("user"))
    for folder, name in ((desk.workspace, "huge"), (desk.persons, "large")):
        with open(desk.write(folder, name + ".json", ""), "r+b") as f:
            f.truncate(1 << 40)
        desk.write(folder, name, ECHO, 0o755)
    desk.add("good")
    tools, stderr = desk.list()
    assert "good" in tools and stderr.count("is larger than 524288 bytes") == 2


def test_a_giant_executable_of_the_persons_is_not_copied(make_box):
    desk = Desk(make_box("user"))
    desk.add("fat", folder=desk.persons)
    with open(desk.persons / "fat", "r+b") as f:
        f.truncate((16 << 20) + 1)
    assert "too large to be copied" in desk.call("fat")["text"]


def test_many_manifests_are_cut_and_told(make_box):
    desk = Desk(make_box("user"))
    for i in range(260):
        desk.add(f"t{i:03}")
    tools, stderr = desk.list()
    assert len([t for t in tools if t[0] == "t" and t[1:].isdigit()]) == 256
    assert "more than 256 manifests" in stderr


def test_what_others_may_have_written_is_not_believed(make_box):
    desk = Desk(make_box("user"))
    desk.add("open", folder=desk.persons)
    (desk.persons / "open.json").chmod(0o666)
    _, stderr = desk.list()
    assert "is writable by everybody" in stderr
    if os.geteuid() == 0:
        (desk.persons / "open.json").chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH)
        os.chown(desk.persons / "open.json", 12345, 12345)
        _, stderr = desk.list()
        assert "belongs to another user" in stderr


def test_schemas_may_not_be_endless(make_box):
    desk = Desk(make_box("user"))
    schema = {"type": "object"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
    desk.add("deep", input_schema=schema)
    desk.add("loop", input_schema={"type": "object", "properties": {"text": {"$ref": "#/properties/text"}}})
    tools, stderr = desk.list()
    assert "deep" not in tools and "nested more than" in stderr
    assert "too deep" in desk.call("loop")["text"]


def test_a_description_cannot_write_to_the_terminal(make_box):
    desk = Desk(make_box("user"))
    desk.add("sly", description="nice\x1b]0;title\x07\u202e\U000e0041\U000e0042 tool " + "x" * 20000)
    text = desk.list()[0]["sly"]["description"]
    assert text.startswith("nice]0;title tool x") and len(text.encode()) <= (16 << 10) + 3 and text.endswith("…")


def test_a_bad_interpreter_is_told(desk):
    desk.add("odd", "#!/no/such/interpreter\n")
    result = desk.call("odd")
    assert result["failed"] and "could not be started" in result["text"]


def test_several_that_read_run_at_once(make_box):
    """Two calls that wait for each other end only if they run side by side."""
    desk = Desk(make_box("user"))
    desk.add("meet", "#!/bin/sh\ncat >/dev/null\ntouch /tmp/$$\nwhile [ $(ls /tmp | grep -c '^[0-9]') -lt 2 ]; do sleep 0.05; done\necho met\n",
             reads_only=True, timeout=20, input_schema={"type": "object"})
    calls = [{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "meet", "arguments": {}}} for i in (1, 2)]
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
             "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    door = subprocess.Popen([*desk.box.caller.prefix, str(desk.box.program), "mcp", "-w", str(desk.box.workspace)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desk.box.env, cwd="/")
    for m in (hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *calls):
        door.stdin.write(json.dumps(m).encode() + b"\n")
    door.stdin.flush()
    answers = {}
    while len(answers) < 3:
        m = json.loads(door.stdout.readline())
        if "id" in m:
            answers[m["id"]] = m
    door.stdin.close()
    door.wait(20)
    assert [answers[i]["result"]["content"][0]["text"] for i in (1, 2)] == ["met\n", "met\n"], answers


def test_the_example_of_the_manual(desk):
    page = (harness.REPO / "docs" / "configuration.md").read_text().split("## Tools of your own")[1]
    manifest = page.split("```json\n")[1].split("```")[0]
    script = page.split("```python\n")[1].split("```")[0]
    desk.write(desk.workspace, "count_words.json", manifest)
    desk.write(desk.workspace, "count_words", script, 0o755)
    desk.box.put("README.md", "one two\nthree\n")
    assert desk.call("count_words", {"path": "README.md"})["data"] == {"words": 3}
