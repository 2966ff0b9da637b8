"""One table, every door: what `hutch tool --list`, its JSON and docs/tools.md say is the same, and the schemas are good."""
import json
import re

import pytest

import harness
import toolkit

jsonschema = pytest.importorskip("jsonschema", reason="no python3-jsonschema on this host")
DESIGN = ["bash", "read_file", "write_file", "edit_file", "list_files", "search_files", "apply_diff", "run_tests", "plan", "git_clone", "git_push", "create_pr", "request_network"]
FLAGS = ["reads_only", "changes_files", "runs_code", "cacheable", "host_side"]


@pytest.fixture
def box(make_box):
    """The table is the same for everybody."""
    return make_box("user")


@pytest.fixture
def tools(box):
    done = box.hutch("tool", "--list", "--json", "-w", box.workspace)
    assert (done.returncode, done.stderr) == (0, "")
    return {tool["name"]: tool for tool in json.loads(done.stdout)}


def test_all_are_there(tools):
    assert set(DESIGN) <= set(tools)


def test_list_for_people(box, tools):
    done = box.hutch("tool", "--list", "-w", box.workspace)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(tools)
    assert all(len(line) < 200 for line in done.stdout.splitlines())


def test_schemas(tools):
    for name, tool in tools.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert tool["title"] and len(tool["description"]) > 40
        for form in (tool["input_schema"], tool["output_schema"]):
            jsonschema.Draft202012Validator.check_schema(form)
            assert form["type"] == "object"
        assert tool["input_schema"]["additionalProperties"] is False, name
        for member, form in tool["input_schema"]["properties"].items():
            assert form.get("description"), f"{name}.{member} has no description"


def test_flags(tools):
    for name, tool in tools.items():
        assert not tool["reads_only"] or not (tool["changes_files"] or tool["runs_code"]), name
        assert not tool["cacheable"] or tool["reads_only"], name
    reading = {name for name, tool in tools.items() if tool["reads_only"]}
    assert reading == {"read_file", "list_files", "search_files"}
    assert {name for name, tool in tools.items() if tool["runs_code"]} == {"bash", "run_tests"}


def test_page_is_made_from_the_table(box):
    page = (harness.REPO / "docs" / "tools.md").read_text()
    assert box.hutch("tool", "--markdown").stdout == page, "run `hutch tool --markdown >docs/tools.md`"


@pytest.mark.parametrize("words, says", [
    (["nope"], "there is no tool 'nope'"),
    ([], "no tool given"),
    (["--list", "plan"], "--list takes no tool name"),
    (["plan", "{"], "the input is not JSON: line 1, column 1"),
    (["plan", "[]"], "the input must be a JSON object"),
    (["plan", '{"a":1,"a":2}'], "duplicate"),
    (["plan", "{}", "more"], "too many arguments"),
    (["plan", "--box", "zz", "--memory", "1G"], "it cannot be used with options for a new box"),
])
def test_wrong_usage(box, words, says):
    done = box.hutch("tool", *words, cwd=box.workspace)
    assert done.returncode == (125 if "zz" in words else 2) and done.stdout == ""
    assert done.stderr.startswith("hutch: ") and done.stderr.count("\n") == 1 and says in done.stderr


def test_violation_names_the_field(box):
    done = box.hutch("tool", "plan", '{"items":[{"text":"a","state":"done"},{"text":"","state":"x"}]}', cwd=box.workspace)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("input.items[1].")


@pytest.fixture
def kept(box):
    yield from toolkit.kept(box)


def test_integers_may_be_written_as_reals(kept):
    """JSON Schema calls 2.0 an integer, and some clients write so; it must count, too."""
    kept.sh("seq 1 9 >n; mkdir -p d; touch d/a d/b d/c; printf 'x\\n' >f")
    assert kept.ok("read_file", path="n", offset=2.0, limit=2.0).data["content"] == "2\n3\n"
    assert len(kept.ok("list_files", path="d", limit=2.0).data["entries"]) == 2
    assert len(kept.ok("search_files", pattern="[0-9]", path="n", max_matches=2.0).data["files"][0]["matches"]) == 2
    diff = "--- one/two/f\n+++ one/two/f\n@@ -1 +1 @@\n-x\n+y\n"
    assert kept.ok("apply_diff", diff=diff, strip=2.0).data["files"][0]["path"] == "f"
    handle = kept.ok("bash", command="sleep 1000", background=True).data["handle"]
    assert kept.ok("bash", handle=float(handle), kill=True).data["handle"] == handle


def test_input_on_stdin(box):
    plan = {"items": [{"text": "ä", "state": "active"}]}
    done = box.hutch("tool", "plan", "-", "--json", input=json.dumps(plan).encode(), cwd=box.workspace)
    result = json.loads(done.stdout)
    assert result["data"]["items"] == plan["items"] and result["text"] == "[>] ä\n" and not result["failed"]
