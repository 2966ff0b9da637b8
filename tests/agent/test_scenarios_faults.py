"""`hutch ask` does its work whatever happens on the way to the model; nothing is shown twice, nothing is done twice."""
import pytest

import plays
from model_reply import Reply, call

# Shapes that a stream may have: each answer comes in this one.
SHAPES = {
    "every byte by itself": {"split": 1},
    "CRLF, split": {"eol": "\r\n", "split": 3},
    "CR, split": {"eol": "\r", "split": 5},
    "pings and comments": {"pings": True, "split": 11},
    "one character per event": {"piece": 1},
    "slow": {"pace": 0.02, "piece": 100},
    "no stream at all": {"whole": True},
}

# Attempts that fail before each answer.
TROUBLE = {
    "529": lambda: Reply(status=529, retry_after="0"),
    "429": lambda: Reply(status=429, retry_after="0"),
    "500": lambda: Reply(status=500, headers={"retry-after-ms": "1"}),
    "error in the stream": lambda: Reply("I will write a play instead.", error=0.6),
    "error at once": lambda: Reply("never", error=0.0),
    "dropped before the status": lambda: Reply("never", drop=-1),
    "dropped before the stream": lambda: Reply("never", drop=0),
    "dropped in a text": lambda: Reply("I will write the script, and it will be long. " * 9, drop=0.5),
    "dropped in a call": lambda: Reply("I will ", call("bash", command="touch never # " + "x" * 300), drop=0.7),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])
def test_any_shape_of_a_stream(user_env, model_server, api, shape):
    model_server.script(plays.hello(**SHAPES[shape]))
    done = user_env.ask("Write hello world.", "--apply", api=api)
    assert done.text == plays.HELLO_SAID and user_env.get("hello.py") == plays.HELLO
    model_server.check_growth()


# What is not about the protocol is tried in one of them; the order is the one that the troubles have.
PROTOCOLS = ["anthropic", "chat", "responses"]
ANY = ("429", "500", "dropped before the status", "dropped before the stream")
CASES = [(api, name) for i, name in enumerate(TROUBLE) for api in ([PROTOCOLS[i % 3]] if name in ANY else PROTOCOLS)]


@pytest.mark.parametrize("api, trouble", CASES)
def test_trouble_then_success(user_env, model_server, api, trouble):
    model_server.script([reply for good in plays.hello() for reply in (TROUBLE[trouble](), good)])
    done = user_env.ask("Write hello world.", "--apply", api=api)
    assert user_env.get("hello.py") == plays.HELLO and not user_env.has("never")
    assert shown(done) == plays.HELLO_SAID
    assert len(model_server.requests) == 6
    model_server.check_growth()


def shown(done):
    """The text that counts: what a retry took back is taken off."""
    text, answer = "", 0
    for e in done.all:
        if e["type"] == "text" and "keep" in e:
            text = text[:answer] + text[answer:].encode()[:e["keep"]].decode()
        elif e["type"] == "text":
            text += e["text"]
        elif e["type"] in ("tool_call", "usage"):
            answer = len(text)
    return text


def test_same_words_of_a_second_attempt_are_not_shown_twice(user_env, model_server):
    words = "The answer is long enough to be cut somewhere in the middle of it, and then it comes again."
    model_server.script([Reply(words, drop=0.7), Reply(words)])
    done = user_env.ask("go")
    assert "".join(e["text"] for e in done.events("text")) == words


@pytest.mark.parametrize("part", [0, 0.5])
def test_stalled_stream_is_given_up_and_tried_again(user_env, model_server, part):
    user_env.configure(providers={"anthropic": {"timeout": 0.5}})
    words = "An answer that stops somewhere on its way, and comes whole the second time."
    model_server.script([Reply(words, stall=part), Reply(words)])
    done = user_env.ask("go")
    assert "".join(e["text"] for e in done.events("text")) == words
    assert done.events("error")[0]["retrying"]


def test_retries_come_to_an_end(user_env, model_server):
    user_env.configure(providers={"anthropic": {"retries": 2}})
    model_server.script(lambda request: Reply(status=529, retry_after="0"))
    assert "overloaded" in user_env.ask("go", status=125).stderr.lower() and len(model_server.requests) == 3


def test_giving_up_says_why_and_loses_nothing(user_env, model_server):
    model_server.script(lambda request: Reply(status=400, body={"type": "error", "error": {
        "type": "invalid_request_error", "message": "your plan has no such model"}}))
    done = user_env.ask("go", status=125)
    assert "your plan has no such model" in done.stderr
    assert len(model_server.requests) == 1, "what cannot help is not tried again"
    (history,) = user_env.histories()
    assert next(m for m in history["messages"] if m["role"] == "user")["content"][0]["text"] == "go"


@pytest.mark.parametrize("status, kind, said, word", [
    (401, "authentication_error", "invalid x-api-key", "key"), (403, "permission_error", "not for you", "key"),
    (404, "not_found_error", "model: scripted-1", "model"), (404, None, "<html>nothing here", "base URL")])
def test_refusals_that_a_person_can_do_something_about(user_env, model_server, status, kind, said, word):
    body = {"type": "error", "error": {"type": kind, "message": said}} if kind else said
    model_server.script(lambda request: Reply(status=status, body=body))
    assert word in user_env.ask("go", status=125).stderr


def test_giant_text(user_env, model_server):
    text = "0123456789abcde\n" * (10 << 16)
    model_server.script([Reply(text, piece=65536), Reply("Next.")])
    first = user_env.ask("go", timeout=120)
    assert first.text == text
    assert user_env.ask("more", "--resume", first.session).text == "Next."


def test_giant_output_of_a_tool(user_env, model_server):
    model_server.script([Reply(call("bash", command="yes 0123456789abcde | head -c 10485760; echo; echo the end")),
                         plays.after("the end", "Seen.")])
    assert user_env.ask("go").text == "Seen."
    assert len(model_server.requests[1].raw) < 400_000


def test_giant_input_of_a_tool(user_env, model_server):
    content = "0123456789abcde\n" * (5 << 16)
    model_server.script([Reply(call("write_file", path="big", content=content), piece=4096), Reply("Written.")])
    user_env.ask("go", "--apply")
    assert user_env.get("big") == content


def test_hostile_bytes_in_plain_output_are_harmless(user_env, model_server):
    model_server.script([Reply("a\x1b]0;owned\x07b\x1b[2J"), ])
    done = user_env.hutch("ask", "--model", "anthropic/scripted-1", "-w", user_env.workspace, "go")
    assert done.returncode == 0 and done.stdout.startswith("a"), done
