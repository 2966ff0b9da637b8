#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "json.h"
#include "lines.h"
#include "text.h"
#include "tui.h"
#include "banned.h"

#define ELLIPSIS      "…"
#define PATH_COLUMNS  60 /* paths are aligned up to this width */
#define CHANGES_SHOWN 12

int summary_line(const char *text, size_t n, size_t width, struct buf *out)
{
    _cleanup_buf_ struct buf one = BUF_INIT(width * 4 + 16),
                             clean = BUF_INIT(one.max * HARMLESS_GROWTH);
    struct harmless h = {0};
    bool blank = false;
    size_t i = 0;
    int used;
    if (width == 0 || n == 0)
        return 0;
    /* Blanks and newlines become one blank; no more is read than can be shown. */
    for (; i < n && one.len < width * 4 + 4; i++) {
        bool is_blank = isspace((unsigned char)text[i]);
        if (!is_blank && blank && one.len)
            buf_append(&one, " ", 1);
        if (!is_blank)
            buf_append(&one, text + i, 1);
        blank = is_blank;
    }
    while (i < n && isspace((unsigned char)text[i]))
        i++;
    bool more = i < n;
    if (more)
        one.len -= utf8_cut_end(one.data, one.len);
    if (one.failed || harmless_append(&h, one.data, one.len, &clean) < 0)
        return -ENOMEM;
    const char *s = clean.len ? (const char *)clean.data : "";
    size_t fit = clean_fit(s, clean.len, (int)width, &used);
    bool cut = more || fit < clean.len;
    if (cut)
        fit = clean_fit(s, clean.len, (int)width - 1, &used);
    int r = buf_append(out, s, fit);
    return r < 0 ? r : buf_append_str(out, cut ? ELLIPSIS : "");
}

const char *summary_time(double seconds, char out[SUMMARY_TIME_MAX])
{
    unsigned s = seconds > 0 && seconds < 1e6 ? (unsigned)seconds : 0;
    if (seconds < 9.95)
        snprintf(out, SUMMARY_TIME_MAX, "%.1fs", seconds > 0 ? seconds : 0.0);
    else if (s < 60)
        snprintf(out, SUMMARY_TIME_MAX, "%us", s);
    else if (s < 3600)
        snprintf(out, SUMMARY_TIME_MAX, "%um%02us", s / 60, s % 60);
    else
        snprintf(out, SUMMARY_TIME_MAX, "%uh%02um", s / 3600 % 10000, s / 60 % 60);
    return out;
}

int summary_number(uint64_t n, struct buf *out)
{
    if (n < 1000)
        return buf_printf(out, "%" PRIu64, n);
    int r = summary_number(n / 1000, out);
    return r < 0 ? r : buf_printf(out, ",%03u", (unsigned)(n % 1000));
}

static int summary_put_counts(uint64_t added, uint64_t deleted, struct buf *out)
{
    buf_append_str(out, "+");
    summary_number(added, out);
    buf_append_str(out, " −");
    return summary_number(deleted, out);
}

int summary_of_changes(const struct agent_changes *c, struct buf *out)
{
    if (c->count == 0)
        return buf_append_str(out, c->commits ? "commits" : "nothing");
    summary_number(c->count, out);
    buf_printf(out, " file%s, ", c->count == 1 ? "" : "s");
    return summary_put_counts(c->added, c->deleted, out);
}

int summary_list_changes(const struct agent_changes *c, struct buf *out)
{
    size_t shown = c->count < CHANGES_SHOWN ? c->count : CHANGES_SHOWN;
    int widest = 0;
    summary_number(c->count, out);
    buf_printf(out, " file%s changed, ", c->count == 1 ? "" : "s");
    summary_put_counts(c->added, c->deleted, out);
    buf_append_str(out, "\n");
    for (size_t i = 0; i < 2 * shown; i++) { /* first measures, then prints */
        const struct agent_change *one = &c->items[i % shown];
        _cleanup_buf_ struct buf path = BUF_INIT(4096);
        summary_line(one->path, strlen(one->path), 1000, &path);
        int width = path.len ? clean_width((const char *)path.data, path.len) : 0;
        if (i < shown) {
            widest = width > widest && width <= PATH_COLUMNS ? width : widest;
            continue;
        }
        buf_printf(out, "%c %.*s%*s  ",
                   one->kind && *one->kind == 'a'   ? 'A'
                   : one->kind && *one->kind == 'd' ? 'D'
                                                    : 'M',
                   (int)path.len, path.len ? (const char *)path.data : "",
                   width < widest ? widest - width : 0, "");
        if (one->binary)
            buf_append_str(out, "binary");
        else
            summary_put_counts(one->added, one->deleted, out);
        buf_append_str(out, "\n");
    }
    return c->count > shown ? buf_printf(out, "… %zu more\n", c->count - shown) : 0;
}

/* Calls and results. */

/* Inputs may be megabytes (a script); nothing after this is looked at. */
#define VIEW_TEXT_MAX (1u << 20)

const struct tool_view *summary_view(const char *name)
{
    static const struct tool_view other = {.head = 3, .tail = 2};
    const struct tool *tool = name ? tool_builtin(name) : NULL;
    return tool && tool->view ? tool->view : &other;
}

int summary_of_call(const char *name, const json_t *input, size_t width, struct buf *out)
{
    /* Of a tool without a view: a string of the input that says most, else the first one. */
    static const char *const members[] = {"path", "query", "command", "name", "url"};
    _cleanup_buf_ struct buf text = BUF_INIT(VIEW_TEXT_MAX);
    const struct tool_view *view = summary_view(name);
    const char *key, *said = NULL;
    json_t *value;
    if (view->call)
        return view->call(input, &text) < 0
                   ? buf_append_str(out, ELLIPSIS)
                   : summary_line((const char *)text.data, text.len, width, out);
    for (size_t i = 0; !said && i < ARRAY_SIZE(members); i++)
        said = json_get_string(input, members[i]);
    json_object_foreach((json_t *)input, key, value) said = said ? said : json_string_value(value);
    return said ? summary_line(said, strlen(said), width, out) : 0;
}

int summary_of_result(const char *name, const struct tool_result *r, size_t width, struct buf *out)
{
    _cleanup_buf_ struct buf text = BUF_INIT(VIEW_TEXT_MAX);
    const struct tool_view *view = summary_view(name);
    if (r->failed) {
        const char *why = r->text.len ? (const char *)r->text.data : "failed";
        size_t n = r->text.len ? r->text.len : strlen(why);
        const char *end = memchr(why, '\n', n);
        return summary_line(why, end ? (size_t)(end - why) : n, width, out);
    }
    if (view->result && r->data && view->result(r->data, &text) < 0)
        return -ENOMEM;
    return summary_line((const char *)text.data, text.len, width, out);
}

bool summary_is_bad(const struct tool_result *r)
{
    static const char *const counts[] = {"exit_code", "failed", "errors"};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (json_get_integer(r->data, counts[i]) != 0)
            return true;
    return r->failed;
}
