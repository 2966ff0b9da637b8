/* A run as data and as text: the failures first, since they are what is worked on next; what passed
 * is only counted. */
#include <errno.h>
#include <string.h>

#include "missing.h"
#include "run_tests.h"
#include "banned.h"

#define SHOWN_MAX   200u         /* failures in the text */
#define SHOWN_BYTES (200u << 10) /* of the text for them */

static const char *how(enum wire_report_format format)
{
    static const char *const NAMES[] = {"exit code", "junit", "json", "json",
                                        "json",      "tap",   "text", "text"};
    return (size_t)format < ARRAY_SIZE(NAMES) ? NAMES[format] : "exit code";
}

static void put_indented(struct buf *b, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_append_str(b, n ? "    " : "");
        buf_append(b, text, n);
        buf_append(b, "\n", 1);
        text += n + (text[n] == '\n');
    }
}

static void put_test(struct buf *b, const json_t *t)
{
    const char *file = json_string_value(json_object_get(t, "file"));
    const char *message = json_string_value(json_object_get(t, "message"));
    json_int_t line = json_integer_value(json_object_get(t, "line"));
    const char *outcome = json_string_value(json_object_get(t, "outcome"));
    buf_printf(b, "\n%s %s", strcmp(outcome, "failed") == 0 ? "FAILED" : "ERROR",
               json_string_value(json_object_get(t, "name")));
    if (file && line)
        buf_printf(b, " (%s:%lld)", file, (long long)line);
    else if (file)
        buf_printf(b, " (%s)", file);
    buf_append(b, "\n", 1);
    put_indented(b, message ? message : "");
}

static void put_failures(struct buf *b, const struct tests_found *f)
{
    size_t i, begin = b->len;
    const json_t *t;
    uint64_t total = f->failed + f->errors;
    json_array_foreach(f->bad, i, t)
    {
        if (i == SHOWN_MAX || b->len - begin > SHOWN_BYTES)
            break;
        put_test(b, t);
    }
    if (total > i)
        buf_printf(b, "\n... and %llu more that failed\n", (unsigned long long)(total - i));
}

static void put_count(struct buf *b, uint64_t n, const char *what)
{
    if (n)
        buf_printf(b, "%llu %s, ", (unsigned long long)n, what);
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static void put_how_it_ended(struct buf *b, const struct tests_run *run)
{
    if (run->result.limit == WIRE_LIMIT_TIMEOUT)
        buf_printf(b, "timed out after %.1f s", seconds(run->result.duration_ns));
    else if (run->result.signal)
        buf_printf(b, "ended by signal %d after %.1f s", run->result.signal,
                   seconds(run->result.duration_ns));
    else
        buf_printf(b, "exit code %d after %.2f s", run->result.exit_code,
                   seconds(run->result.duration_ns));
}

static void put_choice(struct buf *b, const struct tests_run *run)
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

static void put_output(struct buf *b, const struct tests_run *run)
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

static void put_text(struct buf *b, const struct tests_run *run)
{
    const struct tests_found *f = &run->found;
    if (run->failure)
        buf_printf(b, "%s\n", run->failure);
    buf_printf(b, "%s: ", run->plan.framework);
    put_count(b, f->failed, "failed");
    put_count(b, f->errors, f->errors == 1 ? "error" : "errors");
    put_count(b, f->passed, "passed");
    put_count(b, f->skipped, "skipped");
    put_how_it_ended(b, run);
    buf_append_str(b, "\nCommand: ");
    text_append(b, run->plan.command, strlen(run->plan.command));
    buf_append_str(b, "\n");
    put_choice(b, run);
    put_failures(b, f);
    if (run->failure)
        put_output(b, run);
}

static json_t *alternatives(const struct tests_choices *c)
{
    json_t *list = json_array();
    for (size_t i = 1; i < c->count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s}", "framework", c->items[i].framework,
                                        "command", c->items[i].command, "why", c->items[i].why));
    return list;
}

static json_t *all_tests(const struct tests_found *f)
{
    json_t *list = json_array();
    if (f->bad)
        json_array_extend(list, f->bad);
    if (f->rest)
        json_array_extend(list, f->rest);
    return list;
}

static json_t *make_data(const struct tests_run *run)
{
    const struct tests_found *f = &run->found;
    const struct tests_plan *p = &run->plan;
    json_t *d = json_object();
    data_set(d, "passed", json_integer((json_int_t)f->passed));
    data_set(d, "failed", json_integer((json_int_t)f->failed));
    data_set(d, "errors", json_integer((json_int_t)f->errors));
    data_set(d, "skipped", json_integer((json_int_t)f->skipped));
    data_set(d, "duration", json_real(seconds(run->result.duration_ns)));
    data_set(d, "tests", all_tests(f));
    data_set(d, "framework", json_string(p->framework));
    data_set(d, "command", text_json(p->command, strlen(p->command)));
    data_set(d, "exit_code", json_integer(run->result.exit_code));
    data_set(d, "timed_out", json_boolean(run->result.limit == WIRE_LIMIT_TIMEOUT));
    data_set(d, "report", json_string(f->files ? how(f->format) : "exit code"));
    data_set(d, "output", text_json(run->output.data, run->output.len));
    data_set(d, "truncated", json_boolean(f->left_out > 0 || run->output_cut));
    if (run->choices.count) {
        data_set(d, "why", json_string(run->choices.items[0].why));
        data_set(d, "alternatives", alternatives(&run->choices));
    }
    return d;
}

int tests_show(struct tool_call *c, struct tests_run *run, struct error *err)
{
    c->result->data = make_data(run);
    c->result->failed = run->failure != NULL;
    put_text(&c->result->text, run);
    return c->result->data ? 0 : error_set(err, ENOMEM, "no memory");
}
