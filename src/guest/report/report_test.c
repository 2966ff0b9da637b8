/* Tests on their way out of a parser: cleaned, counted, and passed on up to a limit; and what the
 * parsers share. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"
#include "banned.h"

#define REPLACEMENT     "\xef\xbf\xbd"
#define LABEL_JOIN      " > "
#define LINE_MAX_DIGITS 7

int report_each_line(char *text, size_t n, int (*take)(void *data, char *line, size_t n),
                     void *data)
{
    char *end = text + n;
    for (char *at = text, *next; at < end; at = next) {
        char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        stop -= stop > at && stop[-1] == '\r';
        for (char *nul; (nul = memchr(at, 0, (size_t)(stop - at)));)
            *nul = ' ';
        char kept = *stop;
        *stop = 0;
        int r = take(data, at, (size_t)(stop - at));
        *stop = kept;
        if (r != 0)
            return r;
    }
    return 0;
}

void report_set_string(char **at, const char *s, size_t n)
{
    free(*at);
    *at = s ? strndup(s, n) : NULL;
}

void clip_add(struct clip *c, const void *data, size_t n)
{
    const uint8_t *at = data;
    c->total += n;
    size_t room = CLIP_HEAD - c->head.len, first = n < room ? n : room;
    if (buf_append(&c->head, at, first) < 0)
        return;
    at += first;
    n -= first;
    if (n > CLIP_TAIL) {
        at += n - CLIP_TAIL;
        n = CLIP_TAIL;
    }
    if (c->tail.len + n > CLIP_TAIL * 2)
        buf_consume(&c->tail, c->tail.len - CLIP_TAIL);
    buf_append(&c->tail, at, n);
}

void clip_add_strings(struct clip *c, const char *const *strings)
{
    for (; *strings; strings++)
        clip_add(c, *strings, strlen(*strings));
}

void clip_reset(struct clip *c)
{
    c->head.len = c->tail.len = c->total = 0;
}

void clip_free(struct clip *c)
{
    buf_free(&c->head);
    buf_free(&c->tail);
    buf_free(&c->whole);
}

const char *clip_text(struct clip *c)
{
    size_t kept = c->tail.len < CLIP_TAIL ? c->tail.len : CLIP_TAIL;
    c->whole.len = 0;
    buf_append(&c->whole, c->head.data, c->head.len);
    if (c->total > c->head.len + kept)
        buf_printf(&c->whole, "\n[... %zu bytes left out ...]\n", c->total - c->head.len - kept);
    if (kept)
        buf_append(&c->whole, c->tail.data + c->tail.len - kept, kept);
    const char *text = buf_cstr(&c->whole);
    return text ? text : "";
}

/*
 * Places in source files, as failures name them:
 *
 *     PATH:LINE             src/a.py:12: AssertionError, panicked at src/lib.rs:7:38
 *     "PATH", line LINE     Python's tracebacks
 *     PATH line LINE        Perl: at t/a.t line 5.
 *
 * where PATH has a dot and letters behind it, as source files do. Files of the runner itself are
 * skipped.
 */
static const char *const FOREIGN[] = {"node_modules/", "site-packages/", "dist-packages/",
                                      "/rustc/",       "/usr/lib/",      "/usr/share/"};

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The number of the line, if what follows a path names one; else 0. */
static uint64_t locate_line(const char *s)
{
    static const char *const BEFORE[] = {":", "\", line ", " line "};
    size_t i = 0;
    while (i < ARRAY_SIZE(BEFORE) && strncmp(s, BEFORE[i], strlen(BEFORE[i])) != 0)
        i++;
    if (i == ARRAY_SIZE(BEFORE))
        return 0;
    s += strlen(BEFORE[i]);
    size_t digits = strspn(s, "0123456789");
    return digits > 0 && digits <= LINE_MAX_DIGITS ? strtoull(s, NULL, 10) : 0;
}

bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line)
{
    size_t n;
    for (const char *at = text; *at; at += n ? n : 1) {
        bool of_node = at - text >= 5 && strncmp(at - 5, "node:", 5) == 0;
        n = 0;
        while (at[n] && (isalnum((unsigned char)at[n]) || (unsigned char)at[n] >= 0x80 ||
                         strchr("._-/+@$%~[]\\", at[n])))
            n++;
        uint64_t line = n > 1 && n <= REPORT_PATH_MAX && !of_node ? locate_line(at + n) : 0;
        if (line == 0)
            continue;
        /* An extension: one to five letters or digits behind the last dot, a letter first. */
        size_t dot = n;
        while (dot > 0 && at[dot - 1] != '.' && at[dot - 1] != '/')
            dot--;
        if (dot < 2 || at[dot - 1] != '.' || at[dot - 2] == '/' || n == dot || n - dot > 5 ||
            !isalpha((unsigned char)at[dot]))
            continue;
        memcpy(path, at, n);
        path[n] = 0;
        bool wanted = !like || strcmp(last_part(path), last_part(like)) == 0;
        for (size_t i = 0; !like && i < ARRAY_SIZE(FOREIGN); i++)
            wanted &= !strstr(path, FOREIGN[i]);
        if (wanted) {
            *ret_line = line;
            return true;
        }
    }
    return false;
}

/* How long the terminal sequence at s is (ESC [ … letter), or 0: runners colour even what they
 * write to files. */
static size_t colour_length(const char *s, size_t n)
{
    if (n < 3 || s[0] != 0x1b || s[1] != '[')
        return 0;
    for (size_t i = 2; i < n && i < 32; i++)
        if (s[i] >= '@' && s[i] <= '~')
            return i + 1;
    return 0;
}

/* Appends valid UTF-8 without colours, carriage returns and blanks at its end; on one line if
 * asked. Stops before `max` bytes. */
static void clean_text(const char *s, size_t max, bool one_line, struct buf *out)
{
    size_t n = strlen(s);
    for (size_t i = 0, step; i < n && out->len + 4 <= max; i += step) {
        step = colour_length(s + i, n - i);
        if (step)
            continue;
        step = utf8_character((const uint8_t *)s + i, n - i);
        if (!step) {
            step = 1;
            buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        } else if (one_line && (unsigned char)s[i] < ' ') {
            buf_append(out, " ", 1);
        } else if (s[i] != '\r') {
            buf_append(out, s + i, step);
        }
    }
    while (out->len && strchr(" \n\t", out->data[out->len - 1]))
        out->len--;
}

uint64_t report_total(const struct report *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(r->counts); i++)
        n += r->counts[i];
    return n;
}

uint64_t report_bad(const struct report *r)
{
    return r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR];
}

int report_add(struct report *r, const struct report_test *t)
{
    _cleanup_buf_ struct buf name = BUF_INIT(REPORT_NAME_MAX + 16),
                             file = BUF_INIT(REPORT_PATH_MAX + 16),
                             message = BUF_INIT(REPORT_TEXT_MAX * 3 + 16);
    _cleanup_clip_ struct clip whole = CLIP_INIT;
    char path[REPORT_PATH_MAX + 1];
    struct report_test out = *t;
    int64_t sum;
    uint64_t line;
    bool passed_on = report_total(r) < REPORT_TESTS_MAX;
    r->counts[t->outcome]++;
    if (t->duration_ns > 0 && __builtin_add_overflow(r->duration_ns, t->duration_ns, &sum) == 0)
        r->duration_ns = sum;
    if (!passed_on) {
        r->left_out++;
        return 0;
    }

    bool bad = t->outcome == WIRE_OUTCOME_FAILED || t->outcome == WIRE_OUTCOME_ERROR;
    if (bad && r->fallback && !(t->message && *t->message))
        out.message = r->fallback;
    /* Where it failed is in the text of most failures; a place in the test's own file is best. */
    bool known = out.file && *out.file;
    if (bad && out.message && report_locate(out.message, known ? out.file : NULL, path, &line)) {
        out.file = known ? out.file : path;
        out.line = line;
    }

    /* What is too long keeps both ends: names differ at their end as often as at their
     * beginning. */
    bool named = t->name && *t->name, labelled = r->label && *r->label;
    clip_add_str(&whole, labelled ? r->label : "", labelled && named ? LABEL_JOIN : "",
                 named ? t->name : "");
    clean_text(clip_text(&whole), REPORT_NAME_MAX, true, &name);
    if (name.len == 0)
        buf_append_str(&name, "(no name)");
    clip_reset(&whole);
    const char *text = out.message ? out.message : "";
    clip_add_str(&whole, text + strspn(text, "\r\n"));
    clean_text(clip_text(&whole), REPORT_TEXT_MAX * 3, false, &message);
    clean_text(out.file ? out.file : "", REPORT_PATH_MAX, true, &file);
    out.name = buf_cstr(&name);
    out.message = buf_cstr(&message);
    out.file = buf_cstr(&file);
    if (!out.name || !out.message || !out.file)
        return -ENOMEM;
    return r->emit(r->data, &out);
}

int64_t report_duration(double seconds)
{
    return isfinite(seconds) && seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : 0;
}

int64_t report_seconds(const char *s)
{
    char *end;
    double seconds = strtod(s, &end);
    return end == s ? 0 : report_duration(seconds);
}
