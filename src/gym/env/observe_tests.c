/* Runs of the tests as observations. */
#include <errno.h>
#include <string.h>

#include "observe.h"
#include "banned.h"

#define MESSAGE_MAX 4096u
#define SHOWN_MAX   50u /* failures in the text */
#define OUTPUT_MAX  8192u

static const char *const OUTCOMES[] = {
    [GRADE_MISSING] = "missing", [GRADE_PASSED] = "passed",   [GRADE_FAILED] = "failed",
    [GRADE_ERROR] = "error",     [GRADE_SKIPPED] = "skipped",
};

struct counts {
    size_t of[ARRAY_SIZE(OUTCOMES)];
    size_t hidden, hidden_passed;
};

/*
 * Is this a test that only grading sees? With pytest the file stands in the test's name. The names
 * in other runners' reports do not tell where a test is from, so all of them are hidden if the task
 * hides any.
 */
static bool is_hidden(const struct task *t, const char *name)
{
    if (t->hidden.count == 0 || t->tests.runner != TASK_PYTEST)
        return t->hidden.count != 0;
    const char *end = strstr(name, "::");
    size_t n = end ? (size_t)(end - name) : strlen(name);
    for (size_t i = 0; i < t->hidden.count; i++)
        if (strlen(t->hidden.items[i].path) == n && memcmp(t->hidden.items[i].path, name, n) == 0)
            return true;
    return false;
}

static json_t *scrubbed(const char *text, size_t max)
{
    size_t n = text ? strnlen(text, max) : 0;
    _cleanup_buf_ struct buf b = BUF_INIT(2 * max + 16);
    if (!text)
        return json_null();
    if (observe_scrub(text, n, &b) < 0)
        return NULL;
    return text_json(b.data, b.len);
}

/* A test as the tool run_tests tells it. */
static json_t *test_json(const struct grade_test *test)
{
    return json_pack("{s:o, s:s, s:o}", "name", text_json(test->name, strlen(test->name)),
                     "outcome", OUTCOMES[test->outcome], "message",
                     scrubbed(test->message, MESSAGE_MAX));
}

static bool is_bad(const struct grade_test *test)
{
    return test->outcome != GRADE_PASSED && test->outcome != GRADE_SKIPPED;
}

/* Those that did not pass first; hidden ones are only counted. */
static json_t *list_tests(const struct task *t, const struct grade *g, bool all, struct counts *ret)
{
    json_t *list = json_array();
    *ret = (struct counts){0};
    for (int good = 0; good < 2; good++)
        for (size_t i = 0; i < g->count; i++) {
            const struct grade_test *test = &g->tests[i];
            bool hidden = !all && is_hidden(t, test->name);
            ret->hidden += good && hidden;
            ret->hidden_passed += good && hidden && test->outcome == GRADE_PASSED;
            if (hidden || is_bad(test) == (good == 1))
                continue;
            ret->of[test->outcome]++;
            if (json_array_size(list) < OBSERVE_TESTS_MAX)
                json_array_append_new(list, test_json(test));
        }
    return list;
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

static const char *heading(const char *outcome)
{
    return strcmp(outcome, "failed") == 0  ? "FAILED"
           : strcmp(outcome, "error") == 0 ? "ERROR"
                                           : "MISSING";
}

static void put_failures(struct buf *b, const json_t *tests)
{
    size_t i, bad = 0;
    json_t *test;
    json_array_foreach(tests, i, test)
    {
        const char *outcome = json_string_value(json_object_get(test, "outcome"));
        const char *message = json_string_value(json_object_get(test, "message"));
        if (strcmp(outcome, "passed") == 0 || strcmp(outcome, "skipped") == 0)
            break;
        if (++bad > SHOWN_MAX)
            continue;
        buf_printf(b, "\n%s %s\n", heading(outcome),
                   json_string_value(json_object_get(test, "name")));
        put_indented(b, message ? message : "");
    }
    if (bad > SHOWN_MAX)
        buf_printf(b, "\n... and %zu more\n", bad - SHOWN_MAX);
}

static void put_count(struct buf *b, size_t n, const char *what, const char **comma)
{
    if (n)
        buf_printf(b, "%s%zu %s", *comma, n, what);
    if (n)
        *comma = ", ";
}

static void put_counts(struct buf *b, const struct counts *c)
{
    const char *comma = "";
    put_count(b, c->of[GRADE_FAILED], "failed", &comma);
    put_count(b, c->of[GRADE_ERROR], c->of[GRADE_ERROR] == 1 ? "error" : "errors", &comma);
    put_count(b, c->of[GRADE_MISSING], "missing", &comma);
    put_count(b, c->of[GRADE_PASSED], "passed", &comma);
    put_count(b, c->of[GRADE_SKIPPED], "skipped", &comma);
    buf_append_str(b, *comma ? "\n" : "no tests were run\n");
}

static json_t *integer(size_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *observation_of(struct buf *text, bool failed, json_t *data)
{
    struct tool_result r = {.failed = failed, .data = data, .text = *text};
    json_t *o = text->failed ? NULL : observe_tool("submit", &r);
    json_decref(data);
    return o;
}

/* Why there are fewer outcomes than there should be, and what was printed. */
static void put_trouble(struct buf *b, const json_t *trouble, const json_t *output)
{
    if (json_is_string(trouble))
        buf_printf(b, "%s\n", json_string_value(trouble));
    if (json_is_string(trouble) && json_string_length(output))
        buf_printf(b, "\nThe end of the output:\n%s\n", json_string_value(output));
}

json_t *observe_look(const struct task *t, const struct grade *g)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RESULT_TEXT_MAX);
    struct counts c;
    const char *framework = t->tests.runner == TASK_PYTEST ? "pytest" : "command";
    const char *command = t->tests.command ? t->tests.command : "";
    json_t *tests = list_tests(t, g, true, &c);
    json_t *trouble = scrubbed(g->trouble, MESSAGE_MAX), *output = scrubbed(g->output, OUTPUT_MAX);
    buf_printf(&text, "%s: ", framework);
    put_counts(&text, &c);
    put_trouble(&text, trouble, output);
    put_failures(&text, tests);
    json_t *data = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:b}", "passed", integer(c.of[GRADE_PASSED]),
        "failed", integer(c.of[GRADE_FAILED]), "errors", integer(c.of[GRADE_ERROR]), "skipped",
        integer(c.of[GRADE_SKIPPED]), "tests", tests, "framework", framework, "command", command,
        "trouble", trouble, "output", output, "truncated", g->count > OBSERVE_TESTS_MAX);
    return data ? observation_of(&text, g->trouble && g->count == 0, data) : NULL;
}

json_t *observe_verdict(const struct task *t, const struct grade *g)
{
    struct counts c;
    json_t *discarded = json_array();
    json_t *tests = list_tests(t, g, false, &c);
    for (size_t i = 0; i < g->discarded.count && i < OBSERVE_TESTS_MAX; i++)
        json_array_append_new(discarded,
                              text_json(g->discarded.items[i], strlen(g->discarded.items[i])));
    return json_pack("{s:o, s:{s:o, s:o}, s:o, s:o}", "tests", tests, "hidden", "count",
                     integer(c.hidden), "passed", integer(c.hidden_passed), "discarded", discarded,
                     "trouble", scrubbed(g->trouble, MESSAGE_MAX));
}

static void put_discarded(struct buf *b, const json_t *discarded)
{
    size_t i;
    json_t *item;
    if (json_array_size(discarded))
        buf_append_str(b, "Changes to the task's own files do not count:\n");
    json_array_foreach(discarded, i, item) if (i < SHOWN_MAX)
        buf_printf(b, "    %s\n", json_string_value(item));
}

json_t *observe_grade(const struct task *t, const struct grade *g, json_t *verdict)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RESULT_TEXT_MAX);
    const json_t *hidden = json_object_get(verdict, "hidden");
    json_int_t count = json_integer_value(json_object_get(hidden, "count"));
    if (t->tests.verdict == VERDICT_REWARD)
        buf_printf(&text, "Graded: %.4g.\n", g->pass_rate);
    else
        buf_printf(&text, "%zu of %zu tests passed.\n", g->passed, g->count);
    if (count)
        buf_printf(&text, "Of these, %lld are hidden; %lld of them passed.\n", (long long)count,
                   (long long)json_integer_value(json_object_get(hidden, "passed")));
    put_trouble(&text, json_object_get(verdict, "trouble"), NULL);
    put_discarded(&text, json_object_get(verdict, "discarded"));
    put_failures(&text, json_object_get(verdict, "tests"));
    json_t *data = json_pack("{s:o, s:o, s:f}", "passed", integer(g->passed), "count",
                             integer(g->count), "pass_rate", g->pass_rate);
    if (data && json_object_update(data, verdict) < 0) {
        json_decref(data);
        data = NULL;
    }
    return data ? observation_of(&text, false, data) : NULL;
}
