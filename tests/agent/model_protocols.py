"""The three protocols of the scripted model: events of a stream for a Reply, and a request's neutral form."""
import json

from model_reply import Call, Request, Result, Think

MODEL = "scripted-1"


def estimate(text):
    return max(1, len(text) // 4)


def usage_of(reply, request):
    """(new input, cache read, cache write, output)."""
    u = reply.usage
    whole = u.input if u.input is not None else estimate(request.raw)
    out = u.output if u.output is not None else estimate(reply.text) + sum(10 + len(json.dumps(c.input)) // 4 for c in reply.calls)
    return max(0, whole - u.cache_read - u.cache_write), u.cache_read, u.cache_write, out


def input_text(call):
    return call.raw if call.raw is not None else json.dumps(call.input, ensure_ascii=False)


# --- Anthropic Messages ----------------------------------------------------------------------------------------------

def anthropic_block(block):
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, Think):
        if block.redacted:
            return {"type": "redacted_thinking", "data": block.signature}
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}
    return {"type": "tool_use", "id": "toolu_" + block.id, "name": block.name, "input": block.input}


def anthropic_deltas(block, reply):
    if isinstance(block, str):
        return [{"type": "text_delta", "text": p} for p in reply.pieces(block)]
    if isinstance(block, Call):
        text = input_text(block)
        return [{"type": "input_json_delta", "partial_json": p} for p in ["", *reply.pieces(text if text != "{}" else "")]]
    if block.redacted:
        return []
    return [{"type": "thinking_delta", "thinking": p} for p in reply.pieces(block.text)] + \
        [{"type": "signature_delta", "signature": block.signature}]


def anthropic_empty(block):
    """A block as content_block_start shows it: what the deltas bring is not in it yet."""
    shown = anthropic_block(block)
    for name, value in (("text", ""), ("thinking", ""), ("signature", ""), ("input", {})):
        if name in shown:
            shown[name] = value
    return shown


def anthropic_usage(reply, request):
    new, read, write, out = usage_of(reply, request)
    return {"input_tokens": new, "cache_read_input_tokens": read, "cache_creation_input_tokens": write, "output_tokens": out}


def anthropic_events(reply, request):
    usage = anthropic_usage(reply, request)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": message}
    for i, block in enumerate(reply.blocks):
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": anthropic_empty(block)}
        for delta in anthropic_deltas(block, reply):
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": reply.stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def anthropic_whole(reply, request):
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": reply.stop,
            "content": [anthropic_block(b) for b in reply.blocks], "usage": anthropic_usage(reply, request)}


def anthropic_error(kind, text):
    return "error", {"type": "error", "error": {"type": kind, "message": text}}


def text_of(content):
    """The text of a message's content, or of a result's, in any of the protocols."""
    if isinstance(content, str):
        return content
    return "".join(b.get("text", "") for b in content or [] if isinstance(b, dict))


def anthropic_read(request):
    body = request.body
    request.system = text_of(body.get("system", ""))
    request.tools = [t["name"] for t in body.get("tools", [])]
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        request.answers += message["role"] == "assistant"
        for block in blocks:
            if block["type"] == "text":
                (request.said if message["role"] == "user" else request.spoken).append(block["text"])
            elif block["type"] == "tool_use":
                request.calls.append((block["id"], block["name"], block["input"]))
            elif block["type"] == "tool_result":
                request.results.append(Result(block["tool_use_id"], text_of(block.get("content", "")), block.get("is_error", False)))


# --- OpenAI Chat Completions -----------------------------------------------------------------------------------------

FINISH = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def chat_usage(reply, request):
    new, read, write, out = usage_of(reply, request)
    return {"prompt_tokens": new + read + write, "completion_tokens": out, "total_tokens": new + read + write + out,
            "prompt_tokens_details": {"cached_tokens": read}}


def chat_call_deltas(index, call, reply):
    text = input_text(call)
    head = {"index": 0 if "index-0" in reply.quirks else index, "type": "function"}
    if "no-id" not in reply.quirks:
        head["id"] = call.id
    if "whole-call" in reply.quirks:
        return [{**head, "function": {"name": call.name, "arguments": text}}]
    later = [{"index": head["index"], "function": {"arguments": p}} for p in reply.pieces(text)]
    return [{**head, "function": {"name": call.name, "arguments": ""}}, *later]


def chat_deltas(reply):
    yield {"role": "assistant", "content": ""}
    index = 0
    for block in reply.blocks:
        if isinstance(block, str):
            yield from ({"content": p} for p in reply.pieces(block))
        elif isinstance(block, Think):
            yield from ({"reasoning_content": p} for p in reply.pieces(block.text))
        else:
            yield from ({"tool_calls": [d]} for d in chat_call_deltas(index, block, reply))
            index += 1


def chat_events(reply, request):
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": MODEL}
    for delta in chat_deltas(reply):
        yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    finish = "stop" if "stop-anyway" in reply.quirks else FINISH.get(reply.stop, "stop")
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    if request.body.get("stream_options", {}).get("include_usage") and "no-usage" not in reply.quirks:
        yield None, {**head, "choices": [], "usage": chat_usage(reply, request)}
    yield None, "[DONE]"


def chat_whole(reply, request):
    message = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": input_text(c)}}
                                 for c in reply.calls]
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": MODEL, "usage": chat_usage(reply, request),
            "choices": [{"index": 0, "message": message, "finish_reason": FINISH.get(reply.stop, "stop")}]}


def chat_error(kind, text):
    return None, {"error": {"message": text, "type": kind, "param": None, "code": kind}}


def chat_read(request):
    request.tools = [t["function"]["name"] for t in request.body.get("tools", [])]
    for message in request.body["messages"]:
        role, text = message["role"], text_of(message.get("content"))
        if role in ("system", "developer"):
            request.system += text
        elif role == "user":
            request.said.append(text)
        elif role == "tool":
            request.results.append(Result(message["tool_call_id"], text))
        else:
            request.answers += 1
            request.spoken += [text] if text else []
            for c in message.get("tool_calls", []):
                request.calls.append((c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])))


# --- OpenAI Responses ------------------------------------------------------------------------------------------------

def responses_item(i, block):
    if isinstance(block, str):
        return {"type": "message", "id": f"msg_{i}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": block, "annotations": []}]}
    if isinstance(block, Think):
        return {"type": "reasoning", "id": "rs_" + block.signature[10:16], "encrypted_content": block.signature,
                "summary": [{"type": "summary_text", "text": block.text}] if block.text else []}
    return {"type": "function_call", "id": "fc_" + block.id, "call_id": block.id, "name": block.name,
            "arguments": input_text(block), "status": "completed"}


def responses_deltas(i, block, item, reply):
    at = {"item_id": item["id"], "output_index": i}
    if isinstance(block, str):
        for p in reply.pieces(block):
            yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": p}
        yield {"type": "response.output_text.done", **at, "content_index": 0, "text": block}
    elif isinstance(block, Think):
        for p in reply.pieces(block.text):
            yield {"type": "response.reasoning_summary_text.delta", **at, "summary_index": 0, "delta": p}
    else:
        for p in reply.pieces(input_text(block)):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": p}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": input_text(block)}


def responses_whole(reply, request, status=None):
    new, read, write, out = usage_of(reply, request)
    cut = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(reply.stop)
    return {"id": "resp_1", "object": "response", "model": MODEL, "status": status or ("incomplete" if cut else "completed"),
            "error": None, "incomplete_details": {"reason": cut} if cut and not status else None,
            "output": [] if status else [responses_item(i, b) for i, b in enumerate(reply.blocks)],
            "usage": None if status else {"input_tokens": new + read + write, "input_tokens_details": {"cached_tokens": read},
                                          "output_tokens": out, "output_tokens_details": {"reasoning_tokens": 0},
                                          "total_tokens": new + read + write + out}}


def responses_bodies(reply, request):
    yield {"type": "response.created", "response": responses_whole(reply, request, "in_progress")}
    yield {"type": "response.in_progress", "response": responses_whole(reply, request, "in_progress")}
    for i, block in enumerate(reply.blocks):
        item = responses_item(i, block)
        empty = {**item, **{k: v for k, v in (("content", []), ("summary", []), ("arguments", "")) if k in item}}
        yield {"type": "response.output_item.added", "output_index": i, "item": {**empty, "status": "in_progress"}}
        yield from responses_deltas(i, block, item, reply)
        yield {"type": "response.output_item.done", "output_index": i, "item": item}
    whole = responses_whole(reply, request)
    yield {"type": f"response.{whole['status']}", "response": whole}


def responses_events(reply, request):
    for number, body in enumerate(responses_bodies(reply, request)):
        yield body["type"], {**body, "sequence_number": number}


def responses_error(kind, text):
    return "error", {"type": "error", "code": kind, "message": text, "param": None, "sequence_number": 9999}


def responses_read(request):
    body = request.body
    request.system = body.get("instructions") or ""
    request.tools = [t["name"] for t in body.get("tools", [])]
    items = [{"type": "message", "role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    before = None
    for item in items:
        kind = item.get("type", "message")
        mine = kind in ("function_call", "reasoning") or item.get("role") == "assistant"
        request.answers += mine and not before
        before = mine
        if kind == "message" and item["role"] in ("system", "developer"):
            request.system += text_of(item["content"])
        elif kind == "message":
            (request.spoken if mine else request.said).append(text_of(item["content"]))
        elif kind == "function_call":
            request.calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
        elif kind == "function_call_output":
            request.results.append(Result(item["call_id"], text_of(item["output"])))


class Protocol:
    def __init__(self, name, path, events, whole, error, read):
        self.name, self.path, self.events, self.whole, self.error, self.read = name, path, events, whole, error, read


PROTOCOLS = {p.path: p for p in (
    Protocol("anthropic", "/v1/messages", anthropic_events, anthropic_whole, anthropic_error, anthropic_read),
    Protocol("chat", "/v1/chat/completions", chat_events, chat_whole, chat_error, chat_read),
    Protocol("responses", "/v1/responses", responses_events, responses_whole, responses_error, responses_read))}


def request_of(protocol, body, raw, headers):
    request = Request(protocol.name, body, raw, headers)
    protocol.read(request)
    return request
