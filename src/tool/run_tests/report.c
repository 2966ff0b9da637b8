/*
 * The reports of a run as the guest parses them, and the result as data and text: failures first,
 * since they are what is worked on next; what passed is only counted.
 *
 * Names and messages are bytes of the code under test. The guest says that they are valid UTF-8;
 * they are made so again here.
 */
#include <errno.h>
#include <string.h>

#include "exec_result.h"
#include "run_tests.h"
#include "text.h"
#include "banned.h"

#define DATA_TESTS_MAX   10000u /* in the result's data */
#define DATA_BAD_MAX     2000u  /* of these, tests that failed */
#define MESSAGES_MAX     200u   /* failures that have a message */
#define MESSAGE_MAX      2000u  /* bytes of one */
#define MESSAGE_HEAD     600u
#define WORKSPACE        "/workspace/"
#define WORKSPACE_LENGTH (sizeof WORKSPACE - 1)
#define URL_LENGTH       strlen("file://")
#define PATIENCE_MS      120000       /* a large report takes a while */
#define SHOWN_MAX        200u         /* failures in the text */
#define SHOWN_BYTES      (200u << 10) /* of the text for them */

static const char *const OUTCOMES[] = {"error", "passed", "failed", "error", "skipped"};

void tests_found_free(struct tests_found *f)
{
    json_decref(f->bad);
    json_decref(f->rest);
}

/* Both ends of a long message, cut between characters. */
static json_t *report_message(const char *text, size_t n)
{
    _cleanup_buf_ struct buf b = BUF_INIT(3 * MESSAGE_MAX + 64);
    if (n <= MESSAGE_MAX)
        return text_json(text, n);
    const char *tail = text + n - (MESSAGE_MAX - MESSAGE_HEAD);
    size_t tail_n = MESSAGE_MAX - MESSAGE_HEAD,
           skip = utf8_cut_start((const uint8_t *)tail, tail_n);
    text_append(&b, text, MESSAGE_HEAD - utf8_cut_end((const uint8_t *)text, MESSAGE_HEAD));
    buf_printf(&b, "\n[... %zu bytes left out ...]\n", n - MESSAGE_MAX);
    text_append(&b, tail + skip, tail_n - skip);
    return text_json(b.data, b.len);
}

struct reported_test {
    struct wire_field name, message, file;
    enum wire_outcome outcome;
    uint64_t line;
    int64_t duration_ns;
};

/* Counts the test, and keeps it in the data as long as there is room: failures first of all. */
static int found_add(struct tests_found *f, const struct reported_test *t)
{
    bool bad = t->outcome == WIRE_OUTCOME_FAILED || t->outcome == WIRE_OUTCOME_ERROR;
    uint64_t *count = t->outcome == WIRE_OUTCOME_PASSED    ? &f->passed
                      : t->outcome == WIRE_OUTCOME_FAILED  ? &f->failed
                      : t->outcome == WIRE_OUTCOME_SKIPPED ? &f->skipped
                                                           : &f->errors;
    (*count)++;
    if (t->duration_ns > 0)
        f->duration_ns += t->duration_ns;
    if (!f->bad)
        f->bad = json_array();
    if (!f->rest)
        f->rest = json_array();
    size_t n_bad = json_array_size(f->bad);
    if (bad ? n_bad >= DATA_BAD_MAX : json_array_size(f->rest) >= DATA_TESTS_MAX - DATA_BAD_MAX) {
        f->left_out++;
        return 0;
    }
    bool message = t->message.size && (!bad || n_bad < MESSAGES_MAX);
    json_t *o = json_pack(
        "{s:o, s:s, s:o, s:o, s:o}", "name", text_json(t->name.data, t->name.size), "outcome",
        OUTCOMES[t->outcome], "message",
        message ? report_message((const char *)t->message.data, t->message.size) : json_null(),
        "file", t->file.size ? text_json(t->file.data, t->file.size) : json_null(), "line",
        t->line ? json_integer((json_int_t)t->line) : json_null());
    return json_array_append_new(bad ? f->bad : f->rest, o) < 0 ? -ENOMEM : 0;
}

int tests_add(struct tests_found *f, const char *name, enum wire_outcome outcome,
              const char *message)
{
    return found_add(f, &(struct reported_test){
                            .name = {.data = (const uint8_t *)name, .size = strlen(name)},
                            .message = {.data = (const uint8_t *)message, .size = strlen(message)},
                            .outcome = outcome});
}

static int report_take_entry(const char *cwd, struct tests_found *f, const struct wire_frame *frame)
{
    _cleanup_buf_ struct buf file = BUF_INIT(WIRE_BODY_MAX + 8192);
    struct reported_test t = {.line = wire_find_u64(frame, WIRE_K_LINE, 0)};
    uint64_t outcome = wire_find_u64(frame, WIRE_K_OUTCOME, 0);
    uint64_t duration = wire_find_u64(frame, WIRE_K_DURATION_NS, 0);
    t.outcome = outcome >= WIRE_OUTCOME_PASSED && outcome <= WIRE_OUTCOME_SKIPPED
                    ? (enum wire_outcome)outcome
                    : WIRE_OUTCOME_ERROR;
    t.duration_ns = duration < (1ull << 55) ? (int64_t)duration : 0;
    if (t.line > INT32_MAX)
        t.line = 0;
    wire_find(frame, WIRE_K_NAME, &t.name);
    wire_find(frame, WIRE_K_TEXT, &t.message);
    /* Files as the other tools name them: relative to the workspace. What is relative lies where
     * the command ran. */
    if (wire_find(frame, WIRE_K_PATH, &t.file)) {
        const char *path = (const char *)t.file.data;
        size_t n = t.file.size;
        if (n > URL_LENGTH && strncmp(path, "file://", URL_LENGTH) == 0) {
            path += URL_LENGTH;
            n -= URL_LENGTH;
        }
        if (n > WORKSPACE_LENGTH && strncmp(path, WORKSPACE, WORKSPACE_LENGTH) == 0) {
            path += WORKSPACE_LENGTH;
            n -= WORKSPACE_LENGTH;
        } else if (n && path[0] != '/' && strncmp(cwd, WORKSPACE, WORKSPACE_LENGTH) == 0) {
            buf_printf(&file, "%s/", cwd + WORKSPACE_LENGTH);
        }
        buf_append(&file, path, n);
    }
    t.file = (struct wire_field){.data = file.data, .size = file.len};
    return found_add(f, &t);
}

int tests_collect(struct tool_call *c, const char *cwd, const struct tests_report *report,
                  int64_t newer_ns, struct tests_found *f, struct error *err)
{
    const struct tests_found before = *f;
    struct wire_frame frame;
    struct error why = {0};
    char path[16384];
    bool absolute = report->path[0] == '/';
    if (snprintf(path, sizeof path, "%s%s%s", absolute ? "" : cwd, absolute ? "" : "/",
                 report->path) >= (int)sizeof path)
        return error_set(err, ENAMETOOLONG, "the path of the report is too long");
    _cleanup_ask_ struct ask a; /* not before it is begun on every way out */
    ask_begin(&a, c, WIRE_REPORT);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_FORMAT, report->format);
    wire_put_u64(&a.out, WIRE_K_NEWER_NS, (uint64_t)newer_ns);
    a.patience_ms = PATIENCE_MS;
    int r = ask_send(&a, &why);
    while (r >= 0 && (r = ask_next(&a, &frame, &why)) > 0)
        if (frame.type == WIRE_ENTRY && report_take_entry(cwd, f, &frame) < 0)
            r = error_set(&why, ENOMEM, "no memory");
    if (r == 0) { /* tests that the guest did not list are in its totals */
        const struct {
            uint64_t *now;
            uint64_t before;
            uint16_t key;
        } totals[] = {{&f->passed, before.passed, WIRE_K_PASSED},
                      {&f->failed, before.failed, WIRE_K_FAILED},
                      {&f->errors, before.errors, WIRE_K_ERRORS},
                      {&f->skipped, before.skipped, WIRE_K_SKIPPED}};
        for (size_t i = 0; i < ARRAY_SIZE(totals); i++) {
            uint64_t total = wire_find_u64(&frame, totals[i].key, 0),
                     counted = *totals[i].now - totals[i].before;
            if (total > counted && total < (1ull << 40)) {
                f->left_out += total - counted;
                *totals[i].now += total - counted;
            }
        }
        f->files += wire_find_u64(&frame, WIRE_K_COUNT, 0) != 0;
        f->stale += wire_find_u64(&frame, WIRE_K_STALE, 0) != 0;
        if (wire_find_u64(&frame, WIRE_K_COUNT, 0))
            f->format = (enum wire_report_format)wire_find_u64(&frame, WIRE_K_FORMAT, 0);
    }
    if (r == 0 || r == -ENOENT)
        return 0;
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "%s", why.text);
    /* In what a program printed there may be a report or not; a file that is there should be
     * one. */
    if (report->need == TESTS_SEARCHED)
        return 0;
    f->files++;
    return tests_add(f, "(report)", WIRE_OUTCOME_ERROR, why.text);
}

/* A test that failed, its message indented. */
static void result_put_test(struct buf *b, const json_t *t)
{
    const char *file = json_get_string(t, "file"), *text = json_get_string_or(t, "message", "");
    json_int_t line = json_get_integer(t, "line");
    buf_printf(b, "\n%s %s",
               strcmp(json_get_string(t, "outcome"), "failed") == 0 ? "FAILED" : "ERROR",
               json_get_string(t, "name"));
    if (file && line)
        buf_printf(b, " (%s:%lld)", file, (long long)line);
    else if (file)
        buf_printf(b, " (%s)", file);
    buf_append(b, "\n", 1);
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_append_str(b, n ? "    " : "");
        buf_append(b, text, n);
        buf_append(b, "\n", 1);
        text += n + (text[n] == '\n');
    }
}

static void result_put_output(struct buf *b, const struct tests_run *run)
{
    if (run->output.len == 0) {
        buf_append_str(b, "\nIt printed nothing.\n");
        return;
    }
    buf_printf(b, "\nThe %soutput:\n", run->output_cut ? "end of the " : "");
    text_append(b, run->output.data, run->output.len);
    /* A runner that the host has and the box has not is the commonest reason. */
    char hint[512];
    if (missing_describe(&(struct box_capture){.head = run->output, .total = run->output.len}, hint,
                         sizeof hint))
        buf_printf(b, "\n%s\n", hint);
}

static void result_put_text(struct buf *b, const struct tests_run *run)
{
    const struct tests_found *f = &run->found;
    const struct tests_choices *choices = &run->choices;
    double seconds = (double)run->result.duration_ns / 1e9;
    const struct {
        uint64_t n;
        const char *what;
    } counts[] = {{f->failed, "failed"},
                  {f->errors, f->errors == 1 ? "error" : "errors"},
                  {f->passed, "passed"},
                  {f->skipped, "skipped"}};
    if (run->failure)
        buf_printf(b, "%s\n", run->failure);
    buf_printf(b, "%s: ", run->plan.framework);
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (counts[i].n)
            buf_printf(b, "%llu %s, ", (unsigned long long)counts[i].n, counts[i].what);
    if (run->result.limit == WIRE_LIMIT_TIMEOUT)
        buf_printf(b, "timed out after %.1f s", seconds);
    else if (run->result.signal)
        buf_printf(b, "ended by signal %d after %.1f s", run->result.signal, seconds);
    else
        buf_printf(b, "exit code %d after %.2f s", run->result.exit_code, seconds);
    buf_append_str(b, "\nCommand: ");
    text_append(b, run->plan.command, strlen(run->plan.command));
    buf_append_str(b, "\n");
    for (size_t i = 0; i < choices->count; i++) {
        const struct tests_choice *one = &choices->items[i];
        if (i == 0)
            buf_printf(b, "Chosen because of: %s.", one->why);
        else
            buf_printf(b, "%s %s (%s)", i == 1 ? " Also possible, by `framework`:" : ",",
                       one->framework, one->why);
    }
    buf_append_str(b, choices->count ? "\n" : "");

    size_t i, begin = b->len;
    const json_t *t;
    json_array_foreach(f->bad, i, t)
    {
        if (i == SHOWN_MAX || b->len - begin > SHOWN_BYTES)
            break;
        result_put_test(b, t);
    }
    if (f->failed + f->errors > i)
        buf_printf(b, "\n... and %llu more that failed\n",
                   (unsigned long long)(f->failed + f->errors - i));
    if (run->failure)
        result_put_output(b, run);
}

int tests_show(struct tool_call *c, struct tests_run *run, struct error *err)
{
    static const char *const FORMATS[] = {"exit code", "junit", "json", "json",
                                          "json",      "tap",   "text", "text"};
    const struct tests_found *f = &run->found;
    const struct tests_choices *choices = &run->choices;
    bool known = f->files && (size_t)f->format < ARRAY_SIZE(FORMATS);
    json_t *tests = json_array(), *alternatives = choices->count ? json_array() : NULL;
    if (f->bad)
        json_array_extend(tests, f->bad);
    if (f->rest)
        json_array_extend(tests, f->rest);
    for (size_t i = 1; i < choices->count; i++)
        json_array_append_new(alternatives,
                              json_pack("{s:s, s:s, s:s}", "framework", choices->items[i].framework,
                                        "command", choices->items[i].command, "why",
                                        choices->items[i].why));
    c->result->data = json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:o, s:s, s:o, s:i, s:b, s:s, s:o, s:b, s:s*, s:o*}", "passed",
        (json_int_t)f->passed, "failed", (json_int_t)f->failed, "errors", (json_int_t)f->errors,
        "skipped", (json_int_t)f->skipped, "duration", (double)run->result.duration_ns / 1e9,
        "tests", tests, "framework", run->plan.framework, "command",
        text_json(run->plan.command, strlen(run->plan.command)), "exit_code", run->result.exit_code,
        "timed_out", run->result.limit == WIRE_LIMIT_TIMEOUT, "report",
        FORMATS[known ? f->format : 0], "output", text_json(run->output.data, run->output.len),
        "truncated", f->left_out > 0 || run->output_cut, "why",
        choices->count ? choices->items[0].why : NULL, "alternatives", alternatives);
    c->result->failed = run->failure != NULL;
    result_put_text(&c->result->text, run);
    return 0;
}

/* Python's unittest has no report. This program takes the place of `-m unittest`, with the same
 * arguments, and writes JUnit XML to the file that its first argument names, with nothing but the
 * standard library. */

/* clang-format off */
const char TESTS_UNITTEST[] =
    "import inspect, os, re, sys, time, unittest\n"
    "from xml.sax.saxutils import quoteattr\n"
    "\n"
    "report = sys.argv.pop(1)\n"
    "records = []\n"
    "BAD = re.compile('[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]')\n"
    "\n"
    "def attribute(text):\n"
    "    return quoteattr(BAD.sub('\\ufffd', str(text)))\n"
    "\n"
    "def place(test):\n"
    "    try:\n"
    "        method = getattr(test, getattr(test, '_testMethodName', ''))\n"
    "        method = inspect.unwrap(method)\n"
    "        line = inspect.getsourcelines(method)[1]\n"
    "        return os.path.relpath(inspect.getsourcefile(method)), line\n"
    "    except Exception:\n"
    "        return '', 0\n"
    "\n"
    "class Result(unittest.TextTestResult):\n"
    "    def startTest(self, test):\n"
    "        self.began = time.monotonic()\n"
    "        self.said = False\n"
    "        super().startTest(test)\n"
    "\n"
    "    def note(self, test, kind, message=''):\n"
    "        self.said = True\n"
    "        now = time.monotonic()\n"
    "        records.append((test, kind, message, now - getattr(self, 'began', now)))\n"
    "\n"
    "    def addSuccess(self, test):\n"
    "        super().addSuccess(test)\n"
    "        self.note(test, None)\n"
    "\n"
    "    def addError(self, test, err):\n"
    "        super().addError(test, err)\n"
    "        self.note(test, 'error', self.errors[-1][1])\n"
    "\n"
    "    def addFailure(self, test, err):\n"
    "        super().addFailure(test, err)\n"
    "        self.note(test, 'failure', self.failures[-1][1])\n"
    "\n"
    "    def addSkip(self, test, reason):\n"
    "        super().addSkip(test, reason)\n"
    "        self.note(test, 'skipped', reason)\n"
    "\n"
    "    def addExpectedFailure(self, test, err):\n"
    "        super().addExpectedFailure(test, err)\n"
    "        self.note(test, 'skipped', 'expected failure')\n"
    "\n"
    "    def addUnexpectedSuccess(self, test):\n"
    "        super().addUnexpectedSuccess(test)\n"
    "        self.note(test, 'failure', 'passed, although it was expected to fail')\n"
    "\n"
    "    def addSubTest(self, test, subtest, err):\n"
    "        super().addSubTest(test, subtest, err)\n"
    "        if err is not None:\n"
    "            failed = issubclass(err[0], test.failureException)\n"
    "            kind = 'failure' if failed else 'error'\n"
    "            self.note(subtest, kind, (self.failures if failed else self.errors)[-1][1])\n"
    "\n"
    "    def stopTest(self, test):\n"
    "        super().stopTest(test)\n"
    "        if not self.said:\n"
    "            self.note(test, None)\n"
    "\n"
    "def write():\n"
    "    with open(report, 'w', encoding='utf-8', errors='replace') as out:\n"
    "        out.write('<?xml version=\"1.0\" encoding=\"utf-8\"?>\\n')\n"
    "        out.write('<testsuites><testsuite name=\"\">\\n')\n"
    "        for test, kind, message, seconds in records:\n"
    "            file, line = place(getattr(test, 'test_case', test))\n"
    "            out.write('<testcase name=%s file=%s line=\"%d\" time=\"%.6f\"'\n"
    "                      ' classname=\"test\">'\n"
    "                      % (attribute(test.id()), attribute(file), line, seconds))\n"
    "            if kind:\n"
    "                out.write('<%s message=%s/>' % (kind, attribute(message)))\n"
    "            out.write('</testcase>\\n')\n"
    "        out.write('</testsuite></testsuites>\\n')\n"
    "\n"
    "class Runner(unittest.TextTestRunner):\n"
    "    resultclass = Result\n"
    "\n"
    "    def run(self, test):\n"
    "        result = super().run(test)\n"
    "        write()\n"
    "        return result\n"
    "\n"
    "sys.path[0] = os.getcwd()\n"
    "sys.argv[0] = 'python -m unittest'\n"
    "unittest.main(module=None, testRunner=Runner)\n";
/* clang-format on */
