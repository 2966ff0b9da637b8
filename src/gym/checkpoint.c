#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint.h"
#include "put_file.h"
#include "banned.h"

void checkpoint_free(struct checkpoint *c)
{
    qtable_free(&c->table);
}

static json_t *dice_json(const struct dice *d)
{
    char text[17];
    json_t *list = json_array();
    for (unsigned i = 0; i < ARRAY_SIZE(d->state); i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)d->state[i]);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static json_t *states_json(const struct feature_map *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->count; i++) {
        json_t *vector = json_array();
        for (size_t f = 0; f < m->width; f++)
            json_array_append_new(vector, json_integer(feature_map_key(m, i)[f]));
        json_array_append_new(list, vector);
    }
    return list;
}

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *prices_json(const struct qtable *q)
{
    json_t *list = json_array();
    for (size_t a = 0; a < q->actions; a++)
        json_array_append_new(list, q->prices[a] < 0 ? json_null() : json_real(q->prices[a]));
    return list;
}

/* [state, action, reward, next or null, value or null, hope or null] */
static json_t *tried_json(const struct qtable *q)
{
    json_t *list = json_array();
    for (size_t i = 0; i < q->n_tried; i++) {
        size_t state = q->tried[i] / q->actions, action = q->tried[i] % q->actions;
        const struct qtable_entry *e = qtable_entry(q, state, action);
        json_t *next = e->next == QTABLE_END ? json_null() : json_integer(e->next);
        json_array_append_new(list, json_pack("[I, I, f, o, o, o]", (json_int_t)state,
                                              (json_int_t)action, e->reward, next,
                                              real_or_null(e->value), real_or_null(e->hope)));
    }
    return list;
}

static json_t *options_json(const struct checkpoint_options *o)
{
    return json_pack("{s:f, s:f, s:I, s:f, s:f}", "epsilon_start", o->epsilon_start, "epsilon_end",
                     o->epsilon_end, "epsilon_decay", (json_int_t)o->epsilon_decay, "alpha",
                     o->alpha, "gamma", o->gamma);
}

json_t *checkpoint_json(const struct checkpoint *c)
{
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "version",
                     CHECKPOINT_VERSION, "agent", "qlearn", "task", c->task, "digest", c->digest,
                     "seed", (json_int_t)c->seed, "episodes", (json_int_t)c->episodes, "options",
                     options_json(&c->options), "dice", dice_json(&c->dice), "features",
                     (json_int_t)c->table.states.width, "actions", (json_int_t)c->table.actions,
                     "prices", prices_json(&c->table), "states", states_json(&c->table.states),
                     "tried", tried_json(&c->table));
}

/* JSON values of its two lists, about. */
static size_t values_of(const struct qtable *q)
{
    return q->states.count * (q->states.width + 1) + q->n_tried * 7;
}

int checkpoint_save(const struct checkpoint *c, const char *path, struct error *err)
{
    if (values_of(&c->table) + 100 > CHECKPOINT_VALUES_MAX)
        return error_set(err, EFBIG, "the table is too large for a checkpoint: %zu states",
                         c->table.states.count);
    json_t *o = checkpoint_json(c);
    _cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(o);
    if (!text)
        return error_set(err, ENOMEM, "no memory for the checkpoint");
    return put_file(path, text, strlen(text), err);
}
