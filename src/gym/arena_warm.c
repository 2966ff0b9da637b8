/* The warm runner of an arena: started by whoever needs it first, while the others who need it
 * wait. */
#include <errno.h>

#include "arena_private.h"
#include "grade.h"
#include "thread.h"
#include "banned.h"

static int start(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    if (a->options.cold)
        return error_set(err, EOPNOTSUPP, "the warm runner is switched off");
    _cleanup_free_ char *setup = grade_setup(a->task);
    struct warm_options o = {
        .family = a->origin, .program = GRADE_PROGRAM, .setup = setup, .cancel = cancel};
    return setup ? warm_open(&o, ret, err)
                 : error_errno(err, ENOMEM, "cannot start the warm runner");
}

/* What is known by now: 1 if that is nothing. */
static int recall(struct gym_arena *a, struct warm **ret, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    int r = a->warm_tried ? -a->no_warm.code : 1;
    if (r == 0)
        *ret = a->warm;
    else if (r < 0)
        *err = a->no_warm;
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* A start that its caller gave up says nothing: the next one who needs it tries again. */
static int find_out(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    struct warm *w = NULL;
    int r = start(a, cancel, &w, err);
    if (r == -ECANCELED)
        return r;
    pthread_mutex_lock(&a->lock);
    a->warm_tried = true;
    a->warm = w;
    if (r < 0)
        a->no_warm = *err;
    pthread_mutex_unlock(&a->lock);
    if (r == 0)
        *ret = w;
    return r;
}

int arena_warm(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    int r = recall(a, ret, err);
    if (r <= 0)
        return r;
    r = cancel_lock_take(a->warming, cancel);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for the warm runner");
    r = recall(a, ret, err);
    if (r > 0)
        r = find_out(a, cancel, ret, err);
    cancel_lock_give(a->warming);
    return r;
}
