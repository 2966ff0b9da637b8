"""Streams as providers send them, made up from a seed: what happens in each is known (`want`), how it comes over the
wire (line ends, comments, pings, one event on several lines, where it is cut) is left to chance.

Everything here is something that the providers' own clients read without complaint; what only compatible servers do is in
tests/unit/model/test_decode_chat.c.
"""
import json
import random

WORDS = ["make", "the", "tests", "pass", "naïve", "Ünïcödé", "日本語", "😀", "👩‍👩‍👧", "a\nb", "\ttab", 'say "hi"', "back\\slash",
         "e\u0301", "\u2028", "עברית", "", " ", "```c\nint x;\n```", "\u0001", "</s>", "data: x", "[DONE]", "𝔘𝔫𝔦", "🏳️‍🌈"]
NAMES = ["bash", "read_file", "edit_file", "mcp__server__tool-1", "x"]


def text(rng, most=12):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def value(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind < 2:
        return text(rng, 4)
    if kind < 6:
        return [rng.randint(-10**9, 10**9), rng.random() < 0.5, None, rng.randint(0, 1000) / 8][kind - 2]
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {text(rng, 1) + str(i): value(rng, depth + 1) for i in range(rng.randint(0, 3))}


def tool_input(rng):
    return {f"k{i}": value(rng) for i in range(rng.randint(0, 4))}


def pieces(rng, whole, halves=False):
    """A text as deltas. With `halves` cut between UTF-16 units, as programs in some languages do."""
    encoded = whole.encode("utf-16-le")
    units = [encoded[i:i + 2] for i in range(0, len(encoded), 2)] if halves else whole
    out, at = [], 0
    while at < len(units):
        step = rng.choice([1, 2, 3, 7, 20])
        part = units[at:at + step]
        out.append(b"".join(part).decode("utf-16-le", "surrogatepass") if halves else part)
        at += step
    return out


class Wire:
    """Events on their way to bytes."""

    def __init__(self, rng):
        self.rng = rng
        self.end = rng.choice(["\n", "\r\n", "\r"])
        self.ascii = rng.random() < 0.5
        self.comments = rng.random() < 0.3
        self.space = rng.choice([" ", ""])
        self.lines = []

    def event(self, data, name=None):
        if self.comments and self.rng.random() < 0.3:
            self.lines += [self.rng.choice([": keep-alive", ":", ": data: {}", "retry: 3000"]), ""]
        if name:
            self.lines.append(f"event:{self.space}{name}")
        if not isinstance(data, str):
            data = json.dumps(data, ensure_ascii=self.ascii, indent=self.rng.choice([None, None, None, 1]))
        # U+2028 and their kind are no line ends of a stream.
        self.lines += [f"data:{self.space}{line}" for line in data.split("\n")] + [""]

    def bytes(self):
        return "".join(line + self.end for line in self.lines).encode("utf-8")


def cut(rng, data):
    """The bytes in the pieces they are sent in."""
    how = rng.choice(["whole", "bytes", "some", "some", "lines"])
    if how == "whole":
        return [data]
    if how == "bytes" and len(data) < 20000:
        return [data[i:i + 1] for i in range(len(data))]
    if how == "lines":
        return data.splitlines(keepends=True)
    out, at = [], 0
    while at < len(data):
        n = rng.choice([1, 5, 50, 500])
        out.append(data[at:at + n])
        at += n
    return out


def anthropic(rng):
    w = Wire(rng)
    halves = w.ascii and rng.random() < 0.5
    index, content, usage = 0, [], {"input_tokens": rng.randint(1, 9999), "output_tokens": 1}
    if rng.random() < 0.5:
        usage.update(cache_creation_input_tokens=rng.randint(0, 999), cache_read_input_tokens=rng.randint(0, 9999))

    def send(data):
        if rng.random() < 0.1:
            w.event({"type": "ping"}, "ping")
        w.event(data, data["type"])

    send({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                                               "content": [], "stop_reason": None, "stop_sequence": None, "usage": dict(usage)}})

    def block(start, deltas):
        nonlocal index
        send({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            send({"type": "content_block_delta", "index": index, "delta": delta})
        send({"type": "content_block_stop", "index": index})
        index += 1

    if rng.random() < 0.5:
        thought, signature = text(rng), "sig" * rng.randint(1, 40)
        block({"type": "thinking", "thinking": "", "signature": ""},
              [{"type": "thinking_delta", "thinking": p} for p in pieces(rng, thought, halves)]
              + [{"type": "signature_delta", "signature": signature}])
        content.append({"type": "thinking", "thinking": thought, "signature": signature})
    if rng.random() < 0.2:
        block({"type": "redacted_thinking", "data": "ZGF0YQ=="}, [])
        content.append({"type": "redacted_thinking", "data": "ZGF0YQ=="})
    if rng.random() < 0.15:
        query = {"query": text(rng, 3)}
        block({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
              [{"type": "input_json_delta", "partial_json": p} for p in pieces(rng, json.dumps(query))])
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
                 "content": [{"type": "web_search_result", "url": "https://e.example", "title": text(rng, 2), "encrypted_content": "E"}]}
        block(found, [])
        content += [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": query}, found]
    for _ in range(rng.randint(0, 3)):
        said, first = text(rng), ""
        if rng.random() < 0.1:
            first = "begun "
        deltas = [{"type": "text_delta", "text": p} for p in pieces(rng, said, halves)]
        made = {"type": "text", "text": first + said}
        if rng.random() < 0.15:
            made["citations"] = [{"type": "char_location", "cited_text": text(rng, 2), "document_index": 0, "document_title": None,
                                  "start_char_index": 0, "end_char_index": 5}]
            deltas += [{"type": "citations_delta", "citation": c} for c in made["citations"]]
        block({"type": "text", "text": first}, deltas)
        content.append(made)
    calls = rng.randint(0, 3) if rng.random() < 0.6 else 0
    for i in range(calls):
        given, form = tool_input(rng), rng.choice(["deltas", "deltas", "start"])
        name = rng.choice(NAMES)
        deltas = [""] + pieces(rng, json.dumps(given, ensure_ascii=rng.random() < 0.5), halves)
        if not given and rng.random() < 0.5:
            deltas = []
        if form == "start":
            deltas = []
        block({"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": given if form == "start" else {}},
              [{"type": "input_json_delta", "partial_json": p} for p in deltas])
        content.append({"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": given})
    stop = "tool_use" if calls else rng.choice(["end_turn", "end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal",
                                                "model_context_window_exceeded"])
    usage["output_tokens"] = rng.randint(1, 9999)
    last = {"output_tokens": usage["output_tokens"]}
    if rng.random() < 0.3:
        usage["input_tokens"] += 7
        last["input_tokens"] = usage["input_tokens"]
    send({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": last})
    send({"type": "message_stop"})
    return w.bytes(), {"content": content, "stop": stop, "usage": usage}


def chat(rng):
    w = Wire(rng)
    halves = w.ascii and rng.random() < 0.5
    every = rng.random() < 0.2
    usage = {"prompt_tokens": rng.randint(1, 9999), "completion_tokens": rng.randint(1, 999), "total_tokens": 1}
    if rng.random() < 0.5:
        usage.update(prompt_tokens_details={"cached_tokens": rng.randint(0, 99)}, completion_tokens_details={"reasoning_tokens": 3})

    def chunk(delta, finish=None, **more):
        data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x",
                "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], **more}
        if every:
            data["usage"] = usage
        elif rng.random() < 0.5:
            data.setdefault("usage", None)
        w.event(data)

    chunk({"role": "assistant", "content": rng.choice(["", None])})
    message = {"content": "", "refusal": "", "thinking": "", "tool_calls": []}
    if rng.random() < 0.3:
        message["thinking"] = text(rng)
        for p in pieces(rng, message["thinking"], halves):
            chunk({"reasoning_content": p})
    if rng.random() < 0.8:
        message["content"] = text(rng)
        for p in pieces(rng, message["content"], halves):
            chunk({"content": p})
    elif rng.random() < 0.3:
        message["refusal"] = text(rng)
        for p in pieces(rng, message["refusal"], halves):
            chunk({"refusal": p})
    queues = []
    for i in range(rng.randint(0, 3) if not message["refusal"] and rng.random() < 0.6 else 0):
        given, name = tool_input(rng), rng.choice(NAMES)
        message["tool_calls"].append({"id": f"call_{i}", "name": name, "input": given})
        arguments = json.dumps(given, ensure_ascii=rng.random() < 0.5)
        first = {"index": i, "id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": ""}}
        if rng.random() < 0.3:
            first["function"]["arguments"] = arguments
            queues.append([first])
        else:
            queues.append([first] + [{"index": i, "function": {"arguments": p}} for p in pieces(rng, arguments, halves)])
    while any(queues):
        queue = rng.choice([q for q in queues if q]) if rng.random() < 0.3 else next(q for q in queues if q)
        chunk({"tool_calls": [queue.pop(0)]})
    stop = rng.choice(["stop", "tool_calls", "tool_calls"]) if message["tool_calls"] else rng.choice(
        ["stop", "stop", "length", "content_filter"])
    chunk({}, stop)
    if not every:
        w.event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": [], "usage": usage})
    w.event("[DONE]")
    return w.bytes(), {"message": message, "stop": stop, "usage": usage}


def responses(rng):
    w = Wire(rng)
    halves = w.ascii and rng.random() < 0.5
    number, output = 0, []

    def send(kind, **fields):
        nonlocal number
        w.event({"type": kind, "sequence_number": number, **fields}, kind if rng.random() < 0.9 else None)
        number += 1

    head = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "gpt-x", "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "output": [], "parallel_tool_calls": True,
            "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1, "usage": None}
    send("response.created", response=head)
    send("response.in_progress", response=head)
    for i in range(rng.randint(0, 4)):
        kind = rng.choice(["reasoning", "message", "message", "function_call", "function_call"])
        at = {"output_index": i, "item_id": f"item_{i}"}
        if kind == "reasoning":
            item = {"id": f"item_{i}", "type": "reasoning", "summary": []}
            send("response.output_item.added", output_index=i, item=dict(item, summary=[]))
            for s in range(rng.randint(0, 2)):
                part = {"type": "summary_text", "text": text(rng)}
                send("response.reasoning_summary_part.added", summary_index=s, part={"type": "summary_text", "text": ""}, **at)
                for p in pieces(rng, part["text"], halves):
                    send("response.reasoning_summary_text.delta", summary_index=s, delta=p, **at)
                send("response.reasoning_summary_text.done", summary_index=s, text=part["text"], **at)
                send("response.reasoning_summary_part.done", summary_index=s, part=part, **at)
                item["summary"].append(part)
            item = dict(item, encrypted_content="RU5D")
        elif kind == "message":
            item = {"id": f"item_{i}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
            send("response.output_item.added", output_index=i, item=dict(item, content=[]))
            for c in range(rng.randint(1, 2)):
                refusal = rng.random() < 0.1
                said = text(rng)
                member = "refusal" if refusal else "text"
                part = {"type": "refusal", "refusal": ""} if refusal else {"type": "output_text", "text": "", "annotations": []}
                send("response.content_part.added", content_index=c, part=part, **at)
                for p in pieces(rng, said, halves):
                    more = {} if refusal else {"logprobs": []}
                    send("response.refusal.delta" if refusal else "response.output_text.delta", content_index=c, delta=p, **more, **at)
                part = dict(part, **{member: said})
                more = {} if refusal else {"logprobs": []}
                send("response.refusal.done" if refusal else "response.output_text.done", content_index=c, **{member: said}, **more, **at)
                send("response.content_part.done", content_index=c, part=part, **at)
                item["content"].append(part)
            item = dict(item, status="completed")
        else:
            given, name = tool_input(rng), rng.choice(NAMES)
            arguments = json.dumps(given, ensure_ascii=rng.random() < 0.5)
            item = {"id": f"item_{i}", "type": "function_call", "call_id": f"call_{i}", "name": name, "arguments": "", "status": "in_progress"}
            send("response.output_item.added", output_index=i, item=item)
            for p in pieces(rng, arguments, halves):
                send("response.function_call_arguments.delta", delta=p, **at)
            send("response.function_call_arguments.done", arguments=arguments, name=name, **at)
            item = dict(item, arguments=arguments, status="completed")
        send("response.output_item.done", output_index=i, item=item)
        output.append(item)
    usage = {"input_tokens": rng.randint(1, 9999), "input_tokens_details": {"cached_tokens": rng.randint(0, 99)},
             "output_tokens": rng.randint(1, 999), "output_tokens_details": {"reasoning_tokens": rng.randint(0, 9)}, "total_tokens": 1}
    reason = rng.choice([None, None, None, None, "max_output_tokens", "content_filter"])
    done = dict(head, status="incomplete" if reason else "completed", output=output, usage=usage,
                incomplete_details={"reason": reason} if reason else None)
    send("response.incomplete" if reason else "response.completed", response=done)
    return w.bytes(), {"output": output, "reason": reason, "usage": usage}


MAKERS = {"anthropic": anthropic, "chat": chat, "responses": responses}


def corpus(seed, each):
    """`each` streams per protocol: dicts of id, api, pieces of bytes, want."""
    out = []
    for api, maker in MAKERS.items():
        for i in range(each):
            rng = random.Random(f"{seed} {api} {i}")
            data, want = maker(rng)
            out.append({"id": f"{api}-{i}", "api": api, "pieces": cut(rng, data), "want": want})
    return out


ERRORS = {
    "anthropic": 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "chat": 'data: {"error":{"message":"The server had an error","type":"server_error"}}\n\n',
    "responses": 'event: error\ndata: {"type":"error","code":"server_error","message":"boom","param":null,"sequence_number":9}\n\n',
}


def broken(seed, each):
    """Streams that end too early: with nothing, or with an error after part of the answer. The first half of a stream says nothing
    about its end."""
    out = []
    for s in corpus(seed, each):
        rng = random.Random(f"broken {s['id']}")
        data = b"".join(s["pieces"])
        gap = next(g for g in (b"\r\n\r\n", b"\n\n", b"\r\r") if g in data)
        whole = data[:data.rfind(gap, 0, len(data) // 2) + len(gap)] if gap in data[:len(data) // 2] else b""
        fault = rng.choice(["early end", "error"])
        if fault == "error":
            whole += ERRORS[s["api"]].encode()
        out.append({"id": s["id"], "api": s["api"], "pieces": cut(rng, whole), "want": fault})
    return out
