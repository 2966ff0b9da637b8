"""A session of millions of tokens, made up: words, tool calls with their output, and a few facts to find again.

    write(path, session, workspace, tokens)   →   [(words that ask for it, fact), …]

The file is a history as src/agent/history.h describes it. The same arguments give the same file.
"""
import json
import random

WORDS = """parser buffer socket thread kernel module handler request response cache index table column vector matrix branch
commit merge window cursor signal process memory stack queue timer event loop state value key string number object array field
method function class struct union pointer offset length limit error warning report result test build deploy server client
config option default version release patch feature issue user session token secret policy rule filter search match query order
group count total average median sample figure chart page view model train batch epoch weight layer input output format decode""".split()

# Where the facts are planted: parts of the whole.
PLACES = (0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999)
ANIMALS = ("axolotl", "pangolin", "quokka", "wombat", "narwhal", "ocelot", "tapir")


def prose(rng, count):
    return " ".join(rng.choices(WORDS, k=count)).capitalize() + "."


def listing(rng, lines):
    return "\n".join(f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}.c:{rng.randrange(2000)}: {prose(rng, 8)}" for _ in range(lines))


def fact(i):
    """(question, planted sentence)"""
    animal = ANIMALS[i % len(ANIMALS)]
    return f"{animal} port", f"The {animal} service listens on port {4100 + 7 * i}."


def turn(rng, number, planted):
    """The messages of one turn of the person."""
    time = f"2026-01-{1 + number // 900 % 28:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00.000Z"
    usage = {"input": 40000, "output": 300, "cache_read": 30000, "cache_write": 1000}
    extra = " " + planted if planted else ""
    yield {"time": time, "role": "user", "turn": number, "content": [{"type": "text", "text": prose(rng, 25) + extra}]}
    for step in range(3):
        call = {"type": "tool_use", "id": f"toolu_{number}_{step}", "name": "bash", "input": {"command": f"grep -rn {rng.choice(WORDS)} ."}}
        yield {"time": time, "role": "assistant", "content": [{"type": "text", "text": prose(rng, 30)}, call], "model": "scripted-1",
               "stop": "tool_use", "usage": usage, "cost": 0.01}
        text = listing(rng, rng.randrange(20, 120))
        yield {"time": time, "role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "is_error": False,
                                                          "content": [{"type": "text", "text": text}]}]}
    yield {"time": time, "role": "assistant", "content": [{"type": "text", "text": prose(rng, 120)}], "model": "scripted-1",
           "stop": "end_turn", "usage": usage, "cost": 0.01}


def write(path, session, workspace, tokens, seed=1):
    """Writes the file; four bytes of messages count as a token. Returns the facts."""
    rng, goal, size, number = random.Random(seed), tokens * 4, 0, 0
    facts = [fact(i) for i in range(len(PLACES))]
    left = list(zip(PLACES, facts))
    head = {"version": 1, "session": session, "created": "2026-01-01T00:00:00.000Z", "workspace": str(workspace)}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "messages": [\n')
        while size < goal:
            number += 1
            planted = left.pop(0)[1][1] if left and size >= left[0][0] * goal else None
            for message in turn(rng, number, planted):
                line = json.dumps(message)
                file.write((",\n" if size else "") + line)
                size += len(line)
        if left:
            line = json.dumps({"time": head["created"], "role": "hutch", "kind": "note", "text": " ".join(f[1] for _, f in left)})
            file.write(",\n" + line)
        file.write("\n]}\n")
    return facts
