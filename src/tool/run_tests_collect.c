/* What the guest makes of the reports. Names and messages are bytes of the agent: valid UTF-8 by
 * the guest's word, made so again here. */
#include <errno.h>
#include <string.h>

#include "run_tests.h"
#include "utf8.h"
#include "banned.h"

#define DATA_TESTS_MAX 10000u /* in the result's data */
#define DATA_BAD_MAX   2000u  /* of these, tests that failed */
#define MESSAGES_MAX   200u   /* failures that have a message */
#define MESSAGE_MAX    2000u  /* bytes of one */
#define MESSAGE_HEAD   600u
#define PATIENCE_MS    120000 /* a large report takes a while */

static const char *const OUTCOMES[] = {"error", "passed", "failed", "error", "skipped"};

void tests_found_free(struct tests_found *f)
{
    json_decref(f->bad);
    json_decref(f->rest);
}

/* Both ends of a long message, cut between characters. */
static json_t *message_json(const char *text, size_t n)
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

static bool is_bad(enum wire_outcome outcome)
{
    return outcome == WIRE_OUTCOME_FAILED || outcome == WIRE_OUTCOME_ERROR;
}

static uint64_t *count_of(struct tests_found *f, enum wire_outcome outcome)
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

struct one {
    struct wire_field name, message, file;
    enum wire_outcome outcome;
    uint64_t line;
    int64_t duration_ns;
};

/* Keeps the test in the data as long as there is room: failures first of all. */
static int keep(struct tests_found *f, const struct one *t)
{
    bool bad = is_bad(t->outcome);
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
             message ? message_json((const char *)t->message.data, t->message.size) : json_null());
    data_set(o, "file", t->file.size ? text_json(t->file.data, t->file.size) : json_null());
    data_set(o, "line", t->line ? json_integer((json_int_t)t->line) : json_null());
    return json_array_append_new(bad ? f->bad : f->rest, o) < 0 ? -ENOMEM : 0;
}

static int add(struct tests_found *f, const struct one *t)
{
    (*count_of(f, t->outcome))++;
    if (t->duration_ns > 0)
        f->duration_ns += t->duration_ns;
    return keep(f, t);
}

int tests_add(struct tests_found *f, const char *name, enum wire_outcome outcome,
              const char *message)
{
    return add(f,
               &(struct one){.name = {.data = (const uint8_t *)name, .size = strlen(name)},
                             .message = {.data = (const uint8_t *)message, .size = strlen(message)},
                             .outcome = outcome});
}

/* Files as the other tools name them: relative to the workspace. What is relative lies where the
 * command ran.
 */
static void name_file(const struct tests_plan *p, const struct wire_field *from, struct buf *file)
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

static int take_entry(const struct tests_plan *p, struct tests_found *f,
                      const struct wire_frame *frame)
{
    _cleanup_buf_ struct buf file = BUF_INIT(WIRE_BODY_MAX + 8192);
    struct one t = {.line = wire_find_u64(frame, WIRE_K_LINE, 0)};
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
        name_file(p, &t.file, &file);
    t.file = (struct wire_field){.data = file.data, .size = file.len};
    return add(f, &t);
}

/* Tests that were not told one by one are in the totals. */
static void take_totals(struct tests_found *f, const struct tests_found *before,
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

static int ask_report(struct ask *a, const struct tests_plan *p, const char *path,
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
        if (frame.type == WIRE_ENTRY && (r = take_entry(p, f, &frame)) < 0)
            return r;
    if (r == 0)
        take_totals(f, &before, &frame);
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
    int r = ask_report(&a, p, path, report, newer_ns, f, &why);
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
