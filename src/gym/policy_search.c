/* Plays the best sequence that there is. It looks for it first, in an environment of its own: that
 * is not what an agent could do, but what one is measured against. */
#include <errno.h>
#include <stdlib.h>

#include "policies.h"
#include "search.h"
#include "banned.h"

struct search_policy {
    struct policy base;
    struct search_result found;
    size_t at; /* in found.actions */
};

static struct search_policy *search(struct policy *p)
{
    return (struct search_policy *)p;
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct search_policy *s = search(p);
    struct gym_env *own = NULL;
    s->at = 0;
    if (s->found.actions)
        return 0;
    int r = env_fork(e, &own, err);
    if (r == 0)
        r = search_best(own, SEARCH_STATES_MAX, &s->found, err);
    env_close(own);
    return r;
}

static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct search_policy *s = search(p);
    *ret_number =
        s->at < s->found.count ? s->found.actions[s->at++] : task_actions(env_task(e)) - 1;
    return 0;
}

static void release(struct policy *p)
{
    search_result_free(&search(p)->found);
    free(p);
}

static int open_search(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct search_policy *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->base = (struct policy){.kind = k, .begin = begin, .choose = choose, .free = release};
    *ret = &s->base;
    return 0;
}

const struct policy_kind policy_search = {.name = "search",
                                          .summary =
                                              "the best sequence of all, found by trying them",
                                          .discrete = true,
                                          .open = open_search};
