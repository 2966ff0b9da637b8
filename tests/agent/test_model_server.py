"""The scripted model server itself: its streams hold what the script says, its faults happen, its rules find mistakes."""
import http.client
import json
import threading

import pytest

import model_rules
from model_reply import Call, Reply, call, think
from model_server import KEY, ModelServer, vector

HEADERS = {"anthropic": {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"},
           "chat": {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
           "responses": {"authorization": f"Bearer {KEY}", "content-type": "application/json"}}
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
BODIES = {"anthropic": {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]},
          "chat": {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]},
          "responses": {"model": "m", "stream": True, "store": False, "include": ["reasoning.encrypted_content"],
                        "input": [{"role": "user", "content": "hi"}]}}
APIS = list(PATHS)


def post(server, api, body=None, connection=None):
    c = connection or http.client.HTTPConnection(server.url[7:])
    c.request("POST", PATHS[api], json.dumps(body or BODIES[api]), HEADERS[api])
    r = c.getresponse()
    return r.status, r.read().decode(), r


def events(text):
    """Data of the events of a stream, for any line ending."""
    blocks = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    lines = [line[6:] for block in blocks for line in block.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(api, found):
    if api == "anthropic":
        return "".join(e["delta"].get("text", "") for e in found if e["type"] == "content_block_delta")
    if api == "chat":
        return "".join(c["delta"].get("content") or "" for e in found for c in e["choices"])
    return "".join(e["delta"] for e in found if e["type"] == "response.output_text.delta")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
def test_stream_holds_what_the_script_says(api, eol):
    reply = Reply(think("hm"), "Grüße, said in pieces of some length.", call("bash", command="ls"), eol=eol, pings=True, split=7)
    with ModelServer([reply]) as server:
        status, text, _ = post(server, api)
        found = [e for e in events(text) if e.get("type") not in ("ping", "novelty")]
        assert status == 200 and text_of(api, found) == reply.text
        assert '"bash"' in text and (": a comment" + eol) in text
        server.check()


@pytest.mark.parametrize("api", APIS)
def test_connection_is_kept_and_order_is(api):
    with ModelServer([Reply("one"), lambda request: Reply(request.said[-1] + "!")]) as server:
        c = http.client.HTTPConnection(server.url[7:])
        assert text_of(api, events(post(server, api, connection=c)[1])) == "one"
        assert text_of(api, events(post(server, api, connection=c)[1])) == "hi!"


@pytest.mark.parametrize("api", APIS)
def test_refusal_then_answer(api):
    with ModelServer([Reply(status=529, retry_after="0"), Reply("fine")]) as server:
        status, _, response = post(server, api)
        assert status == 529 and response.headers["retry-after"] == "0"
        assert text_of(api, events(post(server, api)[1])) == "fine"


@pytest.mark.parametrize("part", [-1, 0, 0.5])
def test_connection_is_dropped(part):
    with ModelServer([Reply("a text that is cut", drop=part)]) as server:
        with pytest.raises((http.client.HTTPException, OSError)):
            post(server, "anthropic")


@pytest.mark.parametrize("api", APIS)
def test_error_comes_in_the_stream(api):
    with ModelServer([Reply("a text that is cut" * 9, error=0.5)]) as server:
        status, text, _ = post(server, api)
        assert status == 200 and "overloaded_error" in text and "message_stop" not in text and "[DONE]" not in text


def test_stall_waits_for_the_test():
    reply = Reply("one two three", stall=0.5)
    with ModelServer([reply]) as server:
        got = []
        thread = threading.Thread(target=lambda: got.append(post(server, "anthropic")))
        thread.start()
        assert reply.reached.wait(10) and not got
        reply.release()
        thread.join(10)
        assert text_of("anthropic", events(got[0][1])) == "one two three"


USE = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}


@pytest.mark.parametrize("messages, what", [
    ([], "is empty"),
    ([{"role": "assistant", "content": "x"}], "is of assistant"),
    ([{"role": "user", "content": ""}], "text is empty"),
    ([{"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]}], "unknown"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [USE]}, {"role": "user", "content": "y"}], "were asked for"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [USE]}], "nothing answers"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [USE]},
      {"role": "user", "content": [{"type": "text", "text": "y"}, RESULT]}], "behind other content"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, USE]},
      {"role": "user", "content": [RESULT]}], "was not sent so"),
    ([{"role": "user", "content": [{"type": "text", "text": str(i), "cache_control": {"type": "ephemeral"}} for i in range(5)]}],
     "5 marks"),
])
def test_rules_of_anthropic_find(messages, what):
    found = model_rules.problems("anthropic", {**BODIES["anthropic"], "messages": messages}, HEADERS["anthropic"], KEY)
    assert any(what in p for p in found), found


@pytest.mark.parametrize("messages, what", [
    ([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}], "not open"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "content": None}, {"role": "user", "content": "y"}], "says nothing"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "no"}}]},
      {"role": "tool", "tool_call_id": "a", "content": "y"}], "no JSON object"),
    ([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "user", "content": "y"}], "before the answers"),
])
def test_rules_of_chat_find(messages, what):
    found = model_rules.problems("chat", {**BODIES["chat"], "messages": messages}, HEADERS["chat"], KEY)
    assert any(what in p for p in found), found


@pytest.mark.parametrize("items, what", [
    ([{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}], "nothing answers"),
    ([{"type": "function_call_output", "call_id": "a", "output": "y"}], "not open"),
    ([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}], "output_text of user"),
    ([{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "z"}], "was not sent so"),
])
def test_rules_of_responses_find(items, what):
    found = model_rules.problems("responses", {**BODIES["responses"], "input": items}, HEADERS["responses"], KEY)
    assert any(what in p for p in found), found


def test_growth_sees_bytes_and_not_marks():
    def raw(*texts, mark=None):
        blocks = [{"type": "text", "text": t, **({"cache_control": {"type": "ephemeral"}} if i == mark else {})} for i, t in enumerate(texts)]
        return json.dumps({"system": "s", "messages": [{"role": "user", "content": [b]} for b in blocks]}).encode()

    assert model_rules.grown(raw("a", "b", mark=1), raw("a", "b", "c", mark=2)) is None
    assert "differs" in model_rules.grown(raw("a", "b", "x"), raw("z", "b", "c"))
    assert "3 before" in model_rules.grown(raw("a", "b", "c"), raw("a", "b"))
    assert "system" in model_rules.grown(raw("a"), raw("a").replace(b'"s"', b'"t"'))


def test_vectors_are_near_for_texts_that_share_words():
    def near(a, b):
        return sum(x * y for x, y in zip(vector(a), vector(b)))

    assert near("the red house", "a red house") > near("the red house", "nothing else matters")


def test_request_that_breaks_a_rule_is_refused_and_noted():
    with ModelServer([Reply("never")]) as server:
        status, text, _ = post(server, "anthropic", {**BODIES["anthropic"], "messages": [{"role": "user", "content": ""}]})
        assert status == 400 and "text is empty" in text
        with pytest.raises(AssertionError, match="text is empty"):
            server.check()


def test_broken_input_of_a_call_is_sent_as_it_is():
    with ModelServer([Reply(Call("bash", {}, raw='{"command": '))]) as server:
        found = events(post(server, "anthropic")[1])
        assert "".join(e["delta"].get("partial_json", "") for e in found if e["type"] == "content_block_delta") == '{"command": '
