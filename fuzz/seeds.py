"""Writes the inputs that fuzzing begins with: seeds.py FOLDER makes one folder in it per target.

They say in the form of each target what real calls look like, so that a short run already gets past the first checks.
"""
import io
import json
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

# The recipes of compose.c.
STOP = b"\xff"


def frame(kind, *fields):
    return bytes([0x80, kind]) + b"".join(fields)


def text(key, value):
    return bytes([key, len(value)]) + value


def number(key, value):
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([0x40 | key, len(digits)]) + digits


# And frames as they are on the wire (docs/protocol.md).
def raw_frame(kind, *fields):
    body = b"".join(struct.pack("<HHI", key, 0, len(value)) + value for key, value in fields)
    return struct.pack("<IB3x", len(body), kind) + body


ARG, ENV, CWD, STDIO, BACKGROUND, ROWS, COLS, STREAM, DATA, EOF, SIGNAL, HANDLE = 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14
EXIT_CODE, TERM_SIGNAL, LIMIT, DURATION, CPU, RSS, CODE, TEXT, PATH, KIND, MODE, SIZE = 15, 16, 17, 18, 19, 20, 32, 33, 34, 35, 36, 37
OFFSET, TARGET, NAME, COUNT, TOO_MANY, MARK = 38, 41, 44, 45, 46, 50
COMMAND = text(ARG, b"sh") + text(ARG, b"-c") + text(ENV, b"A=b") + text(CWD, b"/tmp") + number(6, 1000)

WIRE_GUEST = [
    b"\0" + frame(1),
    b"\2" + frame(2, COMMAND),
    b"\0" + frame(2, COMMAND, number(STDIO, 1)) + frame(64, text(DATA, b"in")) + frame(64, number(EOF, 1)) + STOP,
    b"\0" + frame(2, COMMAND, number(STDIO, 2), number(ROWS, 24), number(COLS, 80)) + frame(66, number(ROWS, 50), number(COLS, 9))
    + frame(64, text(DATA, b"in\n")) + frame(64, number(EOF, 1)) + frame(65, number(SIGNAL, 2)),
    b"\0" + frame(2, COMMAND, number(STDIO, 3), number(BACKGROUND, 1)) + STOP + b"\0" + frame(4, number(HANDLE, 1)) + STOP
    + b"\0" + frame(3, number(HANDLE, 1), number(SIGNAL, 9)),
    b"\0" + frame(2, COMMAND, number(STDIO, 1)) + frame(65, number(SIGNAL, 9)),
    b"\0" + frame(16, text(PATH, b"a/b"), number(OFFSET, 1)) + STOP + b"\0" + frame(5) + STOP + b"\0" + frame(99),
    b"\0" + frame(6, text(NAME, b"s"), text(TEXT, b"true"), text(ENV, b"A=b"), text(CWD, b"/tmp"), text(DATA, b"in")) + STOP
    + b"\0" + frame(6, text(NAME, b"s"), text(TEXT, b"true"), text(ENV, b"A=c")),
    b"\0" + frame(6, text(TEXT, b"cat"), number(BACKGROUND, 1)) + STOP + b"\0" + frame(7, number(HANDLE, 1), text(DATA, b"x"))
    + STOP + b"\0" + frame(4, number(HANDLE, 1), number(MARK, 4)) + STOP + b"\0" + frame(7, number(HANDLE, 1), number(EOF, 1)),
    b"\0" + frame(26, text(109, b"tests"), text(110, b"/logs/")) + frame(130, text(PATH, b"tests/a"), number(MODE, 0o644), number(SIZE, 2),
                                                                         text(DATA, b"ab")) + frame(130, number(EOF, 1)),
    b"\1" + raw_frame(2, (ARG, b"true"), (STDIO, struct.pack("<Q", 3))),
    b"\1" + raw_frame(1) + b"\7\0\0\0\1",
]

RESULT = frame(131, number(EXIT_CODE, 3), number(DURATION, 10**9), number(CPU, 5000), number(RSS, 1 << 20), number(LIMIT, 1))
ENTRY = frame(130, text(PATH, b"a/b"), number(KIND, 2), number(MODE, 0o100644), number(SIZE, 9), text(TARGET, b"../x"))
EXEC, CHANGES, FETCH, DIFF, CAPTURE, TTY, RAW = 0, 8, 16, 24, 2, 4, 1

WIRE_HOST = [
    bytes([EXEC]) + RESULT,
    bytes([EXEC | CAPTURE]) + frame(131, number(TERM_SIGNAL, 9), number(CPU, 2**55)),
    bytes([EXEC | CAPTURE | TTY]) + frame(128, number(STREAM, 1), text(DATA, b"x" * 200)) + RESULT,
    bytes([EXEC | TTY]) + frame(132, number(CODE, 2), text(TEXT, b"no")),
    bytes([EXEC | RAW]) + raw_frame(131, (EXIT_CODE, struct.pack("<Q", 1))),
    bytes([CHANGES]) + ENTRY + frame(130, text(PATH, b"c"), number(KIND, 3), number(COUNT, 1)) + frame(131, number(TOO_MANY, 1)),
    bytes([FETCH]) + frame(129, text(DATA, b"ab")) + frame(129, number(OFFSET, 3), text(DATA, b"c")) + frame(131, number(SIZE, 4)),
    bytes([FETCH | CAPTURE]) + frame(129, text(DATA, b"abcd")) + frame(131, number(SIZE, 4)),
    bytes([DIFF]) + frame(129, text(DATA, b"diff --git a/x b/x\n")) + frame(131),
]

OPTIONS = [
    b"\0" + b"\0".join(words.split())
    for words in [
        b"-w . --mode cow --apply --backend ns --image i --net off -- true",
        b"--net allow:example.org:443,[::1]:80,*.example.net --timeout 250ms --cpu-time 5m --memory=512M",
        b"--pids 256 --files 1024 --disk 1G --cpus 1.5 --output 1M --ro /opt:/opt --rw a:/b --env A=b --tty --json -- sh -c x",
        b"--help",
    ]
] + [b"\1--ttl\x001h", b"\2--cwd\0/tmp\0--json\0--\0true"]

STATE = b"/usr\n\0declare -x A='1'\n\0f () { :; }\n\0end\0"
SHELL_STATE = [STATE, b"taken\0\0" + STATE, b"taken\0gone\0" + STATE, b"A=it's", b"taken\0\0bash: cd: /x: No\n"]

PROXY = [
    b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\nxx",
    b"GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\nProxy-Connection: keep-alive\r\n\r\n",
    b"POST http://[::1]:80/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcd",
    b"POST http://a.b/ HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n",
    b"example.org:443",
    b"*.example.org",
]

DOTENV = [b"# c\nexport A = 1 # x\nB='it is'\r\nC=\"a\\n\\\"b\nc\"\n", b"\xef\xbb\xbfA=b\nnonsense\nD='open\nE=1", b"A=\0\nB=x#y"]
UNITS = [b"512M", b"2G", b"250ms", b"30s", b"5m", b"1.5", b"18446744073709551615", b"9223372036854775807B", b"106751d", b"0"]


def two_texts(a, b):
    return struct.pack(">H", len(a)) + a + b


LINEDIFF = [
    two_texts(b"a\nb\nc\n", b"a\nx\nc\n"),
    two_texts(b"1\n2\n3\n4\n5\n6\n7\n8\n9", b"0\n1\n2\n3\n4\n6\n7\n9\n"),
    two_texts(b"", b"a"),
    two_texts(b"f {\n}\n" * 3, b"f {\n}\n" * 4),
]

MERGE = [
    bytes([170, 128]) + b"1\n2\n3\n4\n" + b"x\n2\n3\n4\n" + b"1\n2\n3\ny\n",
    bytes([170, 128]) + b"1\n2\n3\n" + b"1\nm\n3\n" + b"1\nt\n3\n",
]

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{"items":[]},"_meta":{"progressToken":"a"}}}\n'
RPC = [
    b"\xff\x03" + CALL,
    b"\xff\xff" + CALL + b'\r\n{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}\n',
    b"\x03\x01" + b'[{"jsonrpc":"2.0","id":null,"method":"ping"}]\n' + CALL,
    b"\xff\x10" + b'{"jsonrpc":"2.0","id":"a\\u0000b","result":{"x":[1,2.5,-3e4,true,null]}}\n{"jsonrpc":"2.0","error":{"code":-1}}\n',
]

MODERN = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
MCP = [bytes([i]) + CALL for i in range(5)] + [
    b'\1[{"jsonrpc":"2.0","id":2,"method":"ping"},' + CALL[:-1] + b',{"jsonrpc":"2.0","id":3,"method":"tools/list"}]\n',
    b'\3{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///workspace/a%20b"}}\n'
    b'{"jsonrpc":"2.0","id":"x","method":"resources/list","params":{"cursor":"200"}}\n',
    b'\3{"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/resource",'
    b'"uri":"file:///workspace/{path}"},"argument":{"name":"path","value":"a/b"}}}\n',
    b'\3{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}\n',
    b'\7{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{' + MODERN + b'}}\n',
    b'\3' + CALL + b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
]


def edit_of(old, new, text, flags=b"\0\1\2"):
    return bytes([len(old) - 1, len(new)]) + flags + old + new + text


EDIT = [
    edit_of(b"b", b"x", b"a\nb\nc\n"),
    edit_of(b"a {\n    b;\n}", b"x", b"a {\n\tb;\n}\n"),
    edit_of(b"a\nb\n", b"c\n", b"a\r\nb\r\n"),
    edit_of(b"'x' - y...", b"z", "‘x’ – y… é\n".encode()),
    edit_of(b"return a;\nif (b)\n", b"z", b"return a;\nif (c)\nend\n", b"\1\xfe\3"),
]

# Bytes that fuzz_schema.c builds a value and a schema of.
SCHEMA = [bytes(range(i, i + 60)) for i in range(0, 196, 7)] + [b"\x08\x02\x2d\x04\x2d\x2e\x02\x01" + b"\x08\x03\x00\x04\x29\x03\x08\x01\x2d\x08\x01\x00\x04\x26"]

GLOB = [b"src/a.c\0" + rules for rules in [b"*.{c,h}", b"**/a.?", b"src/**", b"/src/*\n!a.c\n", b"[!a-b]*/[[:alpha:]].c", b"a\\ \n#x\n*/\r\n"]]

PATTERN = [
    b"\0" + pattern + b"\0one two\n\nthree  four\r\n\xc3\xa9t\xc3\xa9 Two\n"
    for pattern in [b"two", b"(?i)TWO|four", rb"\bt\w+\s*$", rb"^[^t]*\d{0,3}(?!x)", rb"(?<=t)[\sa-z]+?\S", rb"(a+)+$", rb"\Qo.\E|\p{L}+", b"[]x-]"]
]

def diff(text, given=b"", how=2):
    return bytes([how]) + struct.pack(">H", len(given)) + given + text


DIFF = [
    diff(b"--- a/f\n+++ b/f\n@@ -2,4 +2,4 @@\n two\n-three\n+3\n four\n five\n"),
    diff(b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n one\n+x\n@@ -12 +13 @@\n-twelve\n+12\n\\ No newline at end of file\n"),
    diff(b"--- /dev/null\n+++ b/n/new\n@@ -0,0 +1 @@\n+hi\n--- a/a/f\t2024-01-01 00:00:00\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-x\n-y\n-z\n\\ No newline at end of file\n"),
    diff(b"diff --git a/f b/g\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from f\nrename to g\n"
         b"diff --git \"a/\\303\\274\" \"b/\\303\\274\"\nnew file mode 120000\n--- /dev/null\n+++ \"b/\\303\\274\"\n@@ -0,0 +1 @@\n+f\n"),
    diff(b"diff --git a/bin b/bin\nindex eaf36c1daccfdf325514461cd1a2ffbc139b5464..77356c3140e44b3c31fb7d66ad55a9a1a4d4d4f2\n"
         b"GIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"),
    diff(b"```diff\n--- crlf\r\n+++ crlf\r\n@@ ... @@\r\n p\r\n-q\r\n+Q\r\n```\n", how=34),
    diff(b"*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@ two\n three\n-four\n+4\n*** End of File\n*** Add File: h\n+a\n*** Delete File: a/f\n*** End Patch\n"),
    diff(b"--- given\n+++ given\n@@ -1,9 +1,9 @@\n a\n-b\n+c\n", b"a\nb\nb\n", 18),
]

# Reports as runners write them, to be recognised, and each as its own format.
REPORTS = Path(__file__).resolve().parent.parent / "tests" / "unit" / "guest" / "reports"
FORMATS = {"xml": 1, "json": 2, "tap": 5, "libtest": 6, "automake": 7}
REPORT = [
    bytes([form]) + path.read_bytes()
    for path in sorted(REPORTS.iterdir()) if path.suffix != ".expected"
    for form in (0, {"go.json": 3, "meson.json": 4}.get(path.name, FORMATS.get(path.suffix[1:], 0)))
]

SSE = [
    b"\x01event: add\ndata: 1\ndata: 2\n\nid: 7\nretry: 10\n\n: c\ndata: x\n\n",
    b"\x02data: a\r\n\r\ndata: b\r\rdata:c\n\n",
    b"\x03\xef\xbb\xbfdata\n\nid: a\0b\ndata: x\n\n",
]



def sse(first, *events):
    """A stream; the first byte says how it is read (fuzz_decode.c)."""
    return bytes([first]) + b"".join(b"data: " + e.encode() + b"\n\n" for e in events)


ANTHROPIC = [
    sse(0x13, '{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"cache_read_input_tokens":2}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}', '{"type":"ping"}',
        '{"type":"content_block_stop","index":0}', '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\\ud83d"}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\\ude00"}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"x"}}}',
        '{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}',
        '{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":1}"}}',
        '{"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","input":{}}}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}', '{"type":"message_stop"}'),
    sse(0x53, '{"type":"message_start"}', '{"type":"error","error":{"type":"overloaded_error","message":"try again in 1m2s"}}'),
    b'\x90{"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"a","name":"b","input":{"c":[]}}],"stop_reason":"end_turn"}',
]
OPENAI = [
    sse(2, '{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a","reasoning_content":"b"}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"n","arguments":"{\\"a\\":"}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"function":{"name":"o","arguments":{}}}]}}]}',
        '{"choices":[{"delta":{"reasoning_details":[{"type":"t","text":"x","index":0}],"refusal":"no"},"finish_reason":"stop"}]}',
        '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}', "[DONE]"),
    sse(2, '{"error":{"message":"maximum context length","code":400}}'),
    b'\x80{"choices":[{"message":{"content":[{"type":"text","text":"a"}],"function_call":{"name":"f","arguments":"{}"}}}]}',
    sse(0x22, '{"type":"response.created","response":{"id":"r","model":"m"}}',
        '{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","summary":[]}}',
        '{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"x"}',
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":[{"text":"x"}],"encrypted_content":"e"}}',
        '{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"he"}',
        '{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"hey"}]}}',
        '{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c","name":"n","arguments":""}}',
        '{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}',
        '{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1}}}'),
    sse(0x22, '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"try again in 5ms"}}}'),
    b'\xa0{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"web_search_call"}]}',
]
REQUESTS = Path(__file__).resolve().parent.parent / "tests" / "unit" / "model" / "requests"
ENCODE = [json.dumps(json.loads(path.read_text())["messages"]).encode() for path in sorted(REQUESTS.iterdir())]

MCP_CLIENT = [
    b'{"tools":[{"name":"a","title":"t","description":"d","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"x"}},{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}',
    b'{"content":[{"type":"text","text":"a\\u0000b"},{"type":"image","mimeType":"image/png","data":"iVBORw0="},{"type":"audio","mimeType":"audio/wav","data":"AA"}],"structuredContent":{"n":1}}',
    b'{"content":[{"type":"resource","resource":{"uri":"u","mimeType":"m","text":"t"}},{"type":"resource","resource":{"uri":"u","blob":"AA"}},{"type":"resource_link","uri":"u","name":"n","description":"d"},{"type":"x"}],"isError":true}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2,"message":"m"}}\n',
    b'noise\n{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n[{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"m"}}]\n{"jsonrpc":"2.0","id":"x","method":"ping"}\n',
]

MARKDOWN = [
    b"\x05\x30# H\n\npara **b** *i* `c` [l](u) <a@b.c>\n- a\n  1. b\n\n     ```c\n     int x; /*\n     ```\n- [x] t\n",
    b"\x03\x10| a | b |\n|---|:-:|\n| 1 | \xe6\xbc\xa2 |\n\n> q\n> > r\nlazy\n\n---\n    code\n\n    more\n",
    b"\x81\x20~~~py\n'''a\nb''' # c\n~~~\nT\n===\n&#27;[2J \x1b[31m\xff\xe2\x80\xae [x]: y\n",
]

REPLAY = [
    b'"Hi there"\n{"text":"Run","calls":[{"name":"bash","input":{"command":"true"},"id":"x"}]}\n',
    b'{"content":[{"type":"thinking","text":"hm","from":"a/b","raw":{}},{"type":"text","text":"a b"},{"type":"tool_use","id":"t","name":"n",'
    b'"input":{},"bad_input":"x"},{"type":"other","from":"a/b","raw":{}}],"stop":"max_tokens","usage":{"input":1,"output":2},"model":"m",'
    b'"pieces":[[1,"thinking",2],[2,"text",1],[3,"text",2]],"digest":"00","cut":true}',
    b'{"answers":["a",{"thinking":"b","text":""}]}',
    b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: sk-fuzz, try again in 1m2.5s"}}',
    b'[{"error":{"message":"x\\u001b[0m","code":"insufficient_quota"}}]',
    b'{"detail":[{"msg":"field required"}]}',
]

HISTORY_LINES = [
    b'{"time": "2026-01-02T03:04:05.678Z", "role": "user", "turn": 1, "content": [{"type": "text", "text": "a \\"b\\" \\u00e4\\ud83d\\ude00 \xc3\xa4"}]}',
    b'{"time": "x", "role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "ls"}}], "model": "m/1",'
    b' "stop": "tool_use", "usage": {"input": 1, "output": 2}, "cost": 0.25}',
    b'{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "out"}], "is_error": false}]}',
    b'{"role": "hutch", "kind": "undo", "to": 0}', b'{"role": "hutch", "kind": "cleared"}',
    b'{"role": "hutch", "kind": "summary", "until": 2, "text": "s"}', b'{"role": "us\\u0065r", "turn": 1e0, "n": 12345678901234567890}',
]
HISTORY_HEAD = b'{"version": 1, "session": "x", "created": "t", "workspace": "/w", "messages": [\n'
HISTORY_WHOLE = HISTORY_HEAD + b",\n".join(HISTORY_LINES[:6]) + b'\n], "totals": {"turns": 0, "messages": 6, "model": "m/1", "cost": 0.25}}\n'
HISTORY = [
    HISTORY_WHOLE,
    HISTORY_WHOLE[:-60],
    HISTORY_WHOLE[:400] + b"\0" * 40 + HISTORY_WHOLE[440:],
    HISTORY_HEAD + HISTORY_LINES[0] + b"\n]}\n",
    HISTORY_HEAD + HISTORY_LINES[0] + b',\n{"time": "x", "role": "user", "turns": 1, "cost": 0.25}}\n',
    HISTORY_HEAD + HISTORY_LINES[6] + b"]}",
    b'{"messages": [ ' + HISTORY_LINES[3] + b' , ' + HISTORY_LINES[4] + b' ] , "version": 1, "workspace": "/w" }',
    b'{"messages": []}',
]
KEYS = [
    b"\x03hello w\x7f\x17orld\r",
    "\x1fgr\u00fc\u00dfe \u4e16\u754c \u2764\ufe0f \U0001f469\u200d\U0001f469\u200d\U0001f466\U0001f1e9\U0001f1ea".encode() + b"\x02\x02\x7f\x1f",
    b"\x07\033[A\033OB\033[1;5C\033[13;2u\033[27;2;13~\033[99;5u\033[3~\033[Z\033[<64;1;2M\033b\033\r\033",
    b"\x10\033[200~" + b"line\r\n" * 12 + b"\xff\033[A\033[201~x\x02\x7f\x1f\x19\xf4\x8f\x80\x80",
]

TOKEN = b"0" * 32
OUTCOMES = [
    b"\7" + b"".join(b"%s %d %s\n" % (TOKEN, i, line) for i, line in enumerate(lines))
    for lines in [
        [b"B\ta::x", b"P\ta::x", b"B\ta::y[1]", b"F\ta::y[1]\tassert 1 == 2\\n +  where", b"Z"],
        [b"B\ta", b"E\ta\twhy", b"T\ttampered: gc", b"B\tb", b"P\tb", b"U\tnot collected"],
        [b"B\ta", b"P\ta", b"P\ta", b"B\tb", b"S\tb\tskipped", b"Z", b"Z"],
    ]
] + [b"\1" + TOKEN + b" 1 B\ta\n6 passed\n" + TOKEN + b" 2 P\ta\\\n"]
TASK_PATCHES = b'[{"name": "fix", "diff": "--- a/src/a.py\\n+++ b/src/a.py\\n@@ -1 +1 @@\\n-x\\n+y\\n"}]'
TASK_HEAD = b'{"title": "T", "instruction": "I", "solution": ["fix"], "reads": ["src/a.py"], '
TASK = [
    TASK_HEAD + b'"tests": {"runner": "pytest", "paths": ["tests"], "import": ["src"], "expected": ["a::b"]}}\0' + TASK_PATCHES,
    TASK_HEAD + b'"language": "c", "tests": {"runner": "command", "command": "make %R", "format": "tap", "own": ["tests"]}, '
    b'"limits": {"steps": 7, "test_time": "3s", "test_cpu": "250ms", "memory": "64M", "pids": 9, "disk": "2M"}, '
    b'"prices": {"call": 0.5, "second": 1}, "seed": 42}\0' + TASK_PATCHES,
    TASK_HEAD + b'"tests": {"runner": "command", "command": "x", "format": "reward", "report": "/logs/r"}}\0' + TASK_PATCHES,
    TASK_HEAD + b'"tests": {"runner": "command", "command": "x", "format": "exit"}}\0[]',
]
IMPORT = [
    b'\0a = "x\\u00e9" # c\n[v]\nt = 120.0\nl = [1, {b = 2}, "]"]\nm = \'\'\'x\ny\'\'\'\n[[s.t]]\n"q" = true\n',
    b"\1instruction: |-\n  x\n  y\ntags:\n  - t\n  - {u: v}\nservices:\n  a: {}\n",
    b'\2FROM x\nWORKDIR /w\nRUN apt-get update && \\\n  make\nCOPY --chown=1 ["a", "b/"]\nCOPY b/*.py .\nCOPY <<E x\ny\nE\n',
    b"\2FROM x\nADD . /app/\nENV A=b\nRUN <<E\nx\nE\nWORKDIR ../z\n",
    b"\3diff --git a/x b/x\nrename from x\nrename to y\n--- a/x\t1\n+++ b/y\n@@ -1,2 +1,2 @@\n c\n--- a/z\n+++ b/z\n--- a/q\n",
]
TRAJECTORY_HEAD = b'{"task":"t","digest":"d","seed":7,"clock":"virtual"}\n'
TRAJECTORY_STEPS = [
    b'{"step":0,"action":null,"observation":{"text":"x"},"reward":0,"pass_rate":null,"terminated":false,"truncated":false}\n',
    b'{"step":1,"action":{"tool":"bash","command":"ls"},"observation":{"text":"in 0.02s at 0x7f1234567890"},"reward":-0.01,'
    b'"pass_rate":0.5,"terminated":true,"truncated":false,"seconds":0.1}\n',
]
TRAJECTORY_END = b'{"return":0.5,"pass_rate":1.0,"calls":1,"seconds":0.1,"seed":"18446744073709551615"}\n'
TRAJECTORY = [
    TRAJECTORY_HEAD + b"".join(TRAJECTORY_STEPS) + TRAJECTORY_END,
    TRAJECTORY_HEAD + TRAJECTORY_STEPS[0] + TRAJECTORY_STEPS[1][:-40],
    b"1 failed in 0.02s; duration_ms 4.2; time=\"0.1\" 0x7ffe12345678 3.25 seconds 1.2.3s",
]
CHECKPOINT = [json.dumps({
    "version": 1, "agent": "qlearn", "task": "small", "digest": "a" * 64, "seed": 5, "episodes": 17, "features": 3, "actions": 4,
    "options": {"epsilon_start": 1.0, "epsilon_end": 0.05, "epsilon_decay": 1500, "alpha": 1.0, "gamma": 1.0},
    "dice": ["00000000000000aa"] * 4, "prices": [0.011, None, None, 0.0172], "states": [[0, 0, 0], [1, 0, 0]],
    "tried": [[0, 0, -0.011, 1, 0.9, 0.95], [1, 0, -0.011, 1, None, None], [1, 3, 0.9, None, 0.9, 0.9]]}).encode()]

# A byte that says who submits it, and the body of a request.
JOB = [b"\0" + json.dumps(body).encode() for body in (
    [{"tool": "shell", "command": "ls -la"}, {"tool": "python", "code": "print(1)", "timeout": 5}],
    {"steps": [{"tool": "write_file", "path": "a", "content": "b"}], "title": "t", "artifacts": ["out/**"], "labels": {"a": "b"},
     "box": {"net": "allow:pypi.org:443", "memory": "1G", "pids": 9, "cpus": 1.5, "env": {"A": "b"}, "timeout": "5m", "image": "x"},
     "workspace": {"git": "https://example.org/x.git", "ref": "v1"}, "after": ["0" * 20], "memory_from": "0" * 20},
    {"goal": {"prompt": "x", "attempts": 2, "test": "true", "model": "openai/x"}, "workspace": {"upload": "0" * 20}},
    {"goal": "x", "workspace": {"job": "0" * 20}, "box": None, "timeout": "10m", "priority": 3})]

def tar_seed(compression, *members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:" + compression, format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, content.decode() if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(content))
    return b"\0" + out.getvalue()


def zip_seed(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return b"\1" + out.getvalue()


ARCHIVE = [tar_seed("", ("./a", tarfile.REGTYPE, b"x" * 600), ("d", tarfile.DIRTYPE, b""), ("d/l", tarfile.SYMTYPE, b"/tmp"),
                    ("h", tarfile.LNKTYPE, b"./a"), ("d/é", tarfile.REGTYPE, b"y")),
           tar_seed("", ("l", tarfile.SYMTYPE, b".."), ("l/x", tarfile.REGTYPE, b"z"), ("../up", tarfile.REGTYPE, b"z")),
           tar_seed("", ("fifo", tarfile.FIFOTYPE, b"")), tar_seed("gz", ("a/b/c", tarfile.REGTYPE, b"0" * 5000)),
           zip_seed(("a", b"x"), ("b/c", b"0" * 5000)), zip_seed(("../a", b"x"))]

SEEDS = {
    "fuzz_archive": ARCHIVE,
    "fuzz_job": JOB,
    "fuzz_outcomes": OUTCOMES,
    "fuzz_trajectory": TRAJECTORY,
    "fuzz_history": HISTORY,
    "fuzz_keys": KEYS,
    "fuzz_markdown": MARKDOWN,
    "fuzz_checkpoint": CHECKPOINT,
    "fuzz_decode": ANTHROPIC + OPENAI,
    "fuzz_encode": ENCODE,
    "fuzz_edit": EDIT,
    "fuzz_glob": GLOB,
    "fuzz_pattern": PATTERN,
    "fuzz_diff": DIFF,
    "fuzz_report": REPORT,
    "fuzz_mcp_client": MCP_CLIENT,
    "fuzz_sse": SSE,
    "fuzz_schema": SCHEMA,
    "fuzz_shell_state": SHELL_STATE,
    "fuzz_wire_guest": WIRE_GUEST,
    "fuzz_wire_host": WIRE_HOST,
    "fuzz_options": OPTIONS,
    "fuzz_proxy": PROXY,
    "fuzz_mcp": MCP,
    "fuzz_replay": REPLAY,
    "fuzz_rpc": RPC,
    "fuzz_dotenv": DOTENV,
    "fuzz_import": IMPORT,
    "fuzz_task": TASK,
    "fuzz_units": UNITS,
    "fuzz_linediff": LINEDIFF,
    "fuzz_merge": MERGE,
}

if __name__ == "__main__":
    for target, seeds in SEEDS.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(seeds):
            (folder / f"{i:02}").write_bytes(seed)
