"""How a model is reached over HTTP: what is sent, what breaks on the way, what is tried again, what is refused.

Through tests/unit/model_http_probe.c, which asks one model and prints what it hears.
"""
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from faulty import Faulty, answer, chunk, chunked, closing, drop, event, head, opening, raw, stalling, text, whole

KEY = "sk-test-0123456789"
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.fixture(scope="session")
def program(hutch):
    path = Path(hutch).parent / "tests" / "unit" / "model_http_probe"
    if not path.exists():
        pytest.skip(f"not built: {path}")
    return path


@pytest.fixture
def start(program, who, callers):
    """Starts the probe as root or as an ordinary user, without a proxy but the one that a test names."""
    caller, _ = callers(who)
    probe = program if caller.can_run(program) else caller.home / program.name
    if not probe.exists():
        caller.own(shutil.copy2(program, probe))

    def go(server, env=None, **spec):
        spec = {"api": "anthropic", "provider": "anthropic", "name": "fake-1", "key": KEY,
                "base_url": getattr(server, "url", server), **spec}
        return subprocess.Popen([*caller.prefix, str(probe), json.dumps(spec)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={"PATH": os.environ["PATH"], **(env or {})})
    return go


class Heard:
    def __init__(self, lines):
        self.lines = lines
        self.replies = [line for line in lines if "reply" in line]
        self.errors = [line for line in lines if "error" in line]
        self.waits = [line for line in lines if line.get("event") == "wait"]
        self.backs = [line for line in lines if line.get("event") == "back"]

    @property
    def text(self):
        """What a screen would hold."""
        seen = b""
        for line in self.lines:
            if line.get("event") == "text":
                seen += line["text"].encode()
            elif line.get("event") == "back":
                seen = seen[:line["keep"]]
        return seen.decode()

    @property
    def said(self):
        """How often each text was handed out."""
        return [line["text"] for line in self.lines if line.get("event") == "text"]


def listen(process):
    out, err = process.communicate(timeout=60)
    assert err == b"" and process.returncode == 0
    return Heard([json.loads(line) for line in out.splitlines()])


@pytest.fixture
def ask(start):
    """Asks and listens to the end. The key is in nothing that is said."""
    def go(server, **spec):
        heard = listen(start(server, **spec))
        assert KEY not in json.dumps(heard.lines)
        return heard
    return go


def reply_text(heard):
    return "".join(block.get("text", "") for block in heard.replies[-1]["reply"])


def only_error(heard):
    assert heard.replies == []
    assert len(heard.errors) == 1, heard.lines
    return heard.errors[0]["error"], heard.errors[0]["text"]


def test_what_is_sent(ask):
    with Faulty(answer("Hi")) as s:
        heard = ask(s, headers={"anthropic-beta": "b-1"})
        r = s.requests[0]
    assert reply_text(heard) == "Hi" and heard.replies[0]["input"] == 7 and heard.replies[0]["output"] == 5
    assert r.line == "POST /v1/messages HTTP/1.1"
    assert r.headers["x-api-key"] == KEY and r.headers["anthropic-version"] == "2023-06-01"
    assert r.headers["anthropic-beta"] == "b-1" and r.headers["content-type"] == "application/json"
    assert "expect" not in r.headers and "accept-encoding" not in r.headers and "authorization" not in r.headers
    assert r.json()["stream"] is True and r.json()["model"] == "fake-1"


@pytest.mark.parametrize("api,path", [("chat", "/v1/chat/completions"), ("responses", "/v1/responses")])
def test_openai_paths(ask, api, path):
    with Faulty(whole({"error": {"message": "no"}}, 400, "application/json")) as s:
        only_error(ask(s.url + "/v1", api=api, provider="openai"))
        assert s.requests[0].path == path and s.requests[0].headers["authorization"] == "Bearer " + KEY


def test_one_connection_for_all(ask):
    with Faulty(answer("Hi")) as s:
        heard = ask(s, asks=5)
        assert len(heard.replies) == 5 and s.connections == 1


def test_connection_is_used_again_where_the_end_comes_late(ask):
    """The answer is complete before the last chunk has come: it is not waited for, nor is the connection lost."""
    second = threading.Event()

    def late(conn, _):
        conn.sendall(head(200, "text/event-stream", "Transfer-Encoding: chunked") + b"\r\n" + chunk(opening() + text("a") + closing()))
        conn.sendall(b"0\r\n\r\n")
        second.set()
        return True
    with Faulty(late) as s:
        assert len(ask(s, asks=3).replies) == 3
        assert second.is_set()


def test_split_at_every_byte(ask):
    stream = opening() + text("Grüße 日本 ", "𝄞") + closing()
    with Faulty(chunked(*(stream[i:i + 1] for i in range(len(stream))))) as s:
        assert ask(s).text == "Grüße 日本 𝄞"


def test_end_of_the_stream_is_not_waited_for(ask):
    hold = threading.Event()
    with Faulty(stalling(hold, opening() + text("done") + closing())) as s:
        heard = ask(s)
        hold.set()
    assert reply_text(heard) == "done" and heard.waits == []


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_tried_again(ask, status):
    with Faulty(whole(OVERLOADED, status, "application/json"), answer("Hi")) as s:
        heard = ask(s)
        assert reply_text(heard) == "Hi" and len(s.requests) == 2
        assert s.requests[0].body == s.requests[1].body
    assert [w["attempt"] for w in heard.waits] == [1] and "Overloaded" in heard.waits[0]["text"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_not_tried_again(ask, status):
    with Faulty(whole({"error": {"message": "no"}}, status, "application/json")) as s:
        only_error(ask(s))
        assert len(s.requests) == 1


def test_headers_decide_about_trying(ask):
    with Faulty(whole(b"", 400, None, "x-should-retry: true"), whole(b"", 529, None, "x-should-retry: false")) as s:
        only_error(ask(s))
        assert len(s.requests) == 2


def test_told_when(ask):
    plays = [whole(OVERLOADED, 429, "application/json", "retry-after-ms: 30"), whole(OVERLOADED, 429, "application/json", "retry-after: 0"),
             whole(OVERLOADED, 429, "application/json", "retry-after: 3600"), answer("Hi")]
    with Faulty(*plays) as s:
        waits = [w["ms"] for w in ask(s).waits]
    assert waits[:2] == [30, 0] and waits[2] < 60


def test_gives_up(ask):
    with Faulty(whole(OVERLOADED, 529, "application/json")) as s:
        heard = ask(s, retries=2)
        assert len(s.requests) == 3
    code, said = only_error(heard)
    assert code == "EIO" and "Overloaded" in said and said.endswith("tried 3 times") and len(heard.waits) == 2


def test_error_event_after_200(ask):
    with Faulty(chunked(opening(), text("Hel"), event("error", error=OVERLOADED["error"])), answer("Hel", "lo")) as s:
        heard = ask(s)
    assert heard.said == ["Hel", "lo"] and len(heard.waits) == 1 and heard.backs == []


def test_dropped_before_the_first_byte(ask):
    with Faulty(drop, answer("Hi")) as s:
        heard = ask(s)
    assert reply_text(heard) == "Hi" and len(heard.waits) <= 1


def test_dropped_in_the_middle_is_not_shown_twice(ask):
    with Faulty(chunked(opening(), text("Hello "), end=False), chunked(opening(), text("Hello w"), end=False), answer("Hello wor", "ld")) as s:
        heard = ask(s)
    assert heard.said == ["Hello ", "w", "or", "ld"] and heard.backs == [] and reply_text(heard) == "Hello world"
    assert "broke the connection off" in heard.waits[0]["text"]


def test_another_answer_takes_back_what_differs(ask):
    with Faulty(chunked(opening(), text("Hello Anna"), end=False), answer("Hello ", "Berta")) as s:
        heard = ask(s)
    assert len(heard.backs) == 1 and heard.backs[0]["keep"] == 6
    assert heard.text == reply_text(heard) == "Hello Berta"


def test_stream_that_ends_early_is_tried_again(ask):
    with Faulty(chunked(opening(), text("Hel")), answer("Hello")) as s:
        heard = ask(s)
    assert reply_text(heard) == "Hello" and len(heard.waits) == 1


def test_idle_stream_is_dead(ask):
    hold = threading.Event()
    with Faulty(stalling(hold, opening(), text("He")), answer("Hello")) as s:
        heard = ask(s, idle_ms=200)
        hold.set()
    assert heard.said == ["He", "llo"] and "silent" in heard.waits[0]["text"]


def test_pings_keep_a_stream_alive(ask):
    def play(conn, _):
        conn.sendall(head(200, "text/event-stream", "Transfer-Encoding: chunked") + b"\r\n" + chunk(opening()))
        for _ in range(20):
            threading.Event().wait(0.1)
            conn.sendall(chunk(event("ping")))
        conn.sendall(chunk(text("Hi") + closing()) + b"0\r\n\r\n")
        return True
    with Faulty(play) as s:
        heard = ask(s, idle_ms=1500)
    assert reply_text(heard) == "Hi" and heard.waits == []


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", None, "application/json"])
def test_stream_by_another_name(ask, kind):
    with Faulty(chunked(opening() + text("Hi") + closing(), kind=kind)) as s:
        assert reply_text(ask(s)) == "Hi"


def test_document_instead_of_a_stream(ask):
    document = {"id": "m", "type": "message", "role": "assistant", "model": "fake-1", "content": [{"type": "text", "text": "Hi"}],
                "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2}}
    for kind in "application/json", "text/event-stream":
        with Faulty(whole(document, 200, kind)) as s:
            heard = ask(s)
        assert reply_text(heard) == heard.text == "Hi" and heard.replies[0]["input"] == 3


def test_web_page(ask):
    with Faulty(whole(b"<!doctype html><title>Login</title>", 200, "text/html")) as s:
        code, said = only_error(ask(s))
    assert code == "EPROTO" and "web page" in said and "base URL" in said


def test_refusals(ask):
    cases = [(401, {"error": {"message": f"bad key {KEY}"}}, "EACCES", "ANTHROPIC_API_KEY"),
             (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: fake-1"}}, "ENOENT", 'no model "fake-1"'),
             (400, {"error": {"message": "prompt is too long: 9 > 8"}}, "EMSGSIZE", "longer than fake-1 takes"),
             (429, {"error": {"code": "insufficient_quota", "message": "quota"}}, "EDQUOT", "billing")]
    for status, body, code, says in cases:
        with Faulty(whole(body, status, "application/json")) as s:
            got, said = only_error(ask(s))
        assert got == code and says in said and f"127.0.0.1:{s.port}" in said or code == "EMSGSIZE"


def test_giant_refusal_is_cut(ask):
    with Faulty(whole(b'{"error":{"message":"' + b"x" * (1 << 20) + b'"}}', 400, "application/json")) as s:
        _, said = only_error(ask(s))
    assert len(said) < 1024


def test_key_refused_without_one(ask):
    with Faulty(whole({"error": {"message": "x"}}, 401, "application/json")) as s:
        _, said = only_error(ask(s, key=None))
        assert "x-api-key" not in s.requests[0].headers
    assert "wants a key: set ANTHROPIC_API_KEY" in said


def test_nobody_listens(ask):
    with Faulty(drop) as s:
        url = s.url
    heard = ask(url)
    code, said = only_error(heard)
    assert code == "ECONNREFUSED" and f"is the server running there? " in said and url in said and len(heard.waits) == 2


def test_no_such_host(ask):
    code, said = only_error(ask("http://no-such-host.invalid"))
    assert code == "EHOSTUNREACH" and "no-such-host.invalid" in said


def test_redirect_elsewhere_is_not_followed(ask):
    with Faulty(answer("stolen")) as evil, Faulty(whole(b"", 307, None, f"Location: {evil.url}/v1/messages")) as s:
        code, said = only_error(ask(s))
        assert evil.requests == [] and code == "EPROTO" and evil.url in said


def test_redirect_on_the_same_host_is_followed(ask):
    with Faulty(whole(b"", 308, None, "Location: /other/messages"), answer("Hi")) as s:
        assert reply_text(ask(s)) == "Hi"
        assert s.requests[1].path == "/other/messages" and s.requests[1].body == s.requests[0].body


def test_redirects_in_circles(ask):
    with Faulty(whole(b"", 307, None, "Location: /v1/messages")) as s:
        only_error(ask(s))
        assert len(s.requests) == 4


def test_header_flood(ask):
    flood = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(400)) + b"\r\n"
    with Faulty(raw(flood)) as s:
        code, said = only_error(ask(s, retries=0))
    assert code == "EPROTO" and "headers" in said


@pytest.mark.parametrize("bytes_", [b"SSH-2.0-OpenSSH_9\r\n", b"\x15\x03\x01\x00\x02\x02\x28", b"HTTP/9 200\r\n\r\n"])
def test_no_http(ask, bytes_):
    with Faulty(raw(bytes_)) as s:
        code, _ = only_error(ask(s, retries=0))
    assert code in ("EPROTO", "EPIPE")


def test_bytes_that_are_no_utf8(ask):
    broken = text("MARK").replace(b"MARK", b"a\xff\xfeb")
    with Faulty(chunked(opening(), broken, closing())) as s:
        heard = ask(s)
    assert heard.text == reply_text(heard) and heard.text.startswith("a") and heard.text.endswith("b")


def test_giant_answer(ask):
    piece = "x" * 100000
    with Faulty(answer(*[piece] * 100)) as s:
        assert len(reply_text(ask(s, quiet=True))) == 10_000_000


def test_too_much_is_refused(ask):
    def flood(conn, _):
        conn.sendall(head() + b"\r\n" + opening())
        piece = text("x" * (1 << 20))
        for _ in range(80):
            conn.sendall(piece)
        return False
    with Faulty(flood) as s:
        _, said = only_error(ask(s, quiet=True, retries=0))


def test_event_without_end_is_refused(ask):
    def flood(conn, _):
        conn.sendall(head() + b"\r\ndata: ")
        for _ in range(80):
            conn.sendall(b"x" * (1 << 20))
        return False
    with Faulty(flood) as s:
        code, said = only_error(ask(s, quiet=True, retries=0))
    assert code == "EPROTO" and "event of more than" in said


@pytest.mark.parametrize("base", ["ftp://h", "file:///etc/passwd", "https://u:hidden@h", "http://", "http://h/\r\nX: y"])
def test_bad_addresses(ask, base):
    code, said = only_error(ask(base))
    assert code == "EINVAL" and "ANTHROPIC_BASE_URL" in said and "hidden" not in said


def test_line_ends_in_headers_are_refused(start):
    for spec in {"key": "sk-a\r\nX-Evil: 1"}, {"headers": {"X-A": "b\r\nX-Evil: 1"}}, {"headers": {"X-A\n": "b"}}:
        out, _ = start("http://127.0.0.1:1", **spec).communicate(timeout=60)
        assert json.loads(out)["error"] == "EINVAL" and b"Evil" not in out


def test_proxy_of_the_environment(start):
    with Faulty(answer("through the proxy")) as proxy:
        out, _ = start("http://model.invalid", env={"http_proxy": proxy.url}).communicate(timeout=60)
        assert b"through the proxy" in out and proxy.requests[0].path == "http://model.invalid/v1/messages"


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
