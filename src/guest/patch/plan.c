#include <errno.h>
#include <stdlib.h>

#include "work.h"
#include "banned.h"

void plan_free(struct plan *p)
{
    world_free(&p->world);
    diff_free(&p->diff);
    free(p->outcomes);
    *p = (struct plan){0};
}

/* All files by one set of rules. -ENOENT if one of them does not apply; all are tried if somebody
 * wants to know. */
static int try(struct work *w, struct error *err)
{
    struct plan *p = w->plan;
    int result = 0;
    world_reset(&p->world);
    p->rejects = 0;
    w->left = PLACE_WORK_MAX;
    work_doom(w);
    for (p->count = 0; p->count < p->diff.n_files; p->count++) {
        int r = work_file(w, &p->diff.files[p->count], &p->outcomes[p->count], err);
        if (r < 0 && (r != -ENOENT || !w->reject))
            return r;
        result = r < 0 ? r : result;
    }
    return result;
}

/* Every set of rules in turn, silently. */
static int try_all(struct work *w, struct error *err)
{
    static const enum place_rules RULES[] = {PLACE_AS_GIT, PLACE_AS_PATCH};
    int r = -ENOENT;
    for (size_t i = 0; i < ARRAY_SIZE(RULES) && r == -ENOENT; i++) {
        w->how = (struct place_options){.rules = RULES[i], .fuzz = w->options->fuzz};
        r = try(w, err);
    }
    if (r == -ENOENT && w->options->ignore_space) {
        w->how.ignore_space = true;
        r = try(w, err);
        if (r == 0)
            world_note(&w->plan->world, "blanks at the ends of lines and line ends were ignored");
    }
    return r;
}

/* Reads the diff again, as it is or without its carriage returns. */
static int read_diff(struct plan *p, const void *text, size_t size, const struct plan_options *o,
                     bool strip_cr, struct error *err)
{
    diff_free(&p->diff);
    int r = diff_parse(text, size, strip_cr, &p->diff, err);
    if (r >= 0 && o->reverse)
        r = diff_reverse(&p->diff, err);
    if (r < 0)
        return r;
    free(p->outcomes);
    p->outcomes = calloc(p->diff.n_files + 1, sizeof *p->outcomes);
    return p->outcomes ? 0 : error_errno(err, ENOMEM, "reading the diff");
}

static int make(struct work *w, const void *text, size_t size,
                void (*reject)(void *data, const struct plan_reject *r), struct error *err)
{
    struct plan *p = w->plan;
    int r = read_diff(p, text, size, w->options, false, err);
    if (r < 0)
        return r;
    r = try_all(w, err);
    if (r == -ENOENT && p->diff.crlf) {
        r = read_diff(p, text, size, w->options, true, err);
        if (r >= 0)
            r = try_all(w, err);
        if (r == 0)
            world_note(&p->world,
                       "the carriage returns at the ends of the diff's lines were taken off");
    }
    if (r != -ENOENT)
        return r;
    w->reject = reject;
    return try(w, err);
}

int plan_make(const void *text, size_t size, const struct plan_options *o, struct source source,
              void (*reject)(void *data, const struct plan_reject *r), void *data, struct plan *ret,
              size_t *ret_rejects, struct error *err)
{
    struct plan p = {0};
    struct work w = {.plan = &p, .options = o, .data = data};
    world_init(&p.world, source);
    int r = make(&w, text, size, reject, err);
    if (r == -ENOENT)
        *ret_rejects = p.rejects;
    if (r < 0) {
        plan_free(&p);
        return r;
    }
    *ret = p;
    return 0;
}
