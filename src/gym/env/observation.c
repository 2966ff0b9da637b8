#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "json.h"
#include "observation.h"
#include "tool.h"
#include "text.h"
#include "banned.h"

#define MESSAGE_MAX  4096u
#define FAILURES_MAX 50u /* in the text */
#define OUTPUT_MAX   8192u

#define ADDRESS_DIGITS_MIN 6
#define FILLING_MAX        3 /* characters kept of a drawn line ("=====") beside a time */

static bool is_word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Is there a time unit: " s", "ms"? */
static bool begins_with_unit(const char *s, size_t n)
{
    static const char *const UNITS[] = {"s",    "ms",     "us",      "sec",
                                        "secs", "second", "seconds", "\xc2\xb5s"};
    if (n && *s == ' ')
        s++, n--;
    for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
        size_t len = strlen(UNITS[i]);
        if (n >= len && memcmp(s, UNITS[i], len) == 0 && (n == len || !is_word_character(s[len])))
            return true;
    }
    return false;
}

/* Do the bytes before `at` announce a time: duration_ms 1.5, time="0.1", "duration": 3? */
static bool follows_time_word(const char *s, size_t at)
{
    static const char *const WORDS[] = {"duration_ms", "duration", "time"};
    while (at && strchr(" \t:=\"'", s[at - 1]))
        at--;
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
        size_t len = strlen(WORDS[i]);
        if (at >= len && memcmp(s + at - len, WORDS[i], len) == 0 &&
            (at == len || !is_word_character(s[at - len - 1])))
            return true;
    }
    return false;
}

/* The length of the time or address that begins at `at`; 0: none. */
static size_t volatile_length(const char *text, size_t at, size_t n)
{
    const char *s = text + at;
    bool decimal = false;
    size_t len = 0;
    n -= at;
    if (at && (is_word_character(text[at - 1]) || text[at - 1] == '.'))
        return 0;
    if (n > 2 && s[0] == '0' && s[1] == 'x') {
        for (len = 2; len < n && isxdigit((unsigned char)s[len]);)
            len++;
        if (len >= 2 + ADDRESS_DIGITS_MIN && (len == n || !is_word_character(s[len])))
            return len;
        len = 0;
    }
    while (len < n &&
           (isdigit((unsigned char)s[len]) || (s[len] == '.' && len && len + 1 < n && !decimal &&
                                               isdigit((unsigned char)s[len + 1])))) {
        decimal |= s[len] == '.';
        len++;
    }
    if (len && decimal && begins_with_unit(s + len, n - len))
        return len;
    bool ends = len == n || !is_word_character(s[len]);
    return len && ends && follows_time_word(text, at) ? len : 0;
}

/* The length of " (0:01:15)", which pytest appends to a time of more than a minute; 0: none. */
static size_t clock_length(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2 || s[0] != ' ' || s[1] != '(')
        return 0;
    while (i < n && (isdigit((unsigned char)s[i]) || s[i] == ':'))
        i++;
    return i > 2 && i < n && s[i] == ')' && memchr(s, ':', i) ? i + 1 : 0;
}

static void scrub_line(const char *text, size_t n, struct buf *out)
{
    size_t begin = out->len, at = 0, kept = 0;
    while (at < n) {
        size_t len = volatile_length(text, at, n);
        if (len) {
            buf_append(out, text + kept, at - kept);
            buf_append_str(out, "?");
            kept = at + len;
        }
        at += len ? len : 1;
        size_t clock = kept && !len ? clock_length(text + at, n - at) : 0;
        if (clock) {
            buf_append(out, text + kept, at - kept);
            at = kept = at + clock;
        }
    }
    buf_append(out, text + kept, n - kept);
    if (!kept || out->failed)
        return;
    /* "=== 1 passed in 9.9s ===" is filled up to a width: a longer time makes shorter fillings */
    size_t to = begin, same = 0;
    for (at = begin; at < out->len; at++) {
        same = at > begin && out->data[at] == out->data[at - 1] ? same + 1 : 1;
        if (same <= FILLING_MAX || !memchr("=-_", out->data[at], 3))
            out->data[to++] = out->data[at];
    }
    out->len = to;
}

/*
 * Times and addresses become `?`: "1 failed in 0.02s" and "<Calc object at 0x7f12…>" then say the
 * same in every run. A time is a number with a decimal point before a unit, or any number after
 * "duration_ms", "duration" or "time". By hand and without pcre2: the host runs no regular
 * expressions over bytes of a box.
 */
int observe_scrub(const char *text, size_t n, struct buf *out)
{
    while (n > 0) {
        const char *newline = memchr(text, '\n', n);
        size_t line = newline ? (size_t)(newline - text) : n;
        scrub_line(text, line, out);
        if (newline)
            buf_append(out, "\n", 1);
        line += newline != NULL;
        text += line;
        n -= line;
    }
    return out->failed ? -ENOMEM : 0;
}

/* NULL without text. */
static json_t *scrubbed_json(const char *text, size_t max)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2 * max + 16);
    if (!text || observe_scrub(text, strnlen(text, max), &b) < 0)
        return NULL;
    return text_json(b.data, b.len);
}

/* An observation; a long text keeps its beginning and its end. Steals data. */
static json_t *observation_new(const char *text, size_t n, bool failed, json_t *data)
{
    _cleanup_buf_ struct buf b = BUF_INIT(OBSERVE_TEXT_MAX + 256);
    if (n > OBSERVE_TEXT_MAX) {
        size_t half = OBSERVE_TEXT_MAX / 2, head = half - utf8_cut_end((const uint8_t *)text, half);
        const char *tail = text + n - half;
        size_t skip = utf8_cut_start((const uint8_t *)tail, half);
        buf_append(&b, text, head);
        buf_printf(&b, "\n[... %zu bytes left out ...]\n", n - head - (half - skip));
        buf_append(&b, tail + skip, half - skip);
        text = (const char *)b.data;
        n = b.len;
    }
    if (data && json_dumpb(data, NULL, 0, JSON_COMPACT) > OBSERVE_DATA_MAX) {
        json_decref(data);
        data = json_pack("{s:b}", "left_out", 1);
    }
    return json_pack("{s:o, s:b, s:o}", "text", b.failed ? NULL : text_json(text, n), "failed",
                     failed, "data", data ? data : json_object());
}

json_t *observe_text(const char *text, bool failed)
{
    return observation_new(text, strlen(text), failed, NULL);
}

json_t *observe_reset(const struct task *t)
{
    const char *texts[] = {t->title, t->language, task_tests_hidden(t) ? NULL : t->tests.command};
    json_t *values[ARRAY_SIZE(texts)];
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        values[i] = texts[i] ? text_json(texts[i], strlen(texts[i])) : NULL;
    json_t *data =
        json_pack("{s:s, s:o?, s:o?, s:o?, s:i}", "task", t->name, "title", values[0], "language",
                  values[1], "test_command", values[2], "max_steps", (int)t->max_steps);
    const char *text = t->instruction ? t->instruction : "";
    return observation_new(text, strlen(text), false, data);
}

/* A tool's data without what differs from run to run. */
static json_t *data_scrub(const char *tool, const json_t *from)
{
    json_t *data = from ? json_deep_copy(from) : json_object(), *test;
    size_t i;
    json_object_del(data, "duration_ms");
    json_object_del(data, "duration");
    if (!data || strcmp(tool, TOOL_RUN_TESTS.name) != 0)
        return data;
    const json_t *text = json_object_get(data, "output");
    if (json_is_string(text))
        data_set(data, "output", scrubbed_json(json_string_value(text), json_string_length(text)));
    json_array_foreach(json_object_get(data, "tests"), i, test)
    {
        text = json_object_get(test, "message");
        if (json_is_string(text))
            data_set(test, "message",
                     scrubbed_json(json_string_value(text), json_string_length(text)));
    }
    return data;
}

/* "[still running after 1.5 s]" is the last line of bash's text. */
static int text_scrub(const char *tool, const char *text, size_t n, struct buf *out)
{
    static const char LINE[] = "[still running after ";
    if (strcmp(tool, TOOL_RUN_TESTS.name) == 0)
        return observe_scrub(text, n, out);
    const char *newline = n ? memrchr(text, '\n', n - 1) : NULL;
    size_t last = newline ? (size_t)(newline + 1 - text) : 0;
    bool running = strcmp(tool, TOOL_BASH.name) == 0 && n - last >= strlen(LINE) &&
                   memcmp(text + last, LINE, strlen(LINE)) == 0;
    buf_append(out, text, running ? last : n);
    if (running)
        buf_append_str(out, "[still running]\n");
    return out->failed ? -ENOMEM : 0;
}

json_t *observe_tool(const char *tool, const struct tool_result *r)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * RESULT_TEXT_MAX);
    json_t *data = data_scrub(tool, r->data);
    if (!data ||
        text_scrub(tool, r->text.len ? (const char *)r->text.data : "", r->text.len, &text) < 0) {
        json_decref(data);
        return NULL;
    }
    json_t *o = observation_new(text.len ? (const char *)text.data : "", text.len, r->failed, data);
    if (o && r->mime && r->image.len <= OBSERVE_IMAGE_MAX) {
        json_t *whole = tool_result_json(r);
        if (json_object_set(o, "image", json_object_get(whole, "image")) < 0) {
            json_decref(o);
            o = NULL;
        }
        json_decref(whole);
    }
    return o;
}

struct test_counts {
    size_t of[GRADE_SKIPPED + 1];
    size_t hidden, hidden_passed;
};

/*
 * Is this a test that only grading sees? With pytest the file is part of the test's name. Other
 * runners' reports do not say where a test comes from, so all of their tests are hidden if the task
 * hides any.
 */
static bool test_is_hidden(const struct task *t, const char *name)
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

/* Tests that did not pass come first; hidden ones are only counted. */
static json_t *tests_json(const struct task *t, const struct grade *g, bool all,
                          struct test_counts *ret)
{
    static const char *const OUTCOMES[] = {
        [GRADE_MISSING] = "missing", [GRADE_PASSED] = "passed",   [GRADE_FAILED] = "failed",
        [GRADE_ERROR] = "error",     [GRADE_SKIPPED] = "skipped",
    };
    json_t *list = json_array();
    *ret = (struct test_counts){0};
    for (int good = 0; good < 2; good++)
        for (size_t i = 0; i < g->count; i++) {
            const struct grade_test *test = &g->tests[i];
            bool passed = test->outcome == GRADE_PASSED;
            if (!all && test_is_hidden(t, test->name)) {
                ret->hidden += good;
                ret->hidden_passed += good && passed;
                continue;
            }
            if ((passed || test->outcome == GRADE_SKIPPED) != good)
                continue;
            ret->of[test->outcome]++;
            if (json_array_size(list) < OBSERVE_TESTS_MAX)
                json_array_append_new(list, json_pack("{s:o, s:s, s:o?}", "name",
                                                      text_json(test->name, strlen(test->name)),
                                                      "outcome", OUTCOMES[test->outcome], "message",
                                                      scrubbed_json(test->message, MESSAGE_MAX)));
        }
    return list;
}

static void put_failures(struct buf *b, const json_t *tests)
{
    size_t i, bad = 0;
    json_t *test;
    json_array_foreach(tests, i, test)
    {
        const char *outcome = json_get_string(test, "outcome");
        if (strcmp(outcome, "passed") == 0 || strcmp(outcome, "skipped") == 0)
            break;
        if (++bad > FAILURES_MAX)
            continue;
        buf_append_str(b, "\n");
        for (const char *c = outcome; *c; c++)
            buf_printf(b, "%c", toupper((unsigned char)*c));
        buf_printf(b, " %s\n", json_get_string(test, "name"));
        for (const char *text = json_get_string_or(test, "message", ""); *text;) {
            size_t n = strcspn(text, "\n");
            buf_printf(b, "%s%.*s\n", n ? "    " : "", (int)n, text);
            text += n + (text[n] == '\n');
        }
    }
    if (bad > FAILURES_MAX)
        buf_printf(b, "\n... and %zu more\n", bad - FAILURES_MAX);
}

static void put_counts(struct buf *b, const struct test_counts *c)
{
    const struct {
        enum grade_outcome outcome;
        const char *one, *many;
    } rows[] = {{GRADE_FAILED, "failed", "failed"},
                {GRADE_ERROR, "error", "errors"},
                {GRADE_MISSING, "missing", "missing"},
                {GRADE_PASSED, "passed", "passed"},
                {GRADE_SKIPPED, "skipped", "skipped"}};
    const char *comma = "";
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t n = c->of[rows[i].outcome];
        if (n == 0)
            continue;
        buf_printf(b, "%s%zu %s", comma, n, n == 1 ? rows[i].one : rows[i].many);
        comma = ", ";
    }
    buf_append_str(b, *comma ? "\n" : "no tests were run\n");
}

/* As a tool's result, but with no text to scrub. Steals data. */
static json_t *observation_of_tests(struct buf *text, bool failed, json_t *data)
{
    struct tool_result r = {.failed = failed, .data = data, .text = *text};
    json_t *o = text->failed || !data ? NULL : observe_tool("submit", &r);
    json_decref(data);
    return o;
}

json_t *observe_test_run(const struct task *t, const struct grade *g)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RESULT_TEXT_MAX);
    struct test_counts c;
    const char *framework = t->tests.runner == TASK_PYTEST ? "pytest" : "command";
    const char *command = t->tests.command ? t->tests.command : "";
    json_t *tests = tests_json(t, g, true, &c);
    json_t *trouble = scrubbed_json(g->trouble, MESSAGE_MAX);
    json_t *output = scrubbed_json(g->output, OUTPUT_MAX);
    buf_printf(&text, "%s: ", framework);
    put_counts(&text, &c);
    if (trouble)
        buf_printf(&text, "%s\n", json_string_value(trouble));
    if (trouble && json_string_length(output))
        buf_printf(&text, "\nThe end of the output:\n%s\n", json_string_value(output));
    put_failures(&text, tests);
    json_t *data = json_pack(
        "{s:I, s:I, s:I, s:I, s:o, s:s, s:s, s:o?, s:o?, s:b}", "passed",
        (json_int_t)c.of[GRADE_PASSED], "failed", (json_int_t)c.of[GRADE_FAILED], "errors",
        (json_int_t)c.of[GRADE_ERROR], "skipped", (json_int_t)c.of[GRADE_SKIPPED], "tests", tests,
        "framework", framework, "command", command, "trouble", trouble, "output", output,
        "truncated", g->count > OBSERVE_TESTS_MAX);
    return observation_of_tests(&text, g->trouble && g->count == 0, data);
}

json_t *observe_verdict(const struct task *t, const struct grade *g)
{
    struct test_counts c;
    json_t *discarded = json_array();
    json_t *tests = tests_json(t, g, false, &c);
    for (size_t i = 0; i < g->discarded.count && i < OBSERVE_TESTS_MAX; i++)
        json_array_append_new(discarded,
                              text_json(g->discarded.items[i], strlen(g->discarded.items[i])));
    return json_pack("{s:o, s:{s:I, s:I}, s:o, s:o?}", "tests", tests, "hidden", "count",
                     (json_int_t)c.hidden, "passed", (json_int_t)c.hidden_passed, "discarded",
                     discarded, "trouble", scrubbed_json(g->trouble, MESSAGE_MAX));
}

json_t *observe_grade(const struct task *t, const struct grade *g, json_t *verdict)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RESULT_TEXT_MAX);
    const json_t *hidden = json_object_get(verdict, "hidden"), *item;
    const json_t *discarded = json_object_get(verdict, "discarded");
    const char *trouble = json_get_string(verdict, "trouble");
    size_t i;
    if (t->tests.verdict == VERDICT_REWARD)
        buf_printf(&text, "Graded: %.4g.\n", g->pass_rate);
    else
        buf_printf(&text, "%zu of %zu tests passed.\n", g->passed, g->count);
    if (json_get_integer(hidden, "count"))
        buf_printf(&text, "Of these, %lld are hidden; %lld of them passed.\n",
                   (long long)json_get_integer(hidden, "count"),
                   (long long)json_get_integer(hidden, "passed"));
    if (trouble)
        buf_printf(&text, "%s\n", trouble);
    if (json_array_size(discarded))
        buf_append_str(&text, "Changes to the task's own files do not count:\n");
    json_array_foreach(discarded, i, item) if (i < FAILURES_MAX)
        buf_printf(&text, "    %s\n", json_string_value(item));
    put_failures(&text, json_object_get(verdict, "tests"));
    json_t *data = json_pack("{s:I, s:I, s:f}", "passed", (json_int_t)g->passed, "count",
                             (json_int_t)g->count, "pass_rate", g->pass_rate);
    if (data && json_object_update(data, verdict) < 0) {
        json_decref(data);
        data = NULL;
    }
    return observation_of_tests(&text, false, data);
}
