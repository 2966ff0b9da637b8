"""The documented rules of the three protocols, checked more strictly than any provider does.

problems(api, body, headers, key) lists what is wrong with one request. grown(before, after) says where the second of
two requests of one conversation does not begin with the bytes of the first (cache marks removed), which is what a
provider's prompt cache lives on.
"""
import json
import re

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
MIMES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


class Problems(list):
    def need(self, condition, where, what):
        if not condition:
            self.append(f"{where}: {what}")
        return bool(condition)

    def keys(self, thing, where, required, optional=()):
        if not self.need(isinstance(thing, dict), where, "is no object"):
            return False
        self.need(not set(required) - set(thing), where, f"lacks {sorted(set(required) - set(thing))}")
        self.need(not set(thing) - set(required) - set(optional), where, f"unknown {sorted(set(thing) - set(required) - set(optional))}")
        return not set(required) - set(thing)

    def text(self, value, where):
        self.need(isinstance(value, str) and value.strip(), where, "text is empty")

    def schema(self, schema, where):
        self.need(isinstance(schema, dict) and schema.get("type") == "object", where, "schema is no object's")
        self.need(not {"oneOf", "anyOf", "allOf"} & set(schema or {}), where, "schema has a choice at its top")

    def tool(self, name, description, schema, seen, where):
        self.need(isinstance(name, str) and NAME.match(name), where, f"bad name {name!r}")
        self.need(name not in seen, where, f"second tool {name}")
        self.need(isinstance(description, str) and description, where, "no description")
        self.schema(schema, where)
        seen.add(name)


# --- Anthropic -------------------------------------------------------------------------------------------------------

ANTHROPIC_TOP = {"system", "tools", "tool_choice", "stream", "temperature", "thinking", "metadata", "stop_sequences", "top_p",
                 "top_k", "service_tier", "output_config", "context_management"}


def anthropic_mark(p, block, where):
    mark = block.get("cache_control")
    if mark is None:
        return 0
    if p.keys(mark, where + ".cache_control", ["type"], ["ttl"]):
        p.need(mark["type"] == "ephemeral" and mark.get("ttl", "5m") in ("5m", "1h"), where, f"bad mark {mark}")
    p.need(block.get("type") not in ("thinking", "redacted_thinking"), where, "a mark on thinking")
    return 1


def anthropic_image(p, block, where):
    if p.keys(block, where, ["type", "source"], ["cache_control"]) and \
            p.keys(block["source"], where, ["type", "media_type", "data"]):
        p.need(block["source"]["type"] == "base64" and block["source"]["media_type"] in MIMES, where, "bad image")


def anthropic_result(p, block, where):
    p.keys(block, where, ["type", "tool_use_id"], ["content", "is_error", "cache_control"])
    p.need(isinstance(block.get("is_error", False), bool), where, "is_error is no boolean")
    content = block.get("content", "")
    for i, part in enumerate([] if isinstance(content, str) else content):
        if part.get("type") == "image":
            anthropic_image(p, part, f"{where}.content[{i}]")
        elif p.keys(part, f"{where}.content[{i}]", ["type", "text"], ["cache_control"]):
            p.text(part["text"], f"{where}.content[{i}]")


def anthropic_one(p, block, role, where, sent):
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        p.keys(block, where, ["type", "text"], ["cache_control", "citations"])
        p.text(block.get("text"), where)
    elif kind == "image":
        p.need(role == "user", where, "an image of the assistant")
        anthropic_image(p, block, where)
    elif kind == "tool_use" and p.need(role == "assistant", where, "a tool_use of the user"):
        p.keys(block, where, ["type", "id", "name", "input"], ["cache_control"])
        p.need(isinstance(block.get("input"), dict), where, "input is no object")
        p.need(NAME.match(str(block.get("id"))), where, f"bad id {block.get('id')!r}")
        p.need(NAME.match(str(block.get("name"))), where, f"bad name {block.get('name')!r}")
    elif kind == "tool_result" and p.need(role == "user", where, "a tool_result of the assistant"):
        anthropic_result(p, block, where)
    elif kind in ("thinking", "redacted_thinking") and p.need(role == "assistant", where, "thinking of the user"):
        plain = {k: v for k, v in block.items() if k != "cache_control"}
        p.need(plain in sent, where, f"thinking that was not sent so: {str(block)[:200]}")
    elif kind not in ("tool_use", "tool_result", "thinking", "redacted_thinking"):
        p.need(False, where, f"unknown block {kind!r}")


def anthropic_pairs(p, blocks, expected, where):
    """Results come first and answer exactly what was asked for in the message before."""
    got = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
    kinds = [b.get("type") == "tool_result" for b in blocks]
    p.need(kinds == sorted(kinds, reverse=True), where, "a tool_result behind other content")
    p.need(len(set(got)) == len(got), where, "two results for one tool_use")
    p.need(set(got) == set(expected), where, f"results for {sorted(got)} where {sorted(expected)} were asked for")


def anthropic_messages(p, messages, sent, may_pause):
    expected, ids, marks = [], set(), 0
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        if not p.keys(message, where, ["role", "content"]):
            continue
        role, content = message["role"], message["content"]
        p.need(role == ("assistant" if i % 2 else "user"), where, f"is of {role}")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not p.need(blocks, where, "is empty"):
            continue
        for n, block in enumerate(blocks):
            anthropic_one(p, block, role, f"{where}.content[{n}]", sent)
            marks += anthropic_mark(p, block, f"{where}.content[{n}]")
        if role == "user":
            anthropic_pairs(p, blocks, expected, where)
            expected = []
        else:
            expected = [b.get("id") for b in blocks if b.get("type") == "tool_use"]
            p.need(not ids & set(expected) and len(set(expected)) == len(expected), where, "a tool_use id used twice")
            p.need(blocks[-1].get("type") not in ("thinking", "redacted_thinking"), where, "ends with thinking")
            ids |= set(expected)
    p.need(messages[-1].get("role") == "user" or may_pause, "messages", "the last is the assistant's")
    p.need(not expected, "messages", f"nothing answers {expected}")
    return marks


def anthropic(p, body, headers, key, sent, may_pause, counting=False):
    p.need(headers.get("x-api-key") == key, "x-api-key", "is wrong")
    p.need(headers.get("anthropic-version") == "2023-06-01", "anthropic-version", "is wrong")
    required = ["model", "messages"] + ([] if counting else ["max_tokens"])
    if not p.keys(body, "body", required, ANTHROPIC_TOP):
        return
    p.need(counting or isinstance(body["max_tokens"], int) and body["max_tokens"] >= 1, "max_tokens", "is no count")
    marks, seen = 0, set()
    system = body.get("system", [])
    for i, block in enumerate([{"type": "text", "text": system}] if isinstance(system, str) else system):
        p.keys(block, f"system[{i}]", ["type", "text"], ["cache_control"])
        p.text(block.get("text"), f"system[{i}]")
        marks += anthropic_mark(p, block, f"system[{i}]")
    for i, tool in enumerate(body.get("tools", [])):
        if p.keys(tool, f"tools[{i}]", ["name", "input_schema"], ["description", "cache_control", "type", "strict"]):
            p.tool(tool["name"], tool.get("description"), tool["input_schema"], seen, f"tools[{i}]")
            marks += anthropic_mark(p, tool, f"tools[{i}]")
    if p.need(isinstance(body["messages"], list) and body["messages"], "messages", "is empty"):
        marks += anthropic_messages(p, body["messages"], sent, may_pause)
    p.need(marks <= 4, "cache_control", f"{marks} marks")


# --- Chat Completions ------------------------------------------------------------------------------------------------

CHAT_TOP = {"tools", "tool_choice", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p",
            "reasoning_effort", "parallel_tool_calls", "stop", "seed", "store", "user", "prompt_cache_key", "verbosity"}


def chat_content(p, content, where, images):
    if isinstance(content, str):
        return p.text(content, where)
    if p.need(isinstance(content, list) and content, where, "has no content"):
        for i, part in enumerate(content):
            kind = part.get("type")
            p.need(kind == "text" or images and kind == "image_url", f"{where}[{i}]", f"a part of kind {kind}")
            if kind == "text":
                p.text(part.get("text"), f"{where}[{i}]")


def chat_calls(p, calls, ids, where):
    p.need(isinstance(calls, list) and calls, where, "tool_calls is empty")
    for i, c in enumerate(calls or []):
        at = f"{where}.tool_calls[{i}]"
        if p.keys(c, at, ["id", "type", "function"]) and p.keys(c["function"], at, ["name", "arguments"]):
            p.need(c["type"] == "function" and NAME.match(c["function"]["name"]), at, "is no function's")
            p.need(isinstance(c["id"], str) and c["id"] and c["id"] not in ids, at, f"id {c['id']!r} is empty or used twice")
            p.need(is_object(c["function"]["arguments"]), at, "arguments are no JSON object")
            ids.add(c["id"])
    return [c.get("id") for c in calls or []]


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, TypeError):
        return False


def chat_message(p, message, i, open_calls, ids, reasoned):
    where, role = f"messages[{i}]", message.get("role")
    if role == "tool":
        p.keys(message, where, ["role", "tool_call_id", "content"], ["name"])
        if p.need(message.get("tool_call_id") in open_calls, where, f"answers {message.get('tool_call_id')}, which is not open"):
            open_calls.remove(message["tool_call_id"])
        content = message.get("content")
        p.need(isinstance(content, str) or all(part.get("type") == "text" for part in content or [{}]), where, "is not text")
        return
    p.need(not open_calls, where, f"comes before the answers to {open_calls}")
    open_calls.clear()
    if role in ("system", "developer"):
        p.need(i == 0, where, "a system message behind others")
        chat_content(p, message.get("content"), where, False)
    elif role == "user":
        p.keys(message, where, ["role", "content"], ["name"])
        chat_content(p, message.get("content"), where, True)
    elif p.need(role == "assistant", where, f"of {role!r}"):
        p.keys(message, where, ["role"], ["content", "tool_calls", "refusal"] + (["reasoning_content"] if reasoned else []))
        if message.get("content") is not None:
            chat_content(p, message["content"], where, False)
        if "tool_calls" in message:
            open_calls += chat_calls(p, message["tool_calls"], ids, where)
        p.need(message.get("content") or message.get("tool_calls"), where, "says nothing")


def chat(p, body, headers, key, sent, may_pause):
    p.need(headers.get("authorization") == f"Bearer {key}", "authorization", "is wrong")
    if not p.keys(body, "body", ["model", "messages"], CHAT_TOP):
        return
    p.need("stream_options" not in body or body.get("stream"), "stream_options", "without a stream")
    p.need(not {"max_tokens", "max_completion_tokens"} <= set(body), "body", "has two limits of tokens")
    seen, open_calls, ids = set(), [], set()
    for i, tool in enumerate(body.get("tools", [])):
        if p.keys(tool, f"tools[{i}]", ["type", "function"]):
            f = tool["function"]
            p.keys(f, f"tools[{i}]", ["name", "parameters"], ["description", "strict"])
            p.tool(f.get("name"), f.get("description"), f.get("parameters"), seen, f"tools[{i}]")
    p.need("tools" not in body or body["tools"], "tools", "is empty")
    if p.need(isinstance(body["messages"], list) and body["messages"], "messages", "is empty"):
        for i, message in enumerate(body["messages"]):
            chat_message(p, message, i, open_calls, ids, bool(sent))
        p.need(not open_calls, "messages", f"nothing answers {open_calls}")
        p.need(body["messages"][-1].get("role") != "assistant" or may_pause, "messages", "the last is the assistant's")


# --- Responses -------------------------------------------------------------------------------------------------------

RESPONSES_TOP = {"instructions", "tools", "tool_choice", "stream", "store", "include", "max_output_tokens", "reasoning", "text",
                 "temperature", "top_p", "parallel_tool_calls", "prompt_cache_key", "metadata", "truncation", "service_tier"}


def responses_message(p, item, where):
    p.keys(item, where, ["role", "content"], ["type", "id", "status"])
    content, role = item.get("content"), item.get("role")
    if isinstance(content, str):
        return p.text(content, where)
    wanted = {"output_text", "refusal"} if role == "assistant" else {"input_text", "input_image"}
    if p.need(isinstance(content, list) and content, where, "is empty"):
        for i, part in enumerate(content):
            p.need(part.get("type") in wanted, f"{where}.content[{i}]", f"{part.get('type')} of {role}")
            if "text" in part:
                p.text(part["text"], f"{where}.content[{i}]")


def responses_item(p, items, i, open_calls, ids, sent):
    item, where = items[i], f"input[{i}]"
    kind = item.get("type", "message")
    if kind == "function_call":
        p.keys(item, where, ["type", "call_id", "name", "arguments"], ["id", "status"])
        p.need(item.get("call_id") and item.get("call_id") not in ids, where, "call_id is empty or used twice")
        p.need(is_object(item.get("arguments")), where, "arguments are no JSON object")
        ids.add(item.get("call_id"))
        open_calls.append(item.get("call_id"))
    elif kind == "function_call_output":
        p.keys(item, where, ["type", "call_id", "output"], ["id", "status"])
        if p.need(item.get("call_id") in open_calls, where, f"answers {item.get('call_id')}, which is not open"):
            open_calls.remove(item["call_id"])
    elif kind == "reasoning":
        p.need(item in sent, where, f"reasoning that was not sent so: {str(item)[:200]}")
        p.need(i + 1 < len(items) and (items[i + 1].get("type") in ("function_call", "reasoning") or
                                       items[i + 1].get("role") == "assistant"), where, "reasoning without what it led to")
    elif p.need(kind == "message", where, f"unknown item {kind!r}"):
        p.need(item.get("role") == "assistant" or not open_calls, where, f"comes before the answers to {open_calls}")
        responses_message(p, item, where)


def responses(p, body, headers, key, sent, may_pause):
    p.need(headers.get("authorization") == f"Bearer {key}", "authorization", "is wrong")
    if not p.keys(body, "body", ["model", "input"], RESPONSES_TOP):
        return
    p.need(body.get("store") is False, "store", "is not off")
    p.need("reasoning.encrypted_content" in body.get("include", []), "include", "lacks the encrypted reasoning")
    p.need(body.get("max_output_tokens", 16) >= 16, "max_output_tokens", "is under 16")
    seen, open_calls, ids = set(), [], set()
    for i, tool in enumerate(body.get("tools", [])):
        if p.keys(tool, f"tools[{i}]", ["type", "name", "parameters"], ["description", "strict"]):
            p.tool(tool["name"], tool.get("description"), tool["parameters"], seen, f"tools[{i}]")
    items = body["input"]
    if p.need(isinstance(items, list) and items, "input", "is empty"):
        for i in range(len(items)):
            responses_item(p, items, i, open_calls, ids, sent)
        p.need(not open_calls, "input", f"nothing answers {open_calls}")


CHECKS = {"anthropic": anthropic, "chat": chat, "responses": responses}


def problems(api, body, headers, key, sent=(), may_pause=False):
    p = Problems()
    p.need(headers.get("content-type", "").split(";")[0] == "application/json", "content-type", "is not JSON's")
    CHECKS[api](p, body, headers, key, sent, may_pause)
    return p


# --- the prefix ------------------------------------------------------------------------------------------------------

def members(raw):
    """The top-level members of a JSON object as the text that came, in their order."""
    text, decoder, at, found = raw.decode(), json.JSONDecoder(), 1, {}
    space = re.compile(r"[\s,:]*")
    while True:
        at = space.match(text, at).end()
        if text[at] == "}":
            return found
        name, at = decoder.raw_decode(text, at)
        start = space.match(text, at).end()
        _, at = decoder.raw_decode(text, start)
        found[name] = text[start:at]


def elements(text):
    """The elements of a JSON array as the texts that came."""
    decoder, at, found = json.JSONDecoder(), 1, []
    space = re.compile(r"[\s,]*")
    while True:
        at = space.match(text, at).end()
        if text[at] == "]":
            return found
        start = at
        _, at = decoder.raw_decode(text, start)
        found.append(text[start:at])


MARK = re.compile(r'(,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,)')


def unmarked(text):
    return MARK.sub("", text)


def only_present(before, after):
    """The last message of the first request may end with text about the present that the second has no more."""
    one, two = json.loads(before), json.loads(after)
    blocks, kept = one.get("content"), two.get("content")
    return one.get("role") == "user" and isinstance(blocks, list) and isinstance(kept, list) and \
        blocks[-1].get("type") in ("text", "input_text") and blocks[:-1] == kept[:len(blocks) - 1]


def grown(before, after):
    """None if `after` begins with the bytes of `before`, or what differs first."""
    one, two = members(before), members(after)
    for name in ("tools", "system", "instructions"):
        if unmarked(one.get(name, "")) != unmarked(two.get(name, "")):
            return f"{name} differ"
    name = "input" if "input" in one else "messages"
    old, new = ([unmarked(e) for e in elements(m[name])] for m in (one, two))
    if len(new) < len(old):
        return f"{name}: {len(old)} before, {len(new)} now"
    for i, text in enumerate(old):
        if text != new[i] and not (i == len(old) - 1 and only_present(text, new[i])):
            return f"{name}[{i}] differs: {text[:300]} … {new[i][:300]}"
    return None
