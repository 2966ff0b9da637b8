/* Tests on their way out of a parser: cleaned, counted, and passed on up to a limit. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "utf8.h"
#include "banned.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define LABEL_JOIN  " > "

#define LINE_MAX_DIGITS 7

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

/* The number of the line, if what follows a path says one. */
static bool locate_line(const char *s, uint64_t *ret)
{
    static const char *const BEFORE[] = {":", "\", line ", " line "};
    uint64_t n = 0;
    size_t i = 0, digits = 0;
    while (i < ARRAY_SIZE(BEFORE) && strncmp(s, BEFORE[i], strlen(BEFORE[i])) != 0)
        i++;
    if (i == ARRAY_SIZE(BEFORE))
        return false;
    for (s += strlen(BEFORE[i]); isdigit((unsigned char)s[digits]); digits++) {
        if (digits == LINE_MAX_DIGITS)
            return false;
        n = n * 10 + (uint64_t)(s[digits] - '0');
    }
    *ret = n;
    return n > 0;
}

/* Copies a path that has an extension: one to five letters or digits behind its last dot, the first
 * of them a letter. */
static bool locate_path(const char *s, size_t n, const char *like, char path[REPORT_PATH_MAX + 1])
{
    size_t dot = n;
    while (dot > 0 && s[dot - 1] != '.' && s[dot - 1] != '/')
        dot--;
    if (n > REPORT_PATH_MAX || dot < 2 || s[dot - 1] != '.' || n == dot || n - dot > 5 ||
        !isalpha((unsigned char)s[dot]) || s[dot - 2] == '/')
        return false;
    memcpy(path, s, n);
    path[n] = 0;
    if (like)
        return strcmp(last_part(path), last_part(like)) == 0;
    for (size_t i = 0; i < ARRAY_SIZE(FOREIGN); i++)
        if (strstr(path, FOREIGN[i]))
            return false;
    return true;
}

bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line)
{
    const char *begin = text;
    while (*text) {
        bool of_node = text - begin >= 5 && strncmp(text - 5, "node:", 5) == 0;
        size_t n = 0;
        while (text[n] && (isalnum((unsigned char)text[n]) || (unsigned char)text[n] >= 0x80 ||
                           strchr("._-/+@$%~[]\\", text[n])))
            n++;
        if (n > 1 && !of_node && locate_line(text + n, ret_line) &&
            locate_path(text, n, like, path))
            return true;
        text += n ? n : 1;
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

/* Appends valid UTF-8 without colours and carriage returns; on one line if asked. Stops before
 * `max` bytes.
 */
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
}

static void trim_end(struct buf *b)
{
    while (b->len && strchr(" \n\t", b->data[b->len - 1]))
        b->len--;
}

/* What is too long keeps both ends: a name's differ at its end as often as at its beginning. */
static void clean_name(const char *label, const char *name, struct buf *out)
{
    struct clip whole = CLIP_INIT;
    if (label && *label) {
        clip_add_str(&whole, label);
        if (*name)
            clip_add_str(&whole, LABEL_JOIN);
    }
    clip_add_str(&whole, name);
    clean_text(clip_text(&whole), REPORT_NAME_MAX, true, out);
    clip_free(&whole);
    trim_end(out);
    if (out->len == 0)
        buf_append_str(out, "(no name)");
}

uint64_t report_total(const struct report *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(r->counts); i++)
        n += r->counts[i];
    return n;
}

int report_add(struct report *r, const struct report_test *t)
{
    _cleanup_buf_ struct buf name = BUF_INIT(REPORT_NAME_MAX + 16),
                             file = BUF_INIT(REPORT_PATH_MAX + 16),
                             message = BUF_INIT(REPORT_TEXT_MAX * 3 + 16);
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
    clean_name(r->label, t->name ? t->name : "", &name);
    struct clip ends = CLIP_INIT;
    const char *text = out.message ? out.message : "";
    clip_add_str(&ends, text + strspn(text, "\r\n"));
    clean_text(clip_text(&ends), REPORT_TEXT_MAX * 3, false, &message);
    clip_free(&ends);
    trim_end(&message);
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
