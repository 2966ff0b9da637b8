#include <stdlib.h>

#include "tap_levels.h"
#include "banned.h"

void tap_level_reset(struct level *l)
{
    free(l->name);
    free(l->announced);
    *l = (struct level){0};
}

int tap_tell(struct tap *t, unsigned depth, const struct report_test *test)
{
    struct clip name = CLIP_INIT;
    for (unsigned i = 1; i <= depth; i++) {
        if (!t->levels[i].name)
            continue;
        clip_add_str(&name, t->levels[i].name);
        clip_add_str(&name, " > ");
    }
    clip_add_str(&name, test->name);
    struct report_test named = *test;
    named.name = clip_text(&name);
    int r = report_add(t->report, &named);
    clip_free(&name);
    return r;
}

int tap_flush(struct tap *t)
{
    struct pending *p = &t->test;
    if (!p->there)
        return 0;
    p->there = false;
    t->yaml = 0;
    return tap_tell(t, p->depth,
                    &(struct report_test){
                        .name = p->name ? p->name : "",
                        .outcome = p->outcome,
                        .message = p->outcome == WIRE_OUTCOME_PASSED ? "" : clip_text(&p->message),
                        .file = p->file,
                        .line = p->line,
                        .duration_ns = p->duration_ns});
}

/* A list of tests has ended: were there as many as were planned? */
static int check_plan(struct tap *t, unsigned depth)
{
    struct level *l = &t->levels[depth];
    char message[96];
    if (t->bailed || (l->planned && l->plan == l->ran) || (!l->planned && l->ran == 0))
        return 0;
    if (l->planned)
        snprintf(message, sizeof message, "planned %lu, ran %lu", l->plan, l->ran);
    else
        snprintf(message, sizeof message, "ran %lu, and ended without a plan: did it crash?",
                 l->ran);
    if (depth > 0)
        t->levels[depth - 1].child_bad = true;
    return tap_tell(
        t, depth,
        &(struct report_test){.name = "(plan)", .outcome = WIRE_OUTCOME_ERROR, .message = message});
}

/* Leaves the subtests that are deeper than this. */
static int leave_to(struct tap *t, unsigned depth)
{
    int r = 0;
    while (r >= 0 && t->depth > depth) {
        r = check_plan(t, t->depth);
        t->levels[t->depth - 1].children += t->levels[t->depth].ran;
        t->levels[t->depth - 1].child_bad |= t->levels[t->depth].child_bad;
        tap_level_reset(&t->levels[t->depth--]);
    }
    return r;
}

static void enter(struct tap *t, unsigned depth)
{
    while (t->depth < depth) {
        struct level *outer = &t->levels[t->depth], *inner = &t->levels[++t->depth];
        inner->name = TAKE_PTR(outer->announced);
        if (!inner->name)
            inner->name = TAKE_PTR(inner->announced);
    }
}

int tap_go_to(struct tap *t, unsigned depth)
{
    int r = tap_flush(t);
    if (r >= 0)
        r = leave_to(t, depth);
    enter(t, depth);
    return r;
}

int tap_restart(struct tap *t)
{
    int r = tap_go_to(t, 0);
    if (r >= 0)
        r = check_plan(t, 0);
    tap_level_reset(&t->levels[0]);
    return r;
}
