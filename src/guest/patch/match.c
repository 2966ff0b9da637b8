#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "match.h"
#include "banned.h"

int hunk_lines_make(const struct diff *d, const struct diff_file *f, struct hunk_lines *ret)
{
    size_t most = 0;
    for (size_t i = 0; i < f->hunks; i++)
        if (d->hunks[f->first_hunk + i].count > most)
            most = d->hunks[f->first_hunk + i].count;
    struct hunk_lines p = {.old = calloc(most + 1, sizeof *p.old),
                           .new = calloc(most + 1, sizeof *p.new)};
    if (!p.old || !p.new) {
        hunk_lines_free(&p);
        return -ENOMEM;
    }
    *ret = p;
    return 0;
}

void hunk_lines_free(struct hunk_lines *p)
{
    free(p->old);
    free(p->new);
    *p = (struct hunk_lines){0};
}

void hunk_lines_set(struct hunk_lines *p, const struct diff *d, const struct diff_hunk *h)
{
    p->hunk = h;
    p->lines = d->lines + h->first;
    p->n_old = p->n_new = p->before = p->behind = 0;
    bool changed = false;
    for (size_t i = 0; i < h->count; i++) {
        const struct diff_line *line = &p->lines[i];
        struct image_line as = {line->text, line->size, true};
        if (line->kind != '+')
            p->old[p->n_old++] = as;
        if (line->kind != '-')
            p->new[p->n_new++] = as;
        changed |= line->kind != ' ';
        p->before += !changed;
        p->behind = line->kind == ' ' ? p->behind + 1 : 0;
    }
}

void hunk_lines_swap(struct hunk_lines *p)
{
    struct image_line *old = p->old;
    size_t n = p->n_old;
    p->old = p->new;
    p->n_old = p->n_new;
    p->new = old;
    p->n_new = n;
}

static uint32_t length_without_space(const struct image_line *a)
{
    uint32_t n = a->size;
    while (n > 0 && strchr(" \t\r\n", a->text[n - 1]) && a->text[n - 1])
        n--;
    return n;
}

static bool same_bytes(const struct image_line *a, const struct image_line *b, uint32_t n)
{
    return memcmp(a->text, b->text, n) == 0;
}

/* A line of the file against one of the pattern; `last` if it is the pattern's last. */
static bool is_same(const struct matcher *m, size_t at, const struct image_line *want, bool last)
{
    const struct image_line *have = image_line(m->img, at);
    bool end = at + 1 == m->img->count;
    if (have->patched)
        return false;
    if (have->size == want->size)
        return same_bytes(have, want, want->size);
    if (m->how == MATCH_GIT && last && end && have->size == want->size + 1)
        return have->text[want->size] == '\n' && same_bytes(have, want, want->size);
    if (m->how == MATCH_BARE && end && have->size + 1 == want->size)
        return want->text[have->size] == '\n' && same_bytes(have, want, have->size);
    return false;
}

static bool is_same_but_space(const struct matcher *m, size_t at, const struct image_line *want)
{
    const struct image_line *have = image_line(m->img, at);
    uint32_t n = length_without_space(have);
    return n == length_without_space(want) && same_bytes(have, want, n);
}

bool match_at(const struct matcher *m, const struct hunk_lines *p, size_t at, size_t head,
              size_t tail)
{
    if (head + tail > p->n_old)
        return true;
    size_t end = p->n_old - tail;
    if (at + end > m->img->count)
        return false;
    for (size_t i = head; i < end; i++) {
        if (*m->work == 0)
            return false;
        --*m->work;
        if (m->how == MATCH_SPACE ? !is_same_but_space(m, at + i, &p->old[i])
                                  : !is_same(m, at + i, &p->old[i], i + 1 == p->n_old))
            return false;
    }
    return true;
}

size_t match_find(const struct matcher *m, const struct hunk_lines *p, size_t from, size_t head,
                  size_t tail)
{
    for (size_t at = from; at + p->n_old <= m->img->count + tail && *m->work; at++)
        if (match_at(m, p, at, head, tail))
            return at;
    return SIZE_MAX;
}

/* The first line from `from` on that says what the header of the hunk says. */
static size_t find_anchor(const struct matcher *m, struct slice anchor, size_t from)
{
    for (size_t i = from; i < m->img->count && *m->work; i++) {
        const struct image_line *line = image_line(m->img, i);
        struct slice s =
            slice_trim((struct slice){(const char *)line->text, length_without_space(line)});
        --*m->work;
        if (s.size == anchor.size && memcmp(s.at, anchor.at, s.size) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Lines without any context: they can only be added to an empty file, or at the end if that is
 * said. */
static size_t place_of_nothing(const struct matcher *m, const struct hunk_lines *p,
                               enum place_why *ret_why)
{
    if (p->hunk->at_end || m->img->count == 0)
        return m->img->count;
    *ret_why = PLACE_SEVERAL;
    return SIZE_MAX;
}

size_t match_bare(const struct matcher *m, const struct hunk_lines *p, size_t lowest,
                  size_t expected, size_t head, size_t tail, enum place_why *ret_why)
{
    *ret_why = PLACE_NOWHERE;
    if (p->hunk->anchor.size > 0) {
        size_t anchor = find_anchor(m, p->hunk->anchor, expected);
        if (anchor == SIZE_MAX)
            anchor = find_anchor(m, p->hunk->anchor, lowest);
        if (anchor != SIZE_MAX && p->n_old == 0)
            return anchor + 1;
        size_t found = anchor == SIZE_MAX ? SIZE_MAX : match_find(m, p, anchor, head, tail);
        if (found != SIZE_MAX)
            return found;
    }
    if (p->n_old == 0)
        return place_of_nothing(m, p, ret_why);
    if (p->hunk->at_end) {
        bool fits = p->n_old <= m->img->count && m->img->count - p->n_old >= lowest;
        return fits && match_at(m, p, m->img->count - p->n_old, head, tail)
                   ? m->img->count - p->n_old
                   : SIZE_MAX;
    }
    size_t first = match_find(m, p, expected, head, tail);
    if (first == SIZE_MAX && expected > lowest)
        first = match_find(m, p, lowest, head, tail);
    if (first == SIZE_MAX || match_find(m, p, first + 1, head, tail) == SIZE_MAX)
        return first;
    *ret_why = PLACE_SEVERAL;
    return SIZE_MAX;
}
