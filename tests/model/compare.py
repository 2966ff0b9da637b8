"""What hutch and a provider's own client made of a stream, in one form, so that they can be compared: texts, thoughts, calls,
what else the provider did, the reason for the end, and usage."""
import json

STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal",
         "max_output_tokens": "max_tokens", None: "end_turn"}


def form(text="", thinking="", calls=(), raw=(), stop=None, usage=None):
    return {"text": text, "thinking": thinking, "calls": list(calls), "raw": list(raw), "stop": stop, "usage": usage}


def of_hutch(reply):
    content, usage = reply["content"], reply["usage"]
    assert usage["known"]
    kept = [b["raw"] for b in content if b["type"] in ("thinking", "other") and "raw" in b]
    return form("".join(b["text"] for b in content if b["type"] == "text"),
                "".join(b["text"] for b in content if b["type"] == "thinking"),
                [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
                kept, reply["stop"], {k: usage[k] for k in ("input", "output", "cache_read", "cache_write")})


def of_anthropic(read):
    content, usage = read["content"], read["usage"]
    written, cached = usage.get("cache_creation_input_tokens") or 0, usage.get("cache_read_input_tokens") or 0
    kept = [b for b in content if b["type"] not in ("text", "tool_use")]
    return form("".join(b["text"] for b in content if b["type"] == "text"),
                "".join(b["thinking"] for b in content if b["type"] == "thinking"),
                [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
                kept, read["stop"],
                {"input": usage["input_tokens"] + written + cached, "output": usage["output_tokens"], "cache_read": cached,
                 "cache_write": written})


def of_chat(read):
    message, usage = read["message"], read["usage"]
    calls = [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"] or "{}")) for c in message.get("tool_calls") or []]
    stop = STOPS[read["stop"]]
    if message.get("refusal") and stop == "end_turn":
        stop = "refusal"
    if calls and stop == "end_turn":
        stop = "tool_use"
    return form((message.get("content") or "") + (message.get("refusal") or ""), "", calls, (), stop,
                {"input": usage["prompt_tokens"], "output": usage["completion_tokens"],
                 "cache_read": (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0), "cache_write": 0})


def of_responses(read):
    output, usage = read["output"], read["usage"]
    parts = [p for item in output if item["type"] == "message" for p in item["content"]]
    calls = [(i["call_id"], i["name"], json.loads(i["arguments"] or "{}")) for i in output if i["type"] == "function_call"]
    thoughts = ["\n\n".join(s["text"] for s in i["summary"]) for i in output if i["type"] == "reasoning"]
    stop = STOPS[read["reason"]]
    if stop == "end_turn" and any(p["type"] == "refusal" for p in parts):
        stop = "refusal"
    elif stop == "end_turn" and calls:
        stop = "tool_use"
    kept = [{k: v for k, v in i.items() if v is not None} for i in output if i["type"] not in ("message", "function_call")]
    return form("".join(p.get("text") or p.get("refusal") or "" for p in parts), "".join(thoughts), calls, kept, stop,
                {"input": usage["input_tokens"], "output": usage["output_tokens"],
                 "cache_read": usage["input_tokens_details"]["cached_tokens"], "cache_write": 0})


OF_CLIENT = {"anthropic": of_anthropic, "chat": of_chat, "responses": of_responses}


def of_client(api, read):
    return OF_CLIENT[api](read)


def of_want(api, want):
    """The same from what a stream was made to say."""
    if api == "chat":
        message = dict(want["message"])
        message["tool_calls"] = [{"id": c["id"], "function": {"name": c["name"], "arguments": json.dumps(c["input"])}}
                                 for c in message["tool_calls"]]
        made = of_chat(dict(want, message=message))
        made["thinking"] = message["thinking"]
        return made
    return of_client(api, want)
