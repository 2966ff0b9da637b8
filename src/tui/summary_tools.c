/* One entry per tool that says more than its first string. */
#include <errno.h>
#include <string.h>

#include "summary.h"
#include "banned.h"

#define ELLIPSIS "…"

static const char *string_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static json_int_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* Calls: which members of the input are told, in which order of preference. */

static int call_bash(const json_t *input, struct buf *b)
{
    const char *command = string_of(input, "command");
    if (command)
        return buf_printf(b, "%s%s", command,
                          json_is_true(json_object_get(input, "background")) ? " &" : "");
    const char *what = json_is_true(json_object_get(input, "kill")) ? "end"
                       : json_object_get(input, "stdin")            ? "write to"
                                                                    : "look at";
    return buf_printf(b, "%s background command %" JSON_INTEGER_FORMAT, what,
                      number_of(input, "handle"));
}

static int call_read(const json_t *input, struct buf *b)
{
    const char *path = string_of(input, "path");
    json_int_t offset = number_of(input, "offset"), limit = number_of(input, "limit");
    if (!path)
        return 0;
    if (offset > 0 && limit > 0 && limit < 1000000000)
        return buf_printf(b, "%s %" JSON_INTEGER_FORMAT "-%" JSON_INTEGER_FORMAT, path, offset,
                          offset + limit - 1);
    if (offset != 0)
        return buf_printf(b, "%s from %" JSON_INTEGER_FORMAT, path, offset);
    return buf_append_str(b, path);
}

static int call_search(const json_t *input, struct buf *b)
{
    const char *pattern = string_of(input, "pattern"), *path = string_of(input, "path");
    const char *glob = string_of(input, "glob");
    int r = pattern ? buf_printf(b, "/%s/", pattern) : 0;
    if (r == 0 && glob)
        r = buf_printf(b, " %s", glob);
    return r == 0 && path ? buf_printf(b, " in %s", path) : r;
}

static int call_list(const json_t *input, struct buf *b)
{
    const char *path = string_of(input, "path"), *glob = string_of(input, "glob");
    return buf_printf(b, "%s%s%s",
                      path   ? path
                      : glob ? ""
                             : ".",
                      path && glob ? " " : "", glob ? glob : "");
}

/* The name in the first `+++ b/NAME` line, and how many more files there are. */
static int call_diff(const json_t *input, struct buf *b)
{
    const char *diff = string_of(input, "diff"), *first = NULL;
    size_t files = 0, length = 0;
    for (const char *at = diff; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, "+++ ", 4) != 0)
            continue;
        if (files++ == 0) {
            first = strncmp(at + 4, "b/", 2) == 0 ? at + 6 : at + 4;
            length = strcspn(first, "\t\r\n");
        }
    }
    int r = first ? buf_append(b, first, length) : 0;
    return r == 0 && files > 1 ? buf_printf(b, " and %zu more", files - 1) : r;
}

static int call_tests(const json_t *input, struct buf *b)
{
    const char *command = string_of(input, "command"), *path = string_of(input, "path");
    const char *filter = string_of(input, "filter");
    if (command)
        return buf_append_str(b, command);
    return buf_printf(b, "%s%s%s", path ? path : "", path && filter ? " " : "",
                      filter ? filter : "");
}

static int call_plan(const json_t *input, struct buf *b)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(input, "items"), i, item)
    {
        const char *state = string_of(item, "state"), *text = string_of(item, "text");
        if (state && text && strcmp(state, "active") == 0)
            return buf_append_str(b, text);
    }
    return 0;
}

/* A tool that is not known here: its first string, else nothing. */
static int call_other(const json_t *input, struct buf *b)
{
    static const char *const telling[] = {"path", "query", "command", "name", "url"};
    const char *key, *text;
    json_t *value;
    for (size_t i = 0; i < ARRAY_SIZE(telling); i++)
        if ((text = string_of(input, telling[i])))
            return buf_append_str(b, text);
    json_object_foreach((json_t *)input, key,
                        value) if ((text = json_string_value(value))) return buf_append_str(b,
                                                                                            text);
    return 0;
}

/* Results: only called for those that did not fail, with data. */

static int result_bash(const json_t *d, struct buf *b)
{
    const char *killed = string_of(d, "killed_by"), *signal = string_of(d, "signal");
    if (json_is_true(json_object_get(d, "running")))
        return buf_printf(b, "runs in the background as %" JSON_INTEGER_FORMAT,
                          number_of(d, "handle"));
    if (killed)
        return buf_printf(b, "ended by the limit on %s", killed);
    if (signal)
        return buf_printf(b, "ended by %s", signal);
    if (number_of(d, "exit_code") != 0)
        return buf_printf(b, "exit %" JSON_INTEGER_FORMAT, number_of(d, "exit_code"));
    return 0;
}

static int lines(struct buf *b, json_int_t n)
{
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " line%s", n, n == 1 ? "" : "s");
}

static int result_read(const json_t *d, struct buf *b)
{
    json_int_t first = number_of(d, "first_line"), last = number_of(d, "last_line");
    return first > 0 && last >= first ? lines(b, last - first + 1) : 0;
}

static int result_write(const json_t *d, struct buf *b)
{
    const char *action = string_of(d, "action");
    int r = action ? buf_printf(b, "%s, ", action) : 0;
    return r < 0 ? r : lines(b, number_of(d, "lines"));
}

/* +N -M of a unified diff's hunks. */
static int result_edit(const json_t *d, struct buf *b)
{
    size_t added = 0, deleted = 0;
    for (const char *at = string_of(d, "diff"); at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        added += *at == '+';
        deleted += *at == '-';
    }
    return buf_printf(b, "+%zu -%zu", added, deleted);
}

static int result_list(const json_t *d, struct buf *b)
{
    json_int_t n = number_of(d, "count");
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " entr%s", n, n == 1 ? "y" : "ies");
}

static int result_search(const json_t *d, struct buf *b)
{
    json_int_t n = number_of(d, "matches"), files = number_of(d, "files_matched");
    if (n == 0)
        return buf_append_str(b, "no match");
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " match%s in %" JSON_INTEGER_FORMAT " file%s", n,
                      n == 1 ? "" : "es", files, files == 1 ? "" : "s");
}

static int result_diff(const json_t *d, struct buf *b)
{
    const json_t *file;
    size_t i;
    json_int_t added = 0, removed = 0;
    json_array_foreach(json_object_get(d, "files"), i, file)
    {
        added += number_of(file, "added");
        removed += number_of(file, "removed");
    }
    return buf_printf(b, "+%" JSON_INTEGER_FORMAT " -%" JSON_INTEGER_FORMAT, added, removed);
}

static int result_tests(const json_t *d, struct buf *b)
{
    json_int_t failed = number_of(d, "failed"), errors = number_of(d, "errors");
    int r = buf_printf(b, "%" JSON_INTEGER_FORMAT " passed", number_of(d, "passed"));
    if (r == 0 && failed)
        r = buf_printf(b, ", %" JSON_INTEGER_FORMAT " failed", failed);
    if (r == 0 && errors)
        r = buf_printf(b, ", %" JSON_INTEGER_FORMAT " error%s", errors, errors == 1 ? "" : "s");
    return r;
}

static int result_plan(const json_t *d, struct buf *b)
{
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " done",
                      number_of(d, "done"), number_of(d, "total"));
}

static const struct teller {
    const char *name;
    int (*call)(const json_t *input, struct buf *b);
    int (*result)(const json_t *data, struct buf *b);
} TELLERS[] = {
    {"bash", call_bash, result_bash},         {"read_file", call_read, result_read},
    {"write_file", call_other, result_write}, {"edit_file", call_other, result_edit},
    {"list_files", call_list, result_list},   {"search_files", call_search, result_search},
    {"apply_diff", call_diff, result_diff},   {"run_tests", call_tests, result_tests},
    {"plan", call_plan, result_plan},
};

static const struct teller *teller_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(TELLERS); i++)
        if (name && strcmp(TELLERS[i].name, name) == 0)
            return &TELLERS[i];
    return NULL;
}

/* Inputs may be megabytes (a whole script); nothing behind this is looked at. */
#define TOLD_MAX (1u << 20)

/* What a teller said, or as much of it as it could before its buffer was full. */
static int finish(struct buf *told, size_t width, struct buf *out)
{
    return summary_line(told->len ? (const char *)told->data : "", told->len, width, out);
}

int summary_of_call(const char *name, const json_t *input, size_t width, struct buf *out)
{
    _cleanup_buf_ struct buf told = BUF_INIT(TOLD_MAX);
    const struct teller *t = teller_of(name);
    if ((t ? t->call : call_other)(input, &told) < 0)
        return buf_append_str(out, ELLIPSIS);
    return finish(&told, width, out);
}

int summary_of_result(const char *name, const struct tool_result *r, size_t width, struct buf *out)
{
    _cleanup_buf_ struct buf told = BUF_INIT(TOLD_MAX);
    const struct teller *t = teller_of(name);
    if (r->failed) {
        const char *text = r->text.len ? (const char *)r->text.data : "failed";
        size_t n = r->text.len ? r->text.len : strlen(text);
        const char *end = memchr(text, '\n', n);
        return summary_line(text, end ? (size_t)(end - text) : n, width, out);
    }
    if (t && r->data && t->result(r->data, &told) < 0)
        return -ENOMEM;
    return finish(&told, width, out);
}

bool summary_is_bad(const struct tool_result *r)
{
    const json_t *code = json_object_get(r->data, "exit_code");
    return r->failed || (json_is_integer(code) && json_integer_value(code) != 0) ||
           number_of(r->data, "failed") > 0 || number_of(r->data, "errors") > 0;
}
