"""How a model is reached over HTTP: what is sent, what breaks on the way, what is tried again, what is refused.

Through tests/unit/model/model_http_probe.c, which asks one model and prints what it hears.
"""
import json
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from asking import KEY, listen, only_error, reply_text
from faulty import Faulty, answer, chunk, chunked, closing, drop, event, head, opening, raw, stalling, text, whole

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


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
    assert "closed the connection before" in heard.waits[0]["text"]


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
    assert heard.said == ["He", "llo"] and "does not respond" in heard.waits[0]["text"]


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
             (400, {"error": {"message": "prompt is too long: 9 > 8"}}, "EMSGSIZE", "too long for fake-1"),
             (429, {"error": {"code": "insufficient_quota", "message": "quota"}}, "EDQUOT", "billing")]
    for status, body, code, says in cases:
        with Faulty(whole(body, status, "application/json")) as s:
            got, said = only_error(ask(s))
        assert got == code and says in said


def test_giant_refusal_is_cut(ask):
    with Faulty(whole(b'{"error":{"message":"' + b"x" * (1 << 20) + b'"}}', 400, "application/json")) as s:
        _, said = only_error(ask(s))
    assert len(said) < 1024


def test_key_refused_without_one(ask):
    with Faulty(whole({"error": {"message": "x"}}, 401, "application/json")) as s:
        _, said = only_error(ask(s, key=None))
        assert "x-api-key" not in s.requests[0].headers
    assert "anthropic: no API key: set ANTHROPIC_API_KEY" in said


def test_nobody_listens(ask):
    with Faulty(drop) as s:
        url = s.url
    heard = ask(url)
    code, said = only_error(heard)
    assert code == "ECONNREFUSED" and "is the server running? " in said and url in said and len(heard.waits) == 2


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
        out, _ = start("http://127.0.0.1:1", **spec).communicate(timeout=300)
        assert json.loads(out)["error"] == "EINVAL" and b"Evil" not in out


def test_proxy_of_the_environment(start):
    with Faulty(answer("through the proxy")) as proxy:
        out, _ = start("http://model.invalid", env={"http_proxy": proxy.url}).communicate(timeout=300)
        assert b"through the proxy" in out and proxy.requests[0].path == "http://model.invalid/v1/messages"


@pytest.fixture(scope="session")
def certificate(scratch):
    """A key and a certificate for 127.0.0.1 that nobody has signed."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl on this host: cannot make a certificate")
    key, cert = Path(scratch, "key.pem"), Path(scratch, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", key, "-out", cert, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    cert.chmod(0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, str(cert)


def test_certificates_are_checked(start, certificate):
    context, cert = certificate
    with Faulty(answer("over TLS"), tls=context) as s:
        code, said = only_error(listen(start(s)))
        assert code == "EKEYREJECTED" and "SSL_CERT_FILE" in said and s.requests == []
        assert reply_text(listen(start(s, env={"SSL_CERT_FILE": cert}))) == "over TLS"
        code, _ = only_error(listen(start(s.url.replace("127.0.0.1", "localhost"), env={"SSL_CERT_FILE": cert})))
        assert code == "EKEYREJECTED"


def test_tls_connection_that_was_closed(start, certificate):
    """The next request on it neither fails nor ends the program by SIGPIPE."""
    context, cert = certificate

    def last(conn, request):
        answer("Hi")(conn, request)
        return False
    with Faulty(last, tls=context) as s:
        heard = listen(start(s, asks=4, env={"SSL_CERT_FILE": cert}))
        assert len(heard.replies) == 4 and s.connections >= 4
