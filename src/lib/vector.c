/* Many environments at once. The texts of received steps live in the handle until the next recv. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "lib_gym.h"
#include "banned.h"

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

static int vector_open_handle(hutch_arena *a, const struct vector_options *o, hutch_vector **ret,
                              struct error *err)
{
    hutch_vector *v = calloc(1, sizeof *v);
    if (!v)
        return error_set(err, ENOMEM, "no memory");
    v->handle = handle_new(HANDLE_VECTOR);
    v->arena = arena_ref(a);
    int r = vector_open(a->arena, o, &v->vector, err);
    if (r == 0) {
        v->results = calloc(o->n, sizeof *v->results);
        v->texts = calloc(o->n, sizeof *v->texts);
        if (!v->results || !v->texts)
            r = error_set(err, ENOMEM, "no memory");
    }
    if (r < 0)
        vector_free_handle(v);
    else
        *ret = v;
    return r;
}

int hutch_vector_open(hutch_arena *a, size_t n, size_t threads, int autoreset, hutch_vector **ret,
                      struct hutch_error *err)
{
    struct entry e;
    struct vector_options o = {.n = n, .threads = threads, .autoreset = autoreset != 0};
    int r = entry_begin(&e, a, HANDLE_ARENA, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = vector_open_handle(a, &o, ret, &e.error);
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

static int vector_parse_actions(const struct hutch_action *from, size_t n, struct vector_action *to,
                                struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (struct vector_action){.env = from[i].env,
                                       .reset = from[i].reset != 0,
                                       .seed = from[i].seed,
                                       .number = from[i].action,
                                       .tool = from[i].tool};
        const char *input = from[i].input ? from[i].input : from[i].tool ? "{}" : NULL;
        int r = json_take_object("input", input, &to[i].input, err);
        if (r < 0)
            return error_wrap(err, "action %zu", i);
    }
    return 0;
}

static int vector_call_send(hutch_vector *v, const struct hutch_action *actions, size_t n,
                            struct error *err)
{
    if (n > vector_size(v->vector))
        return error_set(err, EBUSY, "%zu actions for %zu environments", n, vector_size(v->vector));
    _cleanup_free_ struct vector_action *copy = calloc(n + 1, sizeof *copy);
    if (!copy)
        return error_set(err, ENOMEM, "no memory");
    int r = vector_parse_actions(actions, n, copy, err);
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

/* An environment's failure is its result's, with the text as a JSON string where the observation
 * would be. */
static int vector_show_failure(const struct vector_result *r, struct step_texts *texts,
                               struct hutch_step *ret, struct error *err)
{
    int e = json_give(json_string(r->text), &texts->observation, err);
    *ret = (struct hutch_step){.pass_rate = NAN,
                               .code = r->code,
                               .observation = texts->observation,
                               .episode_return = r->episode.total};
    return e;
}

static int vector_show(hutch_vector *v, size_t i, struct hutch_step *ret, struct error *err)
{
    const struct vector_result *r = &v->results[i];
    int e = r->code < 0
                ? vector_show_failure(r, &v->texts[i], ret, err)
                : step_show(&r->step, vector_env(v->vector, r->env), &v->texts[i], ret, err);
    if (e < 0)
        *ret = (struct hutch_step){.pass_rate = NAN, .code = e}; /* it is received all the same */
    ret->env = (uint32_t)r->env;
    ret->reset = r->reset;
    return 0;
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
