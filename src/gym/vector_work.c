/* What the threads of a vector do: an action of an environment, and the next one. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "vector_private.h"
#include "banned.h"

/* An episode that ended begins again with the next action, which is not carried out; its seed is
 * the next one. */
static bool is_reset(const struct gym_vector *v, const struct slot *s)
{
    return s->action.reset || (v->autoreset && s->over);
}

static int carry_out(const struct gym_vector *v, struct slot *s, struct gym_step *step,
                     struct error *err)
{
    if (is_reset(v, s)) {
        s->seed = s->action.reset ? s->action.seed : s->seed + 1;
        return env_reset(s->env, s->seed, step, err);
    }
    if (s->tool)
        return env_step(s->env, s->tool, s->action.input, step, err);
    return env_act(s->env, s->action.number, step, err);
}

/* A mistake of the caller's (-EINVAL) leaves the episode as it is; after any other error there is
 * none. */
static bool ends(const struct slot *s, const struct vector_result *r)
{
    if (r->code == -EINVAL)
        return s->over;
    return r->code < 0 || r->step.terminated || r->step.truncated;
}

static void work_on(struct gym_vector *v, struct slot *s)
{
    struct error err = {0};
    struct vector_result *r = &s->result;
    *r = (struct vector_result){.env = (size_t)(s - v->slots), .reset = is_reset(v, s)};
    r->code = carry_out(v, s, &r->step, &err);
    if (r->code < 0) {
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.text);
        r->step = (struct gym_step){.pass_rate = NAN};
    }
    s->over = ends(s, r);
    env_episode(s->env, &r->episode);
    slot_drop_action(s);
}

void *vector_work(void *data)
{
    struct gym_vector *v = data;
    uselocale(newlocale(LC_ALL_MASK, "C", NULL)); /* the program's may write numbers with a comma */
    pthread_mutex_lock(&v->lock);
    while (!v->closing) {
        struct slot *s = slots_take(&v->waiting);
        if (!s) {
            pthread_cond_wait(&v->sent, &v->lock);
            continue;
        }
        s->state = SLOT_WORKING;
        pthread_mutex_unlock(&v->lock);
        work_on(v, s);
        pthread_mutex_lock(&v->lock);
        s->state = SLOT_DONE;
        v->under_way--;
        slots_put(&v->done, s);
        pthread_cond_broadcast(&v->changed);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}
