#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "observe.h"
#include "text.h"
#include "tool.h"
#include "banned.h"

/* Members of a tool's data that differ from run to run. */
static const char *const TIMES[] = {"duration_ms", "duration"};

/* Members whose text is a test runner's. */
static const char *const RUNNER_TEXTS[] = {"output"};

/* A long text keeps its beginning and its end. */
static json_t *bounded_text(const char *text, size_t n)
{
    if (n <= OBSERVE_TEXT_MAX)
        return text_json(text, n);
    _cleanup_buf_ struct buf b = BUF_INIT(OBSERVE_TEXT_MAX + 256);
    size_t half = OBSERVE_TEXT_MAX / 2, head = half - utf8_cut_end((const uint8_t *)text, half);
    const char *tail = text + n - half;
    size_t skip = utf8_cut_start((const uint8_t *)tail, half);
    buf_append(&b, text, head);
    buf_printf(&b, "\n[... %zu bytes left out ...]\n", n - head - (half - skip));
    buf_append(&b, tail + skip, half - skip);
    return b.failed ? NULL : text_json(b.data, b.len);
}

/* Steals data. */
static json_t *make(const char *text, size_t n, bool failed, json_t *data)
{
    if (data && json_dumpb(data, NULL, 0, JSON_COMPACT) > OBSERVE_DATA_MAX) {
        json_decref(data);
        data = json_pack("{s:b}", "left_out", 1);
    }
    json_t *o = json_pack("{s:o, s:b, s:o}", "text", bounded_text(text, n), "failed", failed,
                          "data", data ? data : json_object());
    return o;
}

json_t *observe_text(const char *text, bool failed)
{
    return make(text, strlen(text), failed, NULL);
}

static json_t *string_or_null(const char *text)
{
    return text ? text_json(text, strlen(text)) : json_null();
}

json_t *observe_reset(const struct task *t)
{
    json_t *data =
        json_pack("{s:s, s:o, s:o, s:o, s:i}", "task", t->name, "title", string_or_null(t->title),
                  "language", string_or_null(t->language), "test_command",
                  string_or_null(task_tests_hidden(t) ? NULL : t->tests.command), "max_steps",
                  (int)t->max_steps);
    const char *text = t->instruction ? t->instruction : "";
    return make(text, strlen(text), false, data);
}

static json_t *scrubbed(const char *text, size_t n)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2 * n + 16);
    if (observe_scrub(text, n, &b) < 0)
        return NULL;
    return text_json(b.data, b.len);
}

static void scrub_member(json_t *o, const char *name)
{
    json_t *value = json_object_get(o, name);
    if (json_is_string(value))
        data_set(o, name, scrubbed(json_string_value(value), json_string_length(value)));
}

static void scrub_runner(json_t *data)
{
    size_t i;
    json_t *test;
    for (i = 0; i < ARRAY_SIZE(RUNNER_TEXTS); i++)
        scrub_member(data, RUNNER_TEXTS[i]);
    json_array_foreach(json_object_get(data, "tests"), i, test) scrub_member(test, "message");
}

static json_t *clean_data(const char *tool, const json_t *from)
{
    json_t *data = from ? json_deep_copy(from) : json_object();
    for (size_t i = 0; data && i < ARRAY_SIZE(TIMES); i++)
        json_object_del(data, TIMES[i]);
    if (data && strcmp(tool, TOOL_RUN_TESTS.name) == 0)
        scrub_runner(data);
    return data;
}

/* "[still running after 1.5 s]" is bash's own line, the last one. */
static size_t without_running_time(const char *text, size_t n, struct buf *out)
{
    static const char LINE[] = "[still running after ";
    const char *end = n ? memrchr(text, '\n', n - 1) : NULL;
    const char *last = end ? end + 1 : text;
    size_t len = (size_t)(text + n - last);
    if (len < strlen(LINE) || memcmp(last, LINE, strlen(LINE)) != 0)
        return 0;
    buf_append(out, text, (size_t)(last - text));
    buf_append_str(out, "[still running]\n");
    return out->len;
}

static int clean_text(const char *tool, const struct tool_result *r, struct buf *out)
{
    const char *text = r->text.len ? (const char *)r->text.data : "";
    if (strcmp(tool, TOOL_RUN_TESTS.name) == 0)
        return observe_scrub(text, r->text.len, out);
    if (strcmp(tool, TOOL_BASH.name) == 0 && without_running_time(text, r->text.len, out))
        return out->failed ? -ENOMEM : 0;
    return buf_append(out, text, r->text.len);
}

static int add_image(json_t *o, const struct tool_result *r)
{
    json_t *whole = tool_result_json(r);
    int bad = !whole || json_object_set(o, "image", json_object_get(whole, "image")) < 0;
    json_decref(whole);
    return bad ? -ENOMEM : 0;
}

json_t *observe_tool(const char *tool, const struct tool_result *r)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * RESULT_TEXT_MAX);
    json_t *data = clean_data(tool, r->data);
    if (!data || clean_text(tool, r, &text) < 0) {
        json_decref(data);
        return NULL;
    }
    json_t *o = make(text.len ? (const char *)text.data : "", text.len, r->failed, data);
    if (o && r->mime && r->image.len <= OBSERVE_IMAGE_MAX && add_image(o, r) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/*
 * Times and addresses in the words of a test runner become `?`: "1 failed in 0.02s" and "<Calc
 * object at 0x7f12…>" say the same at every run. A time is a number with a decimal point before a
 * unit, or any number behind "duration_ms", "duration" or "time".
 */

#define ADDRESS_MIN  6 /* digits */
#define FILLING_KEPT 3 /* characters of a line that is drawn with '=' beside a time */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* "0x7ffe1234": how long it is; 0: there is none. */
static size_t address_length(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2 || s[0] != '0' || s[1] != 'x')
        return 0;
    while (i < n && isxdigit((unsigned char)s[i]))
        i++;
    return i >= 2 + ADDRESS_MIN && (i == n || !is_word(s[i])) ? i : 0;
}

static size_t number_length(const char *s, size_t n, bool *ret_decimal)
{
    size_t i = 0;
    *ret_decimal = false;
    while (i < n &&
           (isdigit((unsigned char)s[i]) ||
            (s[i] == '.' && i && i + 1 < n && isdigit((unsigned char)s[i + 1]) && !*ret_decimal))) {
        *ret_decimal |= s[i] == '.';
        i++;
    }
    return i;
}

static bool is_unit(const char *s, size_t n)
{
    static const char *const UNITS[] = {"s",    "ms",     "us",      "sec",
                                        "secs", "second", "seconds", "\xc2\xb5s"};
    if (n && *s == ' ')
        s++, n--;
    for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
        size_t len = strlen(UNITS[i]);
        if (n >= len && memcmp(s, UNITS[i], len) == 0 && (n == len || !is_word(s[len])))
            return true;
    }
    return false;
}

/* Does what stands before say that a time follows: duration_ms 1.5, time="0.1", "duration": 3? */
static bool follows_time(const char *s, size_t at)
{
    static const char *const WORDS[] = {"duration_ms", "duration", "time"};
    while (at && strchr(" \t:=\"'", s[at - 1]))
        at--;
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
        size_t len = strlen(WORDS[i]);
        if (at >= len && memcmp(s + at - len, WORDS[i], len) == 0 &&
            (at == len || !is_word(s[at - len - 1])))
            return true;
    }
    return false;
}

/* How much of what begins here differs from run to run; 0: nothing. */
static size_t fickle_length(const char *text, size_t at, size_t n)
{
    bool decimal;
    if (at && (is_word(text[at - 1]) || text[at - 1] == '.'))
        return 0;
    size_t len = address_length(text + at, n - at);
    if (len)
        return len;
    len = number_length(text + at, n - at, &decimal);
    if (len && decimal && is_unit(text + at + len, n - at - len))
        return len;
    bool ends = at + len == n || !is_word(text[at + len]);
    return len && ends && follows_time(text, at) ? len : 0;
}

/* " (0:01:15)", which pytest puts behind a time of more than a minute: how long it is; 0: there is
 * none. */
static size_t clock_length(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2 || s[0] != ' ' || s[1] != '(')
        return 0;
    while (i < n && (isdigit((unsigned char)s[i]) || s[i] == ':'))
        i++;
    return i > 2 && i < n && s[i] == ')' && memchr(s, ':', i) ? i + 1 : 0;
}

/* Replaces in one line. True if there was something to replace. */
static bool scrub_line(const char *text, size_t n, struct buf *out)
{
    size_t at = 0, kept = 0;
    while (at < n) {
        size_t len = fickle_length(text, at, n);
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
    return kept > 0;
}

/* "=== 1 passed in 9.9s ===" is filled up to a width, so a longer time makes shorter fillings. */
static void shorten_fillings(struct buf *out, size_t from)
{
    size_t to = from, same = 0;
    for (size_t at = from; at < out->len; at++) {
        same = at > from && out->data[at] == out->data[at - 1] ? same + 1 : 1;
        if (same <= FILLING_KEPT || !memchr("=-_", out->data[at], 3))
            out->data[to++] = out->data[at];
    }
    out->len = to;
}

int observe_scrub(const char *text, size_t n, struct buf *out)
{
    while (n > 0) {
        const char *newline = memchr(text, '\n', n);
        size_t line = newline ? (size_t)(newline - text) : n, from = out->len;
        if (scrub_line(text, line, out) && !out->failed)
            shorten_fillings(out, from);
        if (newline)
            buf_append(out, "\n", 1);
        line += newline != NULL;
        text += line;
        n -= line;
    }
    return out->failed ? -ENOMEM : 0;
}
