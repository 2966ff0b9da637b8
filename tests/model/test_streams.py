"""The providers' own clients and hutch read the same out of the same streams, over real HTTP."""
import json
import subprocess
from pathlib import Path

import pytest

import compare
import server
import streams

SEED = "hutch"
EACH = 90  # per protocol
HI = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


@pytest.fixture(scope="module")
def corpus():
    return streams.corpus(SEED, EACH)


@pytest.fixture(scope="module")
def playing(corpus):
    with server.Server({s["id"]: s["pieces"] for s in corpus}) as it:
        yield it


def ask_hutch(probe, playing, some):
    lines = [{"api": s["api"], "url": f"{playing.url}/{s['id']}", "messages": HI} for s in some]
    return dict(zip([s["id"] for s in some], probe(lines)))


def ask_clients(node, playing, some):
    jobs = json.dumps([{"id": s["id"], "api": s["api"]} for s in some])
    done = subprocess.run([node, "sdk.mjs", playing.url], input=jobs, capture_output=True, text=True, timeout=300, check=True,
                          cwd=Path(__file__).resolve().parent)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def by_hutch(corpus, playing, probe):
    return ask_hutch(probe, playing, corpus)


@pytest.fixture(scope="module")
def by_client(corpus, playing, node):
    return ask_clients(node, playing, corpus)


def kept(api, form):
    """Chat's clients keep no thoughts, and hutch keeps them in a form of its own there."""
    return dict(form, raw=[], thinking="") if api == "chat" else form


@pytest.mark.parametrize("api", streams.MAKERS)
def test_same_as_the_client(corpus, by_hutch, by_client, api):
    for s in corpus:
        if s["api"] != api:
            continue
        assert "failed" not in by_client[s["id"]], (s["id"], by_client[s["id"]])
        assert "error" not in by_hutch[s["id"]], (s["id"], by_hutch[s["id"]])
        mine = kept(api, compare.of_hutch(by_hutch[s["id"]]))
        assert mine == kept(api, compare.of_client(api, by_client[s["id"]])), s["id"]


@pytest.mark.parametrize("api", streams.MAKERS)
def test_what_the_stream_says(corpus, by_hutch, api):
    """Also without the clients: what was put into the streams comes out."""
    for s in corpus:
        if s["api"] != api:
            continue
        mine, want = compare.of_hutch(by_hutch[s["id"]]), compare.of_want(api, s["want"])
        if api == "chat":
            want["raw"] = [{"reasoning_content": want["thinking"]}] if want["thinking"] else []
        assert mine == want, s["id"]


def test_shown_is_what_was_said(corpus, by_hutch):
    for s in corpus:
        reply = by_hutch[s["id"]]
        form = compare.of_hutch(reply)
        assert reply["shown"] == form["text"].replace("\0", "\ufffd"), s["id"]
        assert reply["shown_thinking"] == form["thinking"], s["id"]
        assert reply["shown_calls"] == len(form["calls"]), s["id"]


def test_corpus_has_it_all(corpus):
    """At least 200 streams, and none of the kinds is missing by chance."""
    assert len(corpus) >= 200
    whole = {s["id"]: b"".join(s["pieces"]) for s in corpus}
    for part in (b"event: ping\n", b"\r\n\r\n", b"\r\r", b": keep-alive", b"data:\x20}", b"\\ud83d", "😀".encode(), b"signature_delta",
                 b"redacted_thinking", b"citations_delta", b"server_tool_use", b"cache_read_input_tokens", b"refusal.delta",
                 b"incomplete_details", b"reasoning_content", b'"finish_reason": "length"'):
        assert any(part in data for data in whole.values()), part
    for stop in ("end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal", "model_context_window_exceeded"):
        assert any(s["api"] == "anthropic" and s["want"]["stop"] == stop for s in corpus), stop
    assert any(len(s["want"]["message"]["tool_calls"]) > 1 for s in corpus if s["api"] == "chat")
    assert any(len(s["pieces"]) == len(whole[s["id"]]) for s in corpus)


def test_broken_streams(probe, node):
    """Where a client gives up, hutch does, and the other way round."""
    some = streams.broken(SEED, 20)
    with server.Server({s["id"]: s["pieces"] for s in some}) as it:
        mine, theirs = ask_hutch(probe, it, some), ask_clients(node, it, some)
    for s in some:
        assert "error" in mine[s["id"]], s["id"]
        # The client of Responses leaves it to the caller to see that the answer is still under way.
        assert "failed" in theirs[s["id"]] or theirs[s["id"]]["status"] == "in_progress", (s["id"], theirs[s["id"]])
        said = "the stream ended before" if s["want"] == "early end" else "the provider says: "
        assert said in mine[s["id"]]["error"], (s["id"], mine[s["id"]])
