"""The requests that hutch sends keep the providers' rules, and fit the types of their own clients."""
import json
import subprocess
from pathlib import Path

import pytest

import conversations
import rules
import server
import streams

EACH = 120
TYPES = {"anthropic": "Anthropic.MessageCreateParamsStreaming", "chat": "OpenAI.ChatCompletionCreateParamsStreaming",
         "responses": "OpenAI.Responses.ResponseCreateParamsStreaming"}
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def lines():
    return conversations.lines("hutch", EACH)


@pytest.fixture(scope="module")
def bodies(lines, probe):
    answers = probe([dict(line, encode=True) for line in lines])
    assert not [a for a in answers if "error" in a]
    return [json.loads(a["body"]) for a in answers]


def test_rules(lines, bodies):
    for line, body in zip(lines, bodies):
        rules.CHECKS[line["api"]](body)


def test_sent_as_encoded(lines, bodies, probe):
    """What a server gets is what the encoder wrote."""
    some = [(f"{line['api']}-{i}", line, body) for i, (line, body) in enumerate(zip(lines, bodies)) if i % 20 == 0]
    answer = {s["api"]: s["pieces"] for s in streams.corpus("answers", 1)}
    with server.Server({name: answer[line["api"]] for name, line, _ in some}) as playing:
        replies = probe([dict(line, url=f"{playing.url}/{name}") for name, line, _ in some])
    assert not [r for r in replies if "error" in r]
    for name, line, body in some:
        if line["api"] == "chat":  # this server is not OpenAI's own
            body = {("max_tokens" if k == "max_completion_tokens" else k): v for k, v in body.items()}
            body["messages"] = playing.bodies[name][0]["messages"] if has_long_id(line) else body["messages"]
        assert playing.bodies[name] == [body]


def has_long_id(line):
    return any(len(b.get("id", "")) > 40 for m in line["messages"] for b in m["content"])


def test_prefix(lines, bodies, probe):
    """A conversation's request is the beginning of the longer one's, cache marks apart."""
    mark = ',"cache_control":{"type":"ephemeral"}'
    longer = probe([dict(line, encode=True) for line in lines])
    shorter = probe([dict(line, encode=True, messages=line["messages"][:-2] or line["messages"]) for line in lines])
    for long, short in zip(longer, shorter):
        begun = short["body"].replace(mark, "")[:-2]
        assert long["body"].replace(mark, "").startswith(begun)


def only_known(api, body):
    """What only other servers than OpenAI's know is not in its types."""
    return api != "chat" or not any("reasoning_content" in m for m in body["messages"])


@pytest.fixture
def tsc(node, tmp_path):
    """What the compiler says against a program that uses the clients' types."""
    options = {"noEmit": True, "strict": True, "skipLibCheck": True, "target": "es2022", "module": "nodenext", "types": []}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["bodies.ts"]}))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")

    def check(program):
        (tmp_path / "bodies.ts").write_text('import Anthropic from "@anthropic-ai/sdk";\nimport OpenAI from "openai";\n' + program)
        done = subprocess.run([node, HERE / "node_modules/typescript/lib/tsc.js"], cwd=tmp_path, capture_output=True, text=True,
                              timeout=300)
        return done.stdout + done.stderr

    return check


def test_types(lines, bodies, tsc):
    """Nothing is wrong with the bodies as literals of the clients' parameter types."""
    some = [(line["api"], body) for line, body in zip(lines, bodies) if only_known(line["api"], body)][::2]
    assert {api for api, _ in some} == set(TYPES)
    said = tsc("".join(f"export const b{i}: {TYPES[api]} = {json.dumps(body)};\n" for i, (api, body) in enumerate(some)))
    assert said == "", said[:4000]


def test_types_can_fail(tsc):
    said = tsc(f"""
export const a: {TYPES["anthropic"]} = {{model: "m", max_tokens: 1, stream: true, messages: [{{role: "user", content: [
  {{type: "text", txt: "a"}}]}}]}};
export const c: {TYPES["chat"]} = {{model: "m", stream: true, messages: [{{role: "tool", content: "a"}}]}};
export const r: {TYPES["responses"]} = {{model: "m", stream: true, input: [{{type: "function_call_output", id: "x", output: 7}}]}};
""")
    assert "'txt'" in said and "bodies.ts(5," in said and "bodies.ts(6," in said, said
