#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "match.h"
#include "place_rules.h"
#include "banned.h"

void place_note(struct placer *p, int64_t offset, unsigned fuzz)
{
    int64_t far = p->result.offset < 0 ? -p->result.offset : p->result.offset;
    if ((offset < 0 ? -offset : offset) > far)
        p->result.offset = offset;
    if (fuzz > p->result.fuzz)
        p->result.fuzz = fuzz;
}

/* Why a hunk found no place, and where it nearly had one. */
static struct place_failure explain(struct placer *p, size_t number)
{
    struct place_failure f = {.hunk = p->pattern.hunk, .number = number, .why = p->why};
    struct matcher m = {p->img, MATCH_EXACT, p->call->work};
    size_t at = SIZE_MAX;
    if (*m.work == 0)
        f.why = PLACE_COSTLY;
    if (f.why != PLACE_NOWHERE)
        return f;
    if (p->pattern.n_old > 0)
        at = match_find(&m, &p->pattern, 0, 0, 0);
    if (at != SIZE_MAX)
        f.why = at < p->lowest ? PLACE_BEHIND : PLACE_ELSEWHERE;
    if (at == SIZE_MAX && p->pattern.n_new > 0) {
        hunk_lines_swap(&p->pattern);
        at = match_find(&m, &p->pattern, 0, 0, 0);
        hunk_lines_swap(&p->pattern);
        f.why = at != SIZE_MAX ? PLACE_APPLIED : f.why;
    }
    if (at == SIZE_MAX && p->pattern.n_old > 0) {
        m.how = MATCH_SPACE;
        at = match_find(&m, &p->pattern, 0, 0, 0);
        f.why = at != SIZE_MAX ? PLACE_SPACE : f.why;
    }
    f.line = at != SIZE_MAX ? at + 1 : 0;
    return f;
}

static void fail(struct placer *p, size_t number)
{
    p->result.failures++;
    if (!p->call->failed)
        return;
    struct place_failure f = explain(p, number);
    p->call->failed(p->call->data, &f);
}

/* Places one hunk after the other; those that fail are left out. */
static int place_all(struct placer *p)
{
    const struct diff_file *f = p->call->file;
    for (size_t i = 0; i < f->hunks; i++) {
        hunk_lines_set(&p->pattern, p->call->diff, &p->call->diff->hunks[f->first_hunk + i]);
        p->why = PLACE_NOWHERE;
        p->first = i == 0;
        int r = p->call->how.rules == PLACE_AS_GIT ? place_as_git(p) : place_as_patch(p);
        if (r < 0)
            return r;
        if (r == 0)
            fail(p, i + 1);
        if (r == 0 && !p->call->failed)
            return 0;
    }
    return 0;
}

int place_hunks(const struct place_call *call, struct image *img, struct buf *out,
                struct place_result *ret)
{
    struct placer p = {.call = call, .img = img, .out = out, .on_new_line = true};
    int r = hunk_lines_make(call->diff, call->file, &p.pattern);
    if (r < 0)
        return r;
    r = place_all(&p);
    hunk_lines_free(&p.pattern);
    if (r < 0)
        return r;
    if (call->how.rules == PLACE_AS_GIT)
        image_join(img, out);
    else
        place_copy_rest(&p);
    if (out->failed)
        return -ENOBUFS;
    *ret = p.result;
    return 0;
}
