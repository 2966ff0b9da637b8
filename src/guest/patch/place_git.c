/* git's rules: see place.h. */
#include <errno.h>

#include "place_rules.h"
#include "banned.h"

/* Which ends of the file a hunk is tied to. */
struct ties {
    bool start, end;
};

static struct ties find_ties(const struct hunk_lines *p)
{
    const struct diff_hunk *h = p->hunk;
    if (h->recounted)
        return (struct ties){false, false};
    return (struct ties){.start = h->old_line <= 1, .end = p->behind == 0};
}

static bool fits(const struct placer *p, struct ties ties, size_t at)
{
    struct matcher m = {p->img, ties.end ? MATCH_EXACT : MATCH_GIT, p->call->work};
    if (at + p->pattern.n_old > p->img->count || (ties.start && at > 0) ||
        (ties.end && at + p->pattern.n_old != p->img->count))
        return false;
    return match_at(&m, &p->pattern, at, 0, 0);
}

/* From `line` on, by turns one further down and one further up. */
static size_t search(const struct placer *p, struct ties ties, size_t line)
{
    size_t up = line, down = line, count = p->img->count;
    if (fits(p, ties, line))
        return line;
    while ((up > 0 || down < count) && *p->call->work) {
        --*p->call->work;
        if (down < count && fits(p, ties, ++down))
            return down;
        if (up > 0 && fits(p, ties, --up))
            return up;
    }
    return SIZE_MAX;
}

static size_t find_numbered(const struct placer *p, size_t line)
{
    struct ties ties = find_ties(&p->pattern);
    size_t count = p->img->count, n = p->pattern.n_old;
    /* New lines and nothing around them: git would put them at the end of the file, wherever they
     * belong. */
    if (n == 0 && p->pattern.hunk->old_line > 0)
        return SIZE_MAX;
    if (ties.start || ties.end) {
        size_t only = ties.start ? 0 : n <= count ? count - n : SIZE_MAX;
        return only != SIZE_MAX && fits(p, ties, only) ? only : SIZE_MAX;
    }
    return search(p, ties, line < count ? line : count);
}

/* A hunk without numbers cannot say whether the last line ends in a newline: the file's own lines
 * stay. */
static void keep_context(const struct placer *p, size_t at)
{
    const struct hunk_lines *t = &p->pattern;
    size_t new = 0;
    for (size_t i = 0; i < t->hunk->count; i++) {
        if (t->lines[i].kind == ' ')
            t->new[new] = *image_line(p->img, at);
        at += t->lines[i].kind != '+';
        new += t->lines[i].kind != '-';
    }
}

int place_as_git(struct placer *p)
{
    const struct diff_hunk *h = p->pattern.hunk;
    size_t line = h->new_line ? h->new_line - 1 : 0, at;
    if (h->numbered) {
        at = find_numbered(p, line);
    } else {
        struct matcher m = {p->img, MATCH_BARE, p->call->work};
        at = match_bare(&m, &p->pattern, 0, p->expected, 0, 0, &p->why);
    }
    if (at == SIZE_MAX)
        return 0;
    if (h->numbered)
        place_note(p, (int64_t)at - (int64_t)line, 0);
    else
        keep_context(p, at);
    int r = image_replace(p->img, at, p->pattern.n_old, p->pattern.new, p->pattern.n_new);
    p->expected = at + p->pattern.n_new;
    return r < 0 ? r : 1;
}
