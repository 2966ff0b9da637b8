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
#include "utf8.h"
#include "banned.h"

#define DATA_TESTS_MAX 10000u /* in the result's data */
#define DATA_BAD_MAX   2000u  /* of these, tests that failed */
#define MESSAGES_MAX   200u   /* failures that have a message */
#define MESSAGE_MAX    2000u  /* bytes of one */
#define MESSAGE_HEAD   600u
#define PATIENCE_MS    120000       /* a large report takes a while */
#define SHOWN_MAX      200u         /* failures in the text */
#define SHOWN_BYTES    (200u << 10) /* of the text for them */

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

static bool outcome_is_bad(enum wire_outcome outcome)
{
    return outcome == WIRE_OUTCOME_FAILED || outcome == WIRE_OUTCOME_ERROR;
}

static uint64_t *found_count(struct tests_found *f, enum wire_outcome outcome)
{
    switch (outcome) {
    case WIRE_OUTCOME_PASSED:
        return &f->passed;
    case WIRE_OUTCOME_FAILED:
        return &f->failed;
    case WIRE_OUTCOME_SKIPPED:
        return &f->skipped;
    default:
        return &f->errors;
    }
}

struct reported_test {
    struct wire_field name, message, file;
    enum wire_outcome outcome;
    uint64_t line;
    int64_t duration_ns;
};

/* Keeps the test in the data as long as there is room: failures first of all. */
static int found_keep(struct tests_found *f, const struct reported_test *t)
{
    bool bad = outcome_is_bad(t->outcome);
    if (!f->bad)
        f->bad = json_array();
    if (!f->rest)
        f->rest = json_array();
    size_t n_bad = json_array_size(f->bad);
    if (bad ? n_bad >= DATA_BAD_MAX : json_array_size(f->rest) >= DATA_TESTS_MAX - DATA_BAD_MAX) {
        f->left_out++;
        return 0;
    }
    json_t *o = json_object();
    bool message = t->message.size && (!bad || n_bad < MESSAGES_MAX);
    data_set(o, "name", text_json(t->name.data, t->name.size));
    data_set(o, "outcome", json_string(OUTCOMES[t->outcome]));
    data_set(o, "message",
             message ? report_message((const char *)t->message.data, t->message.size)
                     : json_null());
    data_set(o, "file", t->file.size ? text_json(t->file.data, t->file.size) : json_null());
    data_set(o, "line", t->line ? json_integer((json_int_t)t->line) : json_null());
    return json_array_append_new(bad ? f->bad : f->rest, o) < 0 ? -ENOMEM : 0;
}

static int found_add(struct tests_found *f, const struct reported_test *t)
{
    (*found_count(f, t->outcome))++;
    if (t->duration_ns > 0)
        f->duration_ns += t->duration_ns;
    return found_keep(f, t);
}

int tests_add(struct tests_found *f, const char *name, enum wire_outcome outcome,
              const char *message)
{
    return found_add(f, &(struct reported_test){
                            .name = {.data = (const uint8_t *)name, .size = strlen(name)},
                            .message = {.data = (const uint8_t *)message, .size = strlen(message)},
                            .outcome = outcome});
}

/* Files as the other tools name them: relative to the workspace. What is relative lies where the
 * command ran.
 */
static void report_file_name(const struct tests_plan *p, const struct wire_field *from,
                             struct buf *file)
{
    static const char WORKSPACE[] = "/workspace/", URL[] = "file://";
    const char *path = (const char *)from->data;
    size_t n = from->size;
    if (n > sizeof URL && strncmp(path, URL, sizeof URL - 1) == 0) {
        path += sizeof URL - 1;
        n -= sizeof URL - 1;
    }
    if (n > sizeof WORKSPACE && strncmp(path, WORKSPACE, sizeof WORKSPACE - 1) == 0) {
        path += sizeof WORKSPACE - 1;
        n -= sizeof WORKSPACE - 1;
    } else if (n && path[0] != '/' && strncmp(p->cwd, WORKSPACE, sizeof WORKSPACE - 1) == 0) {
        buf_printf(file, "%s/", p->cwd + sizeof WORKSPACE - 1);
    }
    buf_append(file, path, n);
}

static int report_take_entry(const struct tests_plan *p, struct tests_found *f,
                             const struct wire_frame *frame)
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
    if (wire_find(frame, WIRE_K_PATH, &t.file))
        report_file_name(p, &t.file, &file);
    t.file = (struct wire_field){.data = file.data, .size = file.len};
    return found_add(f, &t);
}

/* Tests that were not told one by one are in the totals. */
static void report_take_totals(struct tests_found *f, const struct tests_found *before,
                               const struct wire_frame *frame)
{
    const struct {
        uint64_t *now;
        uint64_t before;
        uint16_t key;
    } totals[] = {{&f->passed, before->passed, WIRE_K_PASSED},
                  {&f->failed, before->failed, WIRE_K_FAILED},
                  {&f->errors, before->errors, WIRE_K_ERRORS},
                  {&f->skipped, before->skipped, WIRE_K_SKIPPED}};
    for (size_t i = 0; i < ARRAY_SIZE(totals); i++) {
        uint64_t told = wire_find_u64(frame, totals[i].key, 0),
                 counted = *totals[i].now - totals[i].before;
        if (told > counted && told < (1ull << 40)) {
            f->left_out += told - counted;
            *totals[i].now += told - counted;
        }
    }
    f->files += wire_find_u64(frame, WIRE_K_COUNT, 0) != 0;
    f->stale += wire_find_u64(frame, WIRE_K_STALE, 0) != 0;
    if (wire_find_u64(frame, WIRE_K_COUNT, 0))
        f->format = (enum wire_report_format)wire_find_u64(frame, WIRE_K_FORMAT, 0);
}

static int report_ask(struct ask *a, const struct tests_plan *p, const char *path,
                      const struct tests_report *report, int64_t newer_ns, struct tests_found *f,
                      struct error *err)
{
    struct tests_found before = *f;
    struct wire_frame frame;
    ask_path(a, path);
    wire_put_u64(&a->out, WIRE_K_FORMAT, report->format);
    wire_put_u64(&a->out, WIRE_K_NEWER_NS, (uint64_t)newer_ns);
    a->patience_ms = PATIENCE_MS;
    int r = ask_send(a, err);
    while (r >= 0 && (r = ask_next(a, &frame, err)) > 0)
        if (frame.type == WIRE_ENTRY && (r = report_take_entry(p, f, &frame)) < 0)
            return r;
    if (r == 0)
        report_take_totals(f, &before, &frame);
    return r;
}

int tests_collect(struct tool_call *c, const struct tests_plan *p,
                  const struct tests_report *report, int64_t newer_ns, struct tests_found *f,
                  struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf full = BUF_INIT(16384);
    struct error why = {0};
    if (report->path[0] != '/')
        buf_printf(&full, "%s/", p->cwd);
    buf_append_str(&full, report->path);
    const char *path = buf_cstr(&full);
    if (!path)
        return error_set(err, ENAMETOOLONG, "the path of the report is too long");
    ask_begin(&a, c, WIRE_REPORT);
    int r = report_ask(&a, p, path, report, newer_ns, f, &why);
    if (r >= 0 || r == -ENOENT)
        return 0;
    if (r == -ECANCELED) {
        if (err)
            *err = why;
        return r;
    }
    /* In what a program printed there may be a report or not; a file that is there should be one.
     */
    if (report->need == TESTS_SEARCHED)
        return 0;
    f->files++;
    return tests_add(f, "(report)", WIRE_OUTCOME_ERROR, why.text);
}

static void result_put_indented(struct buf *b, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_append_str(b, n ? "    " : "");
        buf_append(b, text, n);
        buf_append(b, "\n", 1);
        text += n + (text[n] == '\n');
    }
}

static void result_put_test(struct buf *b, const json_t *t)
{
    const char *file = json_get_string(t, "file");
    const char *message = json_get_string(t, "message");
    json_int_t line = json_get_integer(t, "line");
    const char *outcome = json_get_string(t, "outcome");
    buf_printf(b, "\n%s %s", strcmp(outcome, "failed") == 0 ? "FAILED" : "ERROR",
               json_get_string(t, "name"));
    if (file && line)
        buf_printf(b, " (%s:%lld)", file, (long long)line);
    else if (file)
        buf_printf(b, " (%s)", file);
    buf_append(b, "\n", 1);
    result_put_indented(b, message ? message : "");
}

static void result_put_failures(struct buf *b, const struct tests_found *f)
{
    size_t i, begin = b->len;
    const json_t *t;
    uint64_t total = f->failed + f->errors;
    json_array_foreach(f->bad, i, t)
    {
        if (i == SHOWN_MAX || b->len - begin > SHOWN_BYTES)
            break;
        result_put_test(b, t);
    }
    if (total > i)
        buf_printf(b, "\n... and %llu more that failed\n", (unsigned long long)(total - i));
}

static void result_put_count(struct buf *b, uint64_t n, const char *what)
{
    if (n)
        buf_printf(b, "%llu %s, ", (unsigned long long)n, what);
}

static void result_put_end(struct buf *b, const struct tests_run *run)
{
    if (run->result.limit == WIRE_LIMIT_TIMEOUT)
        buf_printf(b, "timed out after %.1f s", (double)run->result.duration_ns / 1e9);
    else if (run->result.signal)
        buf_printf(b, "ended by signal %d after %.1f s", run->result.signal,
                   (double)run->result.duration_ns / 1e9);
    else
        buf_printf(b, "exit code %d after %.2f s", run->result.exit_code,
                   (double)run->result.duration_ns / 1e9);
}

static void result_put_choice(struct buf *b, const struct tests_run *run)
{
    const struct tests_choices *c = &run->choices;
    if (c->count == 0)
        return;
    buf_printf(b, "Chosen because of: %s.", c->items[0].why);
    for (size_t i = 1; i < c->count; i++)
        buf_printf(b, "%s %s (%s)", i == 1 ? " Also possible, by `framework`:" : ",",
                   c->items[i].framework, c->items[i].why);
    buf_append_str(b, "\n");
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
    if (run->failure)
        buf_printf(b, "%s\n", run->failure);
    buf_printf(b, "%s: ", run->plan.framework);
    result_put_count(b, f->failed, "failed");
    result_put_count(b, f->errors, f->errors == 1 ? "error" : "errors");
    result_put_count(b, f->passed, "passed");
    result_put_count(b, f->skipped, "skipped");
    result_put_end(b, run);
    buf_append_str(b, "\nCommand: ");
    text_append(b, run->plan.command, strlen(run->plan.command));
    buf_append_str(b, "\n");
    result_put_choice(b, run);
    result_put_failures(b, f);
    if (run->failure)
        result_put_output(b, run);
}

static json_t *result_alternatives(const struct tests_choices *c)
{
    json_t *list = json_array();
    for (size_t i = 1; i < c->count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s}", "framework", c->items[i].framework,
                                        "command", c->items[i].command, "why", c->items[i].why));
    return list;
}

static json_t *result_tests(const struct tests_found *f)
{
    json_t *list = json_array();
    if (f->bad)
        json_array_extend(list, f->bad);
    if (f->rest)
        json_array_extend(list, f->rest);
    return list;
}

static json_t *result_data(const struct tests_run *run)
{
    static const char *const FORMATS[] = {"exit code", "junit", "json", "json",
                                          "json",      "tap",   "text", "text"};
    bool known = (size_t)run->found.format < ARRAY_SIZE(FORMATS);
    const struct tests_found *f = &run->found;
    const struct tests_plan *p = &run->plan;
    json_t *d = json_object();
    data_set(d, "passed", json_integer((json_int_t)f->passed));
    data_set(d, "failed", json_integer((json_int_t)f->failed));
    data_set(d, "errors", json_integer((json_int_t)f->errors));
    data_set(d, "skipped", json_integer((json_int_t)f->skipped));
    data_set(d, "duration", json_real((double)run->result.duration_ns / 1e9));
    data_set(d, "tests", result_tests(f));
    data_set(d, "framework", json_string(p->framework));
    data_set(d, "command", text_json(p->command, strlen(p->command)));
    data_set(d, "exit_code", json_integer(run->result.exit_code));
    data_set(d, "timed_out", json_boolean(run->result.limit == WIRE_LIMIT_TIMEOUT));
    data_set(d, "report", json_string(FORMATS[f->files && known ? f->format : 0]));
    data_set(d, "output", text_json(run->output.data, run->output.len));
    data_set(d, "truncated", json_boolean(f->left_out > 0 || run->output_cut));
    if (run->choices.count) {
        data_set(d, "why", json_string(run->choices.items[0].why));
        data_set(d, "alternatives", result_alternatives(&run->choices));
    }
    return d;
}

int tests_show(struct tool_call *c, struct tests_run *run, struct error *err)
{
    c->result->data = result_data(run);
    c->result->failed = run->failure != NULL;
    result_put_text(&c->result->text, run);
    return c->result->data ? 0 : error_set(err, ENOMEM, "no memory");
}
