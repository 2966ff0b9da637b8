"""Scripts for the view: a whole turn of work, and parts of one."""

STATUS = {"status": {"model": "anthropic/claude-sonnet-4", "context": 34210, "window": 200000, "cost": 0.1234, "changes": 3,
                     "keys": "/help"}}
IDLE = [STATUS, {"input": {"text": "", "hint": "Describe a task, or /help"}}]

OUTPUT = ("cc -O2 -c parser.c\ncc -O2 -c main.c\n" + "".join(f"ok {i}\n" for i in range(130))
          + "FAIL: test_quotes\n\x1b[31m1 failed\x1b[0m, 12 passed\nmake: *** [test] Error 2\n")
HUNK = """@@ -12,5 +12,5 @@
 static int quote_end(const char *s)
 {
-    while (*s && *s != '"')
+    while (*s && (*s != '"' || s[-1] == '\\\\'))
         s++;
     return *s;
"""
ANSWER = """## What was wrong

The scanner stopped at *every* quote, also at **escaped** ones:

```c
/* before */
while (*s && *s != '"')
    s++;
return "end";
```

1. `quote_end` now skips a quote behind a backslash.
2. A test covers the case:
   - plain quotes
   - escaped quotes, see [the standard](https://example.com/std)

| case | before | after |
|------|:------:|------:|
| `"a"` | ok | ok |
| `"a\\"b"` | **cut** | ok |

> All 13 tests pass now.
"""


def call(number, name, given, text="", data=None, seconds=0.01, failed=False):
    result = {"id": str(number), "name": name, "seconds": seconds, "text": text, "failed": failed}
    if data is not None:
        result["data"] = data
    return [{"call": {"id": str(number), "name": name, "input": given}}, {"result": result}]


TURN = [
    *IDLE,
    {"person": "Fix the failing test in parser.c, and tell me what was wrong"},
    {"thinking": "The user wants me to fix a failing test.\nLet me look at the test first."},
    {"text": "I'll run the tests first to see **what fails**, then look at `parser.c`.\n"},
    {"said": True},
    *call(1, "bash", {"command": "make test"}, data={"exit_code": 2, "output": OUTPUT}, seconds=1.23),
    *call(2, "read_file", {"path": "src/parser.c", "offset": 1, "limit": 80},
          data={"first_line": 1, "last_line": 80, "content": "int x;\n" * 80}),
    *call(3, "search_files", {"pattern": "quote_end"}, "src/parser.c:12", {"matches": 4, "files_matched": 2}),
    *call(4, "edit_file", {"path": "src/parser.c"}, data={"diff": HUNK}),
    *call(5, "run_tests", {}, "13 passed", {"passed": 13, "failed": 0}, seconds=0.81),
    *call(6, "plan", {}, "[x] Find the bug\n[>] Fix it\n[ ] Add a test\n", {"done": 1, "total": 3}),
    {"text": ANSWER},
    {"said": True},
    {"changes": [["src/parser.c", "modified", 1, 1], ["tests/test_quotes.c", "added", 24, 0]]},
    {"done": None},
]

BUSY = [
    {"status": {**STATUS["status"], "busy": "bash", "busy_seconds": 12, "keys": "esc stops"}},
    {"person": "Now the docs, please.\n\n- short\n- with 漢字 and emoji 👩\u200d💻⚠\ufe0f ok"},
    {"thinking": "Docs live in docs/. I should read them all before changing anything at all, as a careful person would do."},
    {"said": True},
    {"call": {"id": "7", "name": "bash", "input": {"command": "cd docs && python3 -m http.server 8000 # a long command line "
                                                   "that does not fit into the line of a terminal of this width"}}},
    {"progress": {"id": "7", "text": "Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ..."}},
    {"clock": 12.4},
    *call(8, "write_file", {"path": "docs/new.md", "content": "a\nb\n"}, "docs/new.md: the folder is read-only", failed=True),
    {"delay": {"text": "The provider is overloaded (529)", "ms": 4000, "attempt": 1}},
    {"input": {"text": "/un", "choices": ["/undo", "/unset"], "details": ["take back the last turn", "forget a setting"],
               "chosen": 0}},
]

WIDE = [
    *IDLE,
    {"text": "| 名前 | value |\n|---|---|\n| 漢字 | é e\u0301 ñ |\n| 🐇 | x |\n\n"
             "日本語のテキストはここで折り返されるべきです。それでも句読点は行頭に来ません、たぶん。そして長い文章が続きます。\n\n"
             "- 한국어 텍스트\n- عربى\n- 👨\u200d👩\u200d👧 family, ⚠\ufe0f sign, 👍🏽 thumb, \u200bzero width\n"},
    {"said": True},
    {"input": {"text": "漢字 mit e\u0301", "cursor": 6}},
]

WAIT = {"wait": True}
