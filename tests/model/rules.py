"""The providers' documented rules for requests, as checks of a body. Each raises AssertionError with what is wrong."""
import json
import re

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_text(block):
    assert isinstance(block["text"], str) and block["text"].strip(), "a text without words"


def marks(value):
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(marks(v) for k, v in value.items() if k not in ("cache_control", "input"))
    return sum(map(marks, value)) if isinstance(value, list) else 0


def check_result(block):
    assert set(block) <= {"type", "tool_use_id", "content", "is_error", "cache_control"}
    assert block["content"], "an empty result"
    for part in block["content"]:
        assert part["type"] in ("text", "image")
        if part["type"] == "text":
            check_text(part)


def anthropic(body):
    assert body["stream"] is True and body["max_tokens"] > 0
    assert marks(body) <= 4, "more than four cache marks"
    ids, open_calls = set(), []
    for i, message in enumerate(body["messages"]):
        assert message["role"] == ("assistant" if i % 2 else "user"), "roles do not alternate"
        content = message["content"]
        assert content, "an empty message"
        kinds = [b["type"] for b in content]
        results = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
        assert sorted(results) == sorted(open_calls), "results do not answer the calls before"
        assert kinds[:len(results)] == ["tool_result"] * len(results), "results do not come first"
        open_calls = []
        for block in content:
            allowed = ("text", "image", "tool_result") if message["role"] == "user" else (
                "text", "thinking", "redacted_thinking", "tool_use")
            assert block["type"] in allowed, block["type"]
            if block["type"] == "text":
                check_text(block)
            elif block["type"] == "tool_result":
                check_result(block)
            elif block["type"] == "tool_use":
                assert NAME.fullmatch(block["name"]) and NAME.fullmatch(block["id"]), block
                assert isinstance(block["input"], dict)
                assert block["id"] not in ids, "an id twice"
                ids.add(block["id"])
                open_calls.append(block["id"])
            elif block["type"] == "thinking":
                assert block["signature"] and "cache_control" not in block
        assert kinds[-1] not in ("thinking", "redacted_thinking"), "a thought at the end"
        if message["role"] == "assistant" and kinds[-1] == "text":
            assert content[-1]["text"] == content[-1]["text"].rstrip(), "white space at the end of an answer"
    assert not open_calls


def check_parts(content, kinds):
    if isinstance(content, str):
        assert content.strip(), "an empty message"
        return
    assert content, "an empty message"
    for part in content:
        assert part["type"] in kinds, part["type"]
        if "text" in part:
            check_text(part)


def chat(body):
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    open_calls = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            assert isinstance(message["content"], str) and message["content"]
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "another message before all calls are answered"
        if message["role"] in ("user", "system"):
            check_parts(message["content"], ("text", "image_url"))
            continue
        assert message["role"] == "assistant"
        assert message["content"] or message.get("tool_calls"), "neither content nor calls"
        for one in message.get("tool_calls", []):
            assert one["type"] == "function" and NAME.fullmatch(one["function"]["name"])
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
            assert one["id"] not in open_calls and len(one["id"]) <= 40
            open_calls.add(one["id"])
    assert not open_calls


def responses(body):
    assert body["stream"] is True and body["store"] is False and "reasoning.encrypted_content" in body["include"]
    open_calls, answered, before = set(), set(), None
    for item in body["input"]:
        assert not (before == "reasoning" and item["type"] == "message" and item["role"] == "user"), "a thought that led to nothing"
        before = item["type"]
        if item["type"] == "function_call":
            assert item["call_id"] not in open_calls | answered and len(item["call_id"]) <= 64
            assert NAME.fullmatch(item["name"]) and isinstance(json.loads(item["arguments"]), dict)
            open_calls.add(item["call_id"])
        elif item["type"] == "function_call_output":
            open_calls.remove(item["call_id"])
            answered.add(item["call_id"])
            assert item["output"]
        elif item["type"] == "message":
            check_parts(item["content"], ("input_text", "input_image") if item["role"] == "user" else ("output_text",))
        else:
            assert item["type"] == "reasoning" and item["encrypted_content"] and None not in item.values()
    assert not open_calls and before != "reasoning"


CHECKS = {"anthropic": anthropic, "chat": chat, "responses": responses}
