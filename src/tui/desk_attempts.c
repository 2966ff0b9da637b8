/* The desk: several attempts at one goal, side by side. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "desk_private.h"
#include "banned.h"

static void on_event(void *data, unsigned attempt, const struct agent_event *e)
{
    struct desk *d = data;
    d->sink.event(d->sink.data, e, attempt + 1);
}

static void put_tests(struct buf *out, const struct attempt *a)
{
    if (!a->tested)
        buf_append_str(out, "not tested");
    else if (a->passed || a->failed)
        buf_printf(out, "%" PRIu64 " of %" PRIu64 " tests pass", a->passed, a->passed + a->failed);
    else
        buf_printf(out, "the test ends with %d", a->test_status);
}

static void put_attempt(struct buf *out, unsigned i, const struct attempt *a, bool best)
{
    buf_printf(out, "%s %u  ", best ? "▸" : " ", i + 1);
    put_tests(out, a);
    buf_printf(out, ", %zu file%s +%" PRIu64 " -%" PRIu64, a->files, a->files == 1 ? "" : "s",
               a->added, a->deleted);
    if (a->money.known)
        buf_printf(out, ", $%.2f", a->money.cost);
    buf_printf(out, "  %s%s%s\n", a->session, a->why[0] ? "  " : "", a->why);
}

int desk_attempts(struct desk *d, const char *words, struct answer *a, struct error *err)
{
    struct attempts_options o = {.n = d->attempts, .test = d->test};
    struct attempts_sink sink = {.event = on_event, .data = d};
    int best = -1;
    _cleanup_free_ struct attempt *all = calloc(d->attempts, sizeof *all);
    if (!all)
        return error_set(err, ENOMEM, "no memory");
    int r = agent_attempts(d->agent, words, &o, &sink, all, &best, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < d->attempts; i++)
        put_attempt(&a->text, i, &all[i], (int)i == best);
    if (best >= 0)
        buf_printf(&a->text, "The conversation goes on with attempt %d.\n", best + 1);
    else
        buf_append_str(&a->text, "None of them can be used; nothing was changed.\n");
    /* On the command line it is for every prompt, as a command for one. */
    if (!d->o->attempts)
        d->attempts = 0;
    return 0;
}

int desk_set_attempts(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    if (j->n == 0 && d->attempts < 2)
        return buf_append_str(
            &a->text, "One agent works at a time. /attempts 3 make test: three try what you say "
                      "next, and the best by that command is kept.\n");
    if (j->n == 0)
        return buf_printf(&a->text,
                          "%u agents try what you say next; what is best is told by: %s\n",
                          d->attempts, d->test ? d->test : "");
    char *test = j->text ? strdup(j->text) : NULL;
    if (j->text && !test)
        return error_set(err, ENOMEM, "no memory");
    free(d->test);
    d->test = test;
    d->attempts = j->n;
    if (j->n < 2)
        return buf_append_str(&a->text, "One agent works at a time again.\n");
    return buf_printf(&a->text, "%u agents will try what you say next; the best by '%s' is kept.\n",
                      j->n, test);
}
