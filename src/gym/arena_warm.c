/* The warm runner of an arena: started by whoever needs it first, while the others who need it wait. */
#include <errno.h>

#include "arena_private.h"
#include "grade.h"
#include "banned.h"

/* The lock is held. */
static void start(struct gym_arena *a)
{
    a->warm_tried = true;
    if (a->options.cold) {
        error_set(&a->no_warm, EOPNOTSUPP, "the warm runner is switched off");
        return;
    }
    _cleanup_free_ char *setup = grade_setup(a->task);
    struct warm_options o = {.family = a->origin, .program = GRADE_PROGRAM, .setup = setup};
    if (!setup)
        error_errno(&a->no_warm, ENOMEM, "cannot start the warm runner");
    else if (warm_open(&o, &a->warm, &a->no_warm) < 0)
        a->warm = NULL;
}

struct warm *arena_warm(struct gym_arena *a, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    if (!a->warm_tried)
        start(a);
    struct warm *w = a->warm;
    if (!w && err)
        *err = a->no_warm;
    pthread_mutex_unlock(&a->lock);
    return w;
}
