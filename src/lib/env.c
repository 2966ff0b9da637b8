/* One environment. Its step's texts live in the handle until the next call. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "entry.h"
#include "lib_gym.h"
#include "banned.h"

void step_texts_free(struct step_texts *t)
{
    free(t->observation);
    free(t->info);
    free(t->features);
    *t = (struct step_texts){0};
}

static int step_make_texts(const struct gym_step *s, const struct gym_env *e, size_t n_features,
                           struct step_texts *ret, struct error *err)
{
    int r = json_give(s->observation ? json_incref(s->observation) : json_null(), &ret->observation,
                      err);
    if (r == 0)
        r = json_give(s->info ? json_incref(s->info) : json_object(), &ret->info, err);
    ret->features = calloc(n_features + 1, sizeof *ret->features);
    if (r == 0 && !ret->features)
        r = error_set(err, ENOMEM, "no memory for the result");
    if (r == 0)
        env_features(e, ret->features, n_features);
    return r;
}

int step_show(const struct gym_step *s, const struct gym_env *e, struct step_texts *texts,
              struct hutch_step *ret, struct error *err)
{
    size_t n_features = task_features(env_task(e));
    struct gym_episode episode;
    step_texts_free(texts);
    int r = step_make_texts(s, e, n_features, texts, err);
    if (r < 0) {
        step_texts_free(texts);
        return r;
    }
    env_episode(e, &episode);
    *ret = (struct hutch_step){.number = s->number,
                               .reward = s->reward,
                               .pass_rate = s->pass_rate,
                               .seconds = s->seconds,
                               .episode_return = episode.total,
                               .terminated = s->terminated,
                               .truncated = s->truncated,
                               .observation = texts->observation,
                               .info = texts->info,
                               .features = texts->features,
                               .n_features = n_features};
    return 0;
}

struct hutch_env {
    struct handle handle;
    hutch_arena *arena;
    struct gym_env *env;
    struct step_texts texts;
    int cancel; /* eventfd: readable ends the step that runs */
    atomic_bool
        stale; /* a step was interrupted: the episode is worth nothing until the next reset */
};

/* Takes the environment over. */
static int env_new_handle(hutch_arena *a, struct gym_env *env, hutch_env **ret, struct error *err)
{
    hutch_env *e = calloc(1, sizeof *e);
    int cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!e || cancel < 0) {
        int code = e ? errno : ENOMEM;
        if (cancel >= 0)
            close(cancel);
        free(e);
        env_close(env);
        return error_errno(err, code, "cannot make the environment's handle");
    }
    e->handle = handle_new(HANDLE_ENV);
    e->arena = arena_ref(a);
    e->env = env;
    e->cancel = cancel;
    env_cancel_on(env, cancel);
    *ret = e;
    return 0;
}

int hutch_env_open(hutch_arena *a, hutch_env **ret, struct hutch_error *err)
{
    struct entry e;
    struct gym_env *env = NULL;
    int r = entry_begin(&e, a, HANDLE_ARENA, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = env_open(a->arena, &env, &e.error);
    if (r == 0)
        r = env_new_handle(a, env, ret, &e.error);
    return entry_end(&e, r);
}

static void env_end_step(void *handle)
{
    hutch_env *env = handle;
    env->stale = true;
    eventfd_write(env->cancel, 1);
}

void hutch_env_close(hutch_env *env)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(env, HANDLE_ENV, env_end_step)) {
        env_close(env->env);
        close(env->cancel);
        step_texts_free(&env->texts);
        arena_unref(env->arena);
        free(env);
    }
    entry_end(&e, 0);
}

static int env_call_begin(struct entry *e, hutch_env *env, const struct hutch_step *ret,
                          struct hutch_error *out)
{
    int r = entry_begin(e, env, HANDLE_ENV, out);
    return r < 0 ? r : entry_need(e, ret, "ret");
}

/* A step, or a fork, needs an episode that was not interrupted. */
static int env_need_whole(struct entry *e, const hutch_env *env)
{
    return env->stale ? error_set(&e->error, ECANCELED,
                                  "a step was interrupted: reset the environment first")
                      : 0;
}

/* The end of whatever gives a step. */
static int env_call_end(struct entry *e, hutch_env *env, int r, struct gym_step *env_call_step,
                        struct hutch_step *ret)
{
    if (r == 0)
        r = env_need_whole(e, env);
    if (r == 0)
        r = step_show(env_call_step, env->env, &env->texts, ret, &e->error);
    gym_step_free(env_call_step);
    return entry_end(e, r);
}

int hutch_env_interrupt(hutch_env *env, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, env, HANDLE_ENV, err);
    if (r == 0)
        env_end_step(env);
    return entry_end(&e, r);
}

int hutch_env_reset(hutch_env *env, uint64_t seed, struct hutch_step *ret, struct hutch_error *err)
{
    struct entry e;
    struct gym_step env_call_step = {0};
    eventfd_t seen;
    int r = env_call_begin(&e, env, ret, err);
    if (r == 0) {
        env->stale = false;
        eventfd_read(env->cancel, &seen);
        r = env_reset(env->env, seed, &env_call_step, &e.error);
    }
    return env_call_end(&e, env, r, &env_call_step, ret);
}

static int env_call_step(hutch_env *env, const char *tool, const char *input, bool known,
                         struct hutch_step *ret, struct hutch_error *err)
{
    struct entry e;
    struct gym_step s = {0};
    _cleanup_json_ json_t *object = NULL;
    int r = env_call_begin(&e, env, ret, err);
    if (r == 0)
        r = env_need_whole(&e, env);
    if (r == 0)
        r = entry_need(&e, tool, "tool");
    if (r == 0)
        r = json_take_object("input", input ? input : "{}", &object, &e.error);
    if (r == 0)
        r = (known ? env_step_known : env_step)(env->env, tool, object, &s, &e.error);
    return env_call_end(&e, env, r, &s, ret);
}

static int env_call_act(hutch_env *env, size_t action, bool known, struct hutch_step *ret,
                        struct hutch_error *err)
{
    struct entry e;
    struct gym_step s = {0};
    int r = env_call_begin(&e, env, ret, err);
    if (r == 0)
        r = env_need_whole(&e, env);
    if (r == 0)
        r = (known ? env_act_known : env_act)(env->env, action, &s, &e.error);
    return env_call_end(&e, env, r, &s, ret);
}

int hutch_env_step(hutch_env *env, const char *tool, const char *input, struct hutch_step *ret,
                   struct hutch_error *err)
{
    return env_call_step(env, tool, input, false, ret, err);
}

int hutch_env_step_known(hutch_env *env, const char *tool, const char *input,
                         struct hutch_step *ret, struct hutch_error *err)
{
    return env_call_step(env, tool, input, true, ret, err);
}

int hutch_env_act(hutch_env *env, size_t action, struct hutch_step *ret, struct hutch_error *err)
{
    return env_call_act(env, action, false, ret, err);
}

int hutch_env_act_known(hutch_env *env, size_t action, struct hutch_step *ret,
                        struct hutch_error *err)
{
    return env_call_act(env, action, true, ret, err);
}

int hutch_env_fork(hutch_env *env, hutch_env **ret, struct hutch_error *err)
{
    struct entry e;
    struct gym_env *copy = NULL;
    int r = entry_begin(&e, env, HANDLE_ENV, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = env_need_whole(&e, env);
    if (r == 0)
        r = env_fork(env->env, &copy, &e.error);
    if (r == 0)
        r = env_new_handle(env->arena, copy, ret, &e.error);
    return entry_end(&e, r);
}
