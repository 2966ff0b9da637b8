/* Tests on their way out of a parser: cleaned, counted, and told of up to a limit. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "utf8.h"
#include "banned.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define LABEL_JOIN  " > "

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
static void clean(const char *s, size_t max, bool one_line, struct buf *out)
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

static void trim(struct buf *b)
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
    clean(clip_text(&whole), REPORT_NAME_MAX, true, out);
    clip_free(&whole);
    trim(out);
    if (out->len == 0)
        buf_append_str(out, "(no name)");
}

static void clean_message(const char *message, struct buf *out)
{
    struct clip ends = CLIP_INIT;
    while (*message == '\n' || *message == '\r')
        message++;
    clip_add_str(&ends, message);
    clean(clip_text(&ends), REPORT_TEXT_MAX * 3, false, out);
    clip_free(&ends);
    trim(out);
}

/* Where it failed is in the text of most failures; a place in the test's own file is the best one.
 */
static void find_place(struct report_test *t, char path[REPORT_PATH_MAX + 1])
{
    uint64_t line;
    bool known = t->file && *t->file;
    if (t->outcome != WIRE_OUTCOME_FAILED && t->outcome != WIRE_OUTCOME_ERROR)
        return;
    if (!t->message || !report_locate(t->message, known ? t->file : NULL, path, &line))
        return;
    if (!known)
        t->file = path;
    t->line = line;
}

uint64_t report_total(const struct report *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(r->counts); i++)
        n += r->counts[i];
    return n;
}

static int64_t add_duration(int64_t a, int64_t b)
{
    int64_t sum;
    return b <= 0 || __builtin_add_overflow(a, b, &sum) ? a : sum;
}

int report_add(struct report *r, const struct report_test *t)
{
    _cleanup_buf_ struct buf name = BUF_INIT(REPORT_NAME_MAX + 16),
                             file = BUF_INIT(REPORT_PATH_MAX + 16),
                             message = BUF_INIT(REPORT_TEXT_MAX * 3 + 16);
    char path[REPORT_PATH_MAX + 1];
    struct report_test out = *t;
    bool told = report_total(r) < REPORT_TESTS_MAX;
    r->counts[t->outcome]++;
    r->duration_ns = add_duration(r->duration_ns, t->duration_ns);
    if (!told) {
        r->left_out++;
        return 0;
    }
    bool bad = t->outcome == WIRE_OUTCOME_FAILED || t->outcome == WIRE_OUTCOME_ERROR;
    if (bad && r->fallback && !(t->message && *t->message))
        out.message = r->fallback;
    find_place(&out, path);
    clean_name(r->label, t->name ? t->name : "", &name);
    clean_message(out.message ? out.message : "", &message);
    clean(out.file ? out.file : "", REPORT_PATH_MAX, true, &file);
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
