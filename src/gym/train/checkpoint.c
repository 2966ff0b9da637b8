#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"
#include "env.h"
#include "io.h"
#include "json.h"
#include "train.h"
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

/*
 * Reading a checkpoint. The file may be anybody's: everything in it is bounded and checked before
 * it counts, so that what was read is a table like any other, however wrong its numbers may be.
 */

#define NUMBER_MAX 1e9 /* of a reward or an estimate */

struct reading {
    const struct task *task;
    const json_t *o;
    const char *name;
    struct error *err;
};

static int bad(const struct reading *r, const char *what)
{
    return error_set(r->err, EINVAL, "%s: %s", r->name, what);
}

/* A whole number from 0 to max. */
static bool whole(const json_t *v, uint64_t max, uint64_t *ret)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > max)
        return false;
    *ret = (uint64_t)n;
    return true;
}

static bool number(const json_t *v, double min, double max, double *ret)
{
    double n = json_number_value(v);
    if (!json_is_number(v) || !(n >= min && n <= max))
        return false;
    *ret = n;
    return true;
}

static bool number_or(const json_t *v, double null, double *ret)
{
    if (json_is_null(v))
        *ret = null;
    return json_is_null(v) || number(v, -NUMBER_MAX, NUMBER_MAX, ret);
}

static const char *text_of(const struct reading *r, const char *name)
{
    const char *text = json_string_value(json_object_get(r->o, name));
    return text ? text : "";
}

static int read_head(const struct reading *r, struct checkpoint *c)
{
    uint64_t version = 0, features = 0, actions = 0;
    const struct task *t = r->task;
    if (!whole(json_object_get(r->o, "version"), UINT32_MAX, &version) ||
        strcmp(text_of(r, "agent"), "qlearn") != 0)
        return bad(r, "not a checkpoint of qlearn");
    if (version != CHECKPOINT_VERSION)
        return bad(r, "this checkpoint was written by another version of hutch");
    if (strcmp(text_of(r, "task"), t->name) != 0)
        return error_set(r->err, EINVAL, "%s: was trained on the task %.64s, not on %s", r->name,
                         text_of(r, "task"), t->name);
    if (strcmp(text_of(r, "digest"), t->digest) != 0)
        return error_set(r->err, EINVAL, "%s: the task %s has changed since this was trained",
                         r->name, t->name);
    if (!whole(json_object_get(r->o, "features"), UINT32_MAX, &features) ||
        features != task_features(t) ||
        !whole(json_object_get(r->o, "actions"), UINT32_MAX, &actions) ||
        actions != task_actions(t))
        return bad(r, "features, actions: not those of the task");
    if (!whole(json_object_get(r->o, "seed"), INT64_MAX, &c->seed) ||
        !whole(json_object_get(r->o, "episodes"), INT64_MAX, &c->episodes))
        return bad(r, "seed, episodes: must be whole numbers");
    memcpy(c->digest, t->digest, sizeof c->digest);
    memcpy(c->task, t->name, sizeof c->task);
    return 0;
}

static int read_options(const struct reading *r, struct checkpoint_options *o)
{
    const json_t *v = json_object_get(r->o, "options");
    if (!number(json_object_get(v, "epsilon_start"), 0, 1, &o->epsilon_start) ||
        !number(json_object_get(v, "epsilon_end"), 0, 1, &o->epsilon_end) ||
        !number(json_object_get(v, "alpha"), 0, 1, &o->alpha) ||
        !number(json_object_get(v, "gamma"), 0, 1, &o->gamma) ||
        !whole(json_object_get(v, "epsilon_decay"), INT64_MAX, &o->epsilon_decay))
        return bad(
            r, "options: epsilon_start, epsilon_end, alpha and gamma must be numbers from 0 to 1, "
               "epsilon_decay a whole number");
    return 0;
}

static int read_dice(const struct reading *r, struct dice *d)
{
    const json_t *list = json_object_get(r->o, "dice");
    uint64_t any = 0;
    bool good = json_array_size(list) == ARRAY_SIZE(d->state);
    for (size_t i = 0; good && i < ARRAY_SIZE(d->state); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        good = text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
        if (good)
            any |= d->state[i] = strtoull(text, NULL, 16);
    }
    return good && any
               ? 0
               : bad(r, "dice: must be four numbers of 16 hexadecimal digits, not all zero");
}

static int read_prices(const struct reading *r, struct qtable *q)
{
    const json_t *list = json_object_get(r->o, "prices");
    bool good = json_array_size(list) == q->actions;
    for (size_t a = 0; good && a < q->actions; a++) {
        double price = -1;
        const json_t *v = json_array_get(list, a);
        good = json_is_null(v) || number(v, 0, NUMBER_MAX, &price);
        qtable_restore_price(q, a, price);
    }
    return good ? 0 : bad(r, "prices: must be a number or null for each action");
}

static int read_states(const struct reading *r, struct qtable *q)
{
    const json_t *list = json_object_get(r->o, "states");
    size_t width = q->states.width, i;
    json_t *vector;
    _cleanup_free_ int64_t *key = calloc(width + 1, sizeof *key);
    if (!key || !json_is_array(list))
        return key ? bad(r, "states: must be a list") : bad(r, "no memory");
    json_array_foreach((json_t *)list, i, vector)
    {
        if (json_array_size(vector) != width)
            return bad(r, "states: each must have all features");
        for (size_t f = 0; f < width; f++) {
            if (!json_is_integer(json_array_get(vector, f)))
                return bad(r, "states: features must be whole numbers");
            key[f] = json_integer_value(json_array_get(vector, f));
        }
        ssize_t at = qtable_state(q, key);
        if (at != (ssize_t)i)
            return bad(r, at < 0 ? "too many states" : "states: duplicate state");
    }
    return 0;
}

static const char *read_entry(struct qtable *q, const json_t *v)
{
    struct qtable_entry e = {.next = QTABLE_END};
    uint64_t state, action, next = 0;
    size_t n = q->states.count;
    const json_t *to = json_array_get(v, 3);
    if (json_array_size(v) != 6 || n == 0 || !whole(json_array_get(v, 0), n - 1, &state) ||
        !whole(json_array_get(v, 1), q->actions - 1, &action) ||
        !(json_is_null(to) || whole(to, n - 1, &next)))
        return "tried: must be lists of state, action, reward, next state, value, hope";
    if (!number(json_array_get(v, 2), -NUMBER_MAX, NUMBER_MAX, &e.reward) ||
        !number_or(json_array_get(v, 4), NAN, &e.value) ||
        !number_or(json_array_get(v, 5), -INFINITY, &e.hope))
        return "tried: a reward or an estimate is not a number or out of range";
    if (qtable_entry(q, state, action)->next != QTABLE_UNTRIED)
        return "tried: duplicate action for a state";
    if (!json_is_null(to))
        e.next = (int32_t)next;
    return qtable_restore(q, state, action, &e) < 0 ? "no memory" : NULL;
}

static int read_tried(const struct reading *r, struct qtable *q)
{
    const json_t *list = json_object_get(r->o, "tried");
    const char *wrong = json_is_array(list) ? NULL : "tried: must be a list";
    for (size_t i = 0; !wrong && i < json_array_size(list); i++)
        wrong = read_entry(q, json_array_get(list, i));
    return wrong ? bad(r, wrong) : 0;
}

static int read_all(const struct reading *r, struct checkpoint *c)
{
    struct dice first;
    int done = read_head(r, c);
    if (done == 0)
        done = read_options(r, &c->options);
    if (done == 0)
        done = read_dice(r, &c->dice);
    if (done < 0)
        return done;
    dice_seed(&first, c->seed);
    struct qtable_options o = {.features = task_features(r->task),
                               .actions = task_actions(r->task),
                               .alpha = c->options.alpha,
                               .gamma = c->options.gamma,
                               .price = r->task->call_price,
                               .dice = &first};
    done = qtable_init(&c->table, &o) < 0 ? bad(r, "no memory") : 0;
    if (done == 0)
        done = read_prices(r, &c->table);
    if (done == 0)
        done = read_states(r, &c->table);
    return done == 0 ? read_tried(r, &c->table) : done;
}

int checkpoint_parse(const struct task *t, const char *text, size_t n, const char *name,
                     struct checkpoint *ret, struct error *err)
{
    json_error_t at;
    struct checkpoint c = {0};
    if (json_count_values(text, n, CHECKPOINT_VALUES_MAX) > CHECKPOINT_VALUES_MAX)
        return error_set(err, EFBIG, "%s: the checkpoint is too large", name);
    json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!o)
        return error_set(err, EINVAL, "%s:%d: not JSON: %s", name, at.line, at.text);
    struct reading r = {.task = t, .o = o, .name = name, .err = err};
    int done = read_all(&r, &c);
    json_decref(o);
    if (done < 0) {
        checkpoint_free(&c);
        return done;
    }
    *ret = c;
    return 0;
}

int checkpoint_load(const struct task *t, const char *path, struct checkpoint *ret,
                    struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_BYTES_MAX);
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read the checkpoint %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "the checkpoint %s is not a file", path);
    int r = io_read_all(fd, &text);
    if (r < 0)
        return error_errno(err, r == -ENOBUFS ? EFBIG : -r, "cannot read the checkpoint %s", path);
    return checkpoint_parse(t, text.len ? (const char *)text.data : "", text.len, path, ret, err);
}
