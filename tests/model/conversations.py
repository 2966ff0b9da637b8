"""Conversations in hutch's form (src/model/model.h), made up from a seed, with all that sessions leave in them: answers of several
models, interrupted turns, empty texts, images, results that failed, ids and names of every kind."""
import json
import random

import streams

IMAGE = {"type": "image", "mime": "image/png", "data": "iVBORw0KGgo="}
TOOLS = [{"name": name, "description": f"does {name}", "input_schema": {"type": "object", "properties": {"k0": {"type": "string"}}}}
         for name in streams.NAMES]
IDS = ["toolu_{}", "call_{}", "functions.bash:{}", "chatcmpl-tool-{}-0123456789abcdef0123456789abcdef0123456789abcdef", "{}", "ü {}"]


def block(kind, **members):
    return dict({"type": kind}, **members)


def thought(rng, me, api):
    """What the model at hand thought, or another one."""
    signed = block("thinking", thinking=streams.text(rng), signature="c2ln")
    raws = {"anthropic": [signed, block("redacted_thinking", data="ZGF0YQ==")],
            "chat": [{"reasoning_content": streams.text(rng)}],
            "responses": [block("reasoning", id="rs_1", summary=[], encrypted_content="RU5D")]}
    mine = rng.random() < 0.6
    made = block("thinking", **{"from": me if mine else "other/model"}, text=streams.text(rng))
    if rng.random() < 0.9:
        made["raw"] = rng.choice(raws[api if mine else rng.choice(list(raws))])
    return made


def call(rng, used):
    name = rng.choice(streams.NAMES + ["no such/tool", ""])
    form = rng.choice(IDS)
    fresh = form.format(rng.randrange(3))
    while fresh in used:
        fresh += "x"
    used.add(fresh)
    made = block("tool_use", id=fresh, name=name, input=streams.tool_input(rng))
    if rng.random() < 0.1:
        made.update(input={}, bad_input='{"k": ')
    return made


def text(rng):
    return block("text", text=rng.choice(["", " \n", streams.text(rng), streams.text(rng) + " \n"]))


def assistant(rng, me, api):
    used, content = set(), []
    if rng.random() < 0.6:
        content.append(thought(rng, me, api))
    content += [text(rng) for _ in range(rng.randint(0, 2))]
    content += [call(rng, used) for _ in range(rng.randint(1, 3) if rng.random() < 0.6 else 0)]
    if not used and rng.random() < 0.2:
        content.append(thought(rng, me, api))
    return {"role": "assistant", "content": content}


def user(rng, before):
    calls = [b for b in before["content"] if b["type"] == "tool_use"]
    results = [block("tool_result", tool_use_id=b["id"], is_error=rng.random() < 0.3,
                     content=[rng.choice([text(rng), IMAGE]) for _ in range(rng.randint(0, 2))]) for b in calls]
    rng.shuffle(results)
    content = results + [rng.choice([text(rng), text(rng), IMAGE]) for _ in range(rng.randint(0, 2) if calls else 1)]
    if rng.random() < 0.1:
        rng.shuffle(content)
    return {"role": "user", "content": content}


def conversation(rng, me, api):
    messages = [user(rng, {"content": []})]
    for _ in range(rng.randint(0, 6)):
        messages.append(assistant(rng, me, api))
        messages.append(user(rng, messages[-1]))
    return messages


def lines(seed, each):
    """Lines for the probe, `each` per protocol."""
    out = []
    for api in streams.MAKERS:
        for i in range(each):
            rng = random.Random(f"{seed} {api} {i}")
            line = {"api": api, "name": "m", "messages": conversation(rng, "p/m", api)}
            if rng.random() < 0.8:
                line.update(system="You are hutch.", tools=TOOLS)
            out.append(json.loads(json.dumps(line)))
    return out
