/* Environments, alone and in vectors. The texts of the last steps live in the handle until the next
 * call that gives steps. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "entry.h"
#include "lib_gym.h"
#include "banned.h"

/* What a step's pointers point to. */
struct step_texts {
    char *observation, *info;
    int64_t *features;
};

static void step_texts_free(struct step_texts *t)
{
    free(t->observation);
    free(t->info);
    free(t->features);
    *t = (struct step_texts){0};
}

/* Makes `s` what a caller sees; `e` is the environment right after it. */
static int step_show(const struct gym_step *s, const struct gym_env *e, struct step_texts *texts,
                     struct hutch_step *ret, struct error *err)
{
    size_t n_features = task_features(env_task(e));
    struct gym_episode episode;
    step_texts_free(texts);
    int r = json_give(s->observation ? json_incref(s->observation) : json_null(),
                      &texts->observation, err);
    if (r == 0)
        r = json_give(s->info ? json_incref(s->info) : json_object(), &texts->info, err);
    texts->features = calloc(n_features + 1, sizeof *texts->features);
    if (r == 0 && !texts->features)
        r = error_set(err, ENOMEM, "no memory for the result");
    if (r < 0) {
        step_texts_free(texts);
        return r;
    }
    env_features(e, texts->features, n_features);
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
    int cancel;        /* eventfd: readable ends the step that runs */
    atomic_bool stale; /* a step was interrupted: the episode is void until the next reset */
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
static int env_call_end(struct entry *e, hutch_env *env, int r, struct gym_step *s,
                        struct hutch_step *ret)
{
    if (r == 0)
        r = env_need_whole(e, env);
    if (r == 0)
        r = step_show(s, env->env, &env->texts, ret, &e->error);
    gym_step_free(s);
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
    struct gym_step s = {0};
    eventfd_t seen;
    int r = env_call_begin(&e, env, ret, err);
    if (r == 0) {
        env->stale = false;
        eventfd_read(env->cancel, &seen);
        r = env_reset(env->env, seed, &s, &e.error);
    }
    return env_call_end(&e, env, r, &s, ret);
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

struct hutch_vector {
    struct handle handle;
    hutch_arena *arena;
    struct gym_vector *vector;
    struct vector_result *results; /* as many as environments: what was received last */
    struct step_texts *texts;
    size_t n_texts;
};

static void vector_free_texts(hutch_vector *v)
{
    for (size_t i = 0; i < v->n_texts; i++) {
        step_texts_free(&v->texts[i]);
        vector_result_free(&v->results[i]);
    }
    v->n_texts = 0;
}

static void vector_free_handle(hutch_vector *v)
{
    vector_close(v->vector);
    if (v->results && v->texts)
        vector_free_texts(v);
    free(v->results);
    free(v->texts);
    arena_unref(v->arena);
    free(v);
}

int hutch_vector_open(hutch_arena *a, size_t n, size_t threads, int autoreset, hutch_vector **ret,
                      struct hutch_error *err)
{
    struct entry e;
    struct vector_options o = {.n = n, .threads = threads, .autoreset = autoreset != 0};
    hutch_vector *v = NULL;
    int r = entry_begin(&e, a, HANDLE_ARENA, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0 && !(v = calloc(1, sizeof *v)))
        r = error_set(&e.error, ENOMEM, "no memory");
    if (r < 0)
        return entry_end(&e, r);
    v->handle = handle_new(HANDLE_VECTOR);
    v->arena = arena_ref(a);
    r = vector_open(a->arena, &o, &v->vector, &e.error);
    if (r == 0) {
        v->results = calloc(n, sizeof *v->results);
        v->texts = calloc(n, sizeof *v->texts);
        if (!v->results || !v->texts)
            r = error_set(&e.error, ENOMEM, "no memory");
    }
    if (r < 0)
        vector_free_handle(v);
    else
        *ret = v;
    return entry_end(&e, r);
}

static void vector_handle_stop(void *handle)
{
    vector_stop(((hutch_vector *)handle)->vector);
}

void hutch_vector_close(hutch_vector *v)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(v, HANDLE_VECTOR, vector_handle_stop))
        vector_free_handle(v);
    entry_end(&e, 0);
}

int hutch_vector_interrupt(hutch_vector *v, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, v, HANDLE_VECTOR, err);
    if (r == 0)
        vector_interrupt(v->vector);
    return entry_end(&e, r);
}

static int vector_call_send(hutch_vector *v, const struct hutch_action *actions, size_t n,
                            struct error *err)
{
    if (n > vector_size(v->vector))
        return error_set(err, EBUSY, "%zu actions for %zu environments", n, vector_size(v->vector));
    _cleanup_free_ struct vector_action *copy = calloc(n + 1, sizeof *copy);
    if (!copy)
        return error_set(err, ENOMEM, "no memory");
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct hutch_action *a = &actions[i];
        const char *input = a->input ? a->input : a->tool ? "{}" : NULL;
        copy[i] = (struct vector_action){.env = a->env,
                                         .reset = a->reset != 0,
                                         .seed = a->seed,
                                         .number = a->action,
                                         .tool = a->tool};
        r = json_take_object("input", input, &copy[i].input, err);
        if (r < 0)
            error_wrap(err, "action %zu", i);
    }
    if (r == 0)
        r = vector_send(v->vector, copy, n, err);
    for (size_t i = 0; i < n; i++)
        json_decref(copy[i].input);
    return r;
}

int hutch_vector_send(hutch_vector *v, const struct hutch_action *actions, size_t n,
                      struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, v, HANDLE_VECTOR, err);
    if (r == 0 && n)
        r = entry_need(&e, actions, "actions");
    if (r == 0)
        r = vector_call_send(v, actions, n, &e.error);
    return entry_end(&e, r);
}

/* Of a failed environment, the text is a JSON string in the place of the observation. */
static void vector_show(hutch_vector *v, size_t i, struct hutch_step *ret, struct error *err)
{
    const struct vector_result *r = &v->results[i];
    struct step_texts *texts = &v->texts[i];
    int e;
    if (r->code < 0) {
        e = json_give(json_string(r->text), &texts->observation, err);
        *ret = (struct hutch_step){.pass_rate = NAN,
                                   .code = r->code,
                                   .observation = texts->observation,
                                   .episode_return = r->episode.total};
    } else {
        e = step_show(&r->step, vector_env(v->vector, r->env), texts, ret, err);
    }
    if (e < 0)
        *ret = (struct hutch_step){.pass_rate = NAN, .code = e}; /* it is received all the same */
    ret->env = (uint32_t)r->env;
    ret->reset = r->reset;
}

static long vector_call_receive(hutch_vector *v, size_t min, size_t max, int timeout_ms,
                                struct hutch_step *ret, struct error *err)
{
    size_t room = max < vector_size(v->vector) ? max : vector_size(v->vector);
    vector_free_texts(v);
    ssize_t n = vector_recv(v->vector, min, room, timeout_ms, v->results, err);
    for (ssize_t i = 0; i < n; i++) {
        v->n_texts++;
        vector_show(v, (size_t)i, &ret[i], err);
    }
    return (long)n;
}

long hutch_vector_recv(hutch_vector *v, size_t min, size_t max, int timeout_ms,
                       struct hutch_step *ret, struct hutch_error *err)
{
    struct entry e;
    long n = 0;
    int r = entry_begin(&e, v, HANDLE_VECTOR, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0) {
        n = vector_call_receive(v, min, max, timeout_ms, ret, &e.error);
        r = n < 0 ? (int)n : 0;
    }
    entry_end(&e, r);
    return r < 0 ? r : n;
}
