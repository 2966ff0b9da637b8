"""Questions that are cancelled, recorded and played again; and texts that become vectors."""
import json
import threading

import pytest

from asking import KEY, Heard, listen, only_error, reply_text
from faulty import Faulty, answer, chunked, opening, stalling, text, whole


def first_lines(process, wanted):
    """Reads lines until one is `wanted`."""
    lines = []
    while not lines or not wanted(lines[-1]):
        line = process.stdout.readline()
        assert line, lines
        lines.append(json.loads(line))
    return lines


def cancel(process, lines):
    out, _ = process.communicate(b"x", timeout=30)
    return Heard(lines + [json.loads(line) for line in out.splitlines()])


def test_cancel_in_the_stream(start):
    hold = threading.Event()
    with Faulty(stalling(hold, opening(), text("Hello"))) as s:
        p = start(s, cancel=True)
        heard = cancel(p, first_lines(p, lambda line: line.get("text") == "Hello"))
        hold.set()
    assert heard.errors[0]["error"] == "ECANCELED" and reply_text(heard) == "Hello"


def test_cancel_before_the_first_byte(start):
    asked, hold = threading.Event(), threading.Event()

    def silent(conn, _):
        asked.set()
        hold.wait(60)
        return False
    with Faulty(silent) as s:
        p = start(s, cancel=True)
        assert asked.wait(30)
        heard = cancel(p, [])
        hold.set()
    assert heard.errors[0]["error"] == "ECANCELED" and heard.replies[0]["reply"] == []


def test_cancel_in_a_wait_keeps_what_was_shown(start):
    with Faulty(chunked(opening(), text("Hello"), end=False)) as s:
        p = start(s, cancel=True, backoff_ms=600000)
        heard = cancel(p, first_lines(p, lambda line: line.get("event") == "wait"))
    assert heard.errors[0]["error"] == "ECANCELED" and reply_text(heard) == heard.text == "Hello"


def test_cancel_in_a_second_attempt_keeps_what_was_shown(start):
    hold, asked = threading.Event(), threading.Event()

    def second(conn, request):
        asked.set()
        return stalling(hold, opening(), text("Hel"))(conn, request)
    with Faulty(chunked(opening(), text("Hello"), end=False), second) as s:
        p = start(s, cancel=True)
        lines = first_lines(p, lambda line: line.get("event") == "wait")
        assert asked.wait(30)
        heard = cancel(p, lines)
        hold.set()
    assert reply_text(heard) == heard.text == "Hello" and heard.backs == []


def test_recorded_and_replayed(ask, start, callers, who):
    file = callers(who)[0].home / "recording.jsonl"
    file.unlink(missing_ok=True)
    with Faulty(answer("Grüße ", "an alle"), answer("two " + KEY)) as s:
        heard = listen(start(s, record=str(file), asks=2))
    assert KEY not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    again = ask("", api="replay", provider="replay", name=str(file), asks=3)
    assert [r["reply"] for r in again.replies][0] == [r["reply"] for r in heard.replies][0]
    assert [(r["stop"], r["input"], r["output"]) for r in again.replies] == [(r["stop"], r["input"], r["output"]) for r in heard.replies]
    assert again.errors[0]["error"] == "ENODATA" and "ends after 2 answers" in again.errors[0]["text"]


def test_embeddings(ask):
    def vectors(conn, request):
        texts = request.json()["input"]
        data = [{"index": i, "embedding": [len(t), i + 0.5]} for i, t in enumerate(texts)]
        return whole({"data": data[::-1]}, 200, "application/json")(conn, request)
    with Faulty(whole(b"", 503, None), vectors) as s:
        heard = ask(s.url + "/v1", api="chat", provider="openai", embed=["a", "bb"] * 50)
        assert s.requests[-1].path == "/v1/embeddings" and s.requests[-1].json()["model"] == "embed-1"
    got = heard.lines[-1]["vectors"]
    assert len(got) == 100 and got[0] == [1, 0.5] and got[1] == [2, 1.5]


@pytest.mark.parametrize("data", [[], [{"embedding": [1]}] * 3, [{"embedding": [1]}, {"embedding": [1, 2]}],
                                  [{"embedding": ["x"]}] * 2, [{"index": 0, "embedding": [1]}] * 2, [{"index": 9, "embedding": [1]}] * 2])
def test_vectors_that_do_not_fit(ask, data):
    with Faulty(whole({"data": data}, 200, "application/json")) as s:
        code, _ = only_error(ask(s, api="chat", provider="openai", embed=["a", "b"]))
    assert code == "EPROTO"


def test_no_embeddings_at_anthropic(ask):
    assert only_error(ask("http://127.0.0.1:1", embed=["a"]))[0] == "EOPNOTSUPP"
