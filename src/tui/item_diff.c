/*
 * A diff, coloured. What a person reads of git's headers is the file's name and what happened to
 * it: blobs' names, and the --- and +++ lines that say the same again, are left out. Hunks are
 * counted through, since a line in one may look like a header ("--- a comment" that was deleted).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "diff_style.h"
#include "item.h"
#include "banned.h"

struct diff_state {
    long old_left, new_left; /* lines of the hunk */
    bool git;                /* in git's header of a file */
    bool any;                /* a line was shown */
    bool whole;              /* lines are wrapped, not cut */
    int style;               /* of the line; -1: it is not shown */
};

static bool starts(const char *line, size_t n, const char *what)
{
    return n >= strlen(what) && memcmp(line, what, strlen(what)) == 0;
}

/* `@@ -1,3 +1,4 @@`; a count that is not there is 1. */
static void read_counts(struct diff_state *s, const char *line, size_t n)
{
    char text[80];
    long counts[2] = {0, 0};
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), line);
    char *at = text + 2;
    for (int i = 0; i < 2; i++) {
        at = strpbrk(at, i == 0 ? "-" : "+");
        if (!at)
            return;
        strtol(at + 1, &at, 10);
        counts[i] = *at == ',' ? strtol(at + 1, &at, 10) : 1;
    }
    s->old_left = counts[0];
    s->new_left = counts[1];
}

static unsigned hunk_style(struct diff_state *s, char mark)
{
    s->old_left -= mark != '+' && mark != '\\';
    s->new_left -= mark != '-' && mark != '\\';
    return mark == '+'    ? ROLE_ADDED
           : mark == '-'  ? ROLE_DELETED
           : mark == '\\' ? ROLE_MUTED
                          : ROLE_TEXT;
}

/* The style of a line, or -1 for one that is not shown. */
static int next_style(struct diff_state *s, const char *line, size_t n)
{
    if (starts(line, n, "@@")) {
        s->git = false;
        read_counts(s, line, n);
        return ROLE_HUNK;
    }
    if (s->old_left > 0 || s->new_left > 0)
        return (int)hunk_style(s, n ? *line : ' ');
    if (starts(line, n, "diff --git "))
        s->git = true;
    if (s->git && (starts(line, n, "index ") || starts(line, n, "--- ") || starts(line, n, "+++ ")))
        return -1;
    return (int)diff_style(line, n);
}

/* `diff --git a/x b/x` is told as `x`: the half behind the middle, without b/. */
static void add_line(struct flow *f, int style, const char *line, size_t n)
{
    static const char head[] = "diff --git a/";
    const char *name = line + strlen(head);
    if (starts(line, n, head) && n > strlen(head) + 4) {
        size_t half = (n - strlen(head) - 3) / 2;
        bool same = starts(name + half, n - strlen(head) - half, " b/") &&
                    memcmp(name, name + half + 3, half) == 0;
        line = same ? name : line + strlen("diff --git ");
        n = same ? half : n - strlen("diff --git ");
    }
    flow_add(f, (unsigned)style, line, n);
}

/* What does not fit goes on behind the column of the marks. */
static bool show_line(struct diff_state *s, const char *line, size_t n, const char *margin,
                      int width, struct lines *out)
{
    _cleanup_flow_ struct flow f = FLOW_INIT;
    char rest[32];
    struct margin m = {margin, rest, ROLE_MUTED, ROLE_MUTED};
    bool cut = false;
    snprintf(rest, sizeof rest, "%s  ", margin);
    if (starts(line, n, "diff --git ") && s->any) {
        lines_say(out, m.first_style, margin);
        lines_end(out);
    }
    add_line(&f, s->style, line, n);
    if (s->whole)
        wrap_exact(&f, &m, width - 2, 8, out);
    else
        cut = wrap_one(&f, &m, width, 8, out);
    s->any = true;
    return cut;
}

bool diff_lines(const char *text, size_t n, size_t most, const char *margin, int width,
                struct lines *out, size_t *ret_left)
{
    struct diff_state s = {.whole = most == SIZE_MAX};
    const char *end = text + n;
    size_t shown = 0, left = 0;
    bool cut = false;
    int room = width - clean_width(margin, strlen(margin));
    for (const char *at = text; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        s.style = next_style(&s, at, (size_t)(stop - at));
        if (s.style >= 0 && shown < most) {
            cut |= show_line(&s, at, (size_t)(stop - at), margin, room, out);
            shown++;
        } else if (s.style >= 0) {
            left++;
        }
        at = stop + 1;
    }
    *ret_left = left;
    return cut;
}
