/*
 * Checkpoints are written, and read with every value checked: whatever the file says, the result is
 * a consistent table.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"
#include "io.h"
#include "json.h"
#include "train.h"
#include "banned.h"

#define NUMBER_MAX 1e9 /* of a reward or an estimate */

void checkpoint_free(struct checkpoint *c)
{
    qtable_free(&c->table);
}

static json_t *number_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *checkpoint_json(const struct checkpoint *c)
{
    const struct checkpoint_options *o = &c->options;
    const struct qtable *q = &c->table;
    json_t *dice = json_array(), *prices = json_array(), *states = json_array(),
           *tried = json_array();
    for (unsigned i = 0; i < ARRAY_SIZE(c->dice.state); i++) {
        char text[17];
        snprintf(text, sizeof text, "%016llx", (unsigned long long)c->dice.state[i]);
        json_array_append_new(dice, json_string(text));
    }
    for (size_t a = 0; a < q->actions; a++)
        json_array_append_new(prices, q->prices[a] < 0 ? json_null() : json_real(q->prices[a]));
    for (size_t i = 0; i < q->states.count; i++) {
        json_t *features = json_array();
        for (size_t f = 0; f < q->states.width; f++)
            json_array_append_new(features, json_integer(feature_map_key(&q->states, i)[f]));
        json_array_append_new(states, features);
    }
    for (size_t i = 0; i < q->n_tried; i++) {
        size_t state = q->tried[i] / q->actions, action = q->tried[i] % q->actions;
        const struct qtable_entry *e = qtable_entry(q, state, action);
        json_t *next = e->next == QTABLE_END ? json_null() : json_integer(e->next);
        json_array_append_new(tried, json_pack("[I, I, f, o, o, o]", (json_int_t)state,
                                               (json_int_t)action, e->reward, next,
                                               number_or_null(e->value), number_or_null(e->hope)));
    }
    json_t *options = json_pack("{s:f, s:f, s:I, s:f, s:f}", "epsilon_start", o->epsilon_start,
                                "epsilon_end", o->epsilon_end, "epsilon_decay",
                                (json_int_t)o->epsilon_decay, "alpha", o->alpha, "gamma", o->gamma);
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "version",
                     CHECKPOINT_VERSION, "agent", "qlearn", "task", c->task, "digest", c->digest,
                     "seed", (json_int_t)c->seed, "episodes", (json_int_t)c->episodes, "options",
                     options, "dice", dice, "features", (json_int_t)q->states.width, "actions",
                     (json_int_t)q->actions, "prices", prices, "states", states, "tried", tried);
}

int checkpoint_save(const struct checkpoint *c, const char *path, struct error *err)
{
    const struct qtable *q = &c->table;
    size_t values = q->states.count * (q->states.width + 1) + q->n_tried * 7 + 100;
    if (values > CHECKPOINT_VALUES_MAX)
        return error_set(err, EFBIG, "the table is too large for a checkpoint: %zu states",
                         q->states.count);
    json_t *o = checkpoint_json(c);
    _cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(o);
    if (!text)
        return error_set(err, ENOMEM, "no memory for the checkpoint");
    return put_file(path, text, strlen(text), err);
}

/* A whole number from 0 to max. */
static bool get_whole(const json_t *v, uint64_t max, uint64_t *ret)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > max)
        return false;
    *ret = (uint64_t)n;
    return true;
}

static bool get_number(const json_t *v, double min, double max, double *ret)
{
    double n = json_number_value(v);
    if (!json_is_number(v) || !(n >= min && n <= max))
        return false;
    *ret = n;
    return true;
}

static bool get_number_or_null(const json_t *v, double null, double *ret)
{
    if (json_is_null(v))
        *ret = null;
    return json_is_null(v) || get_number(v, -NUMBER_MAX, NUMBER_MAX, ret);
}

/* These read parts of a checkpoint and return what is wrong with it; NULL: nothing. */

static const char *read_head(const json_t *o, const struct task *t, struct checkpoint *c,
                             char *room, size_t size)
{
    uint64_t version = 0, features = 0, actions = 0;
    const char *task = json_get_string_or(o, "task", "");
    if (!get_whole(json_object_get(o, "version"), UINT32_MAX, &version) ||
        strcmp(json_get_string_or(o, "agent", ""), "qlearn") != 0)
        return "not a checkpoint of qlearn";
    if (version != CHECKPOINT_VERSION)
        return "this checkpoint was written by another version of hutch";
    snprintf(room, size, "was trained on the task %.64s, not on %s", task, t->name);
    if (strcmp(task, t->name) != 0)
        return room;
    snprintf(room, size, "the task %s has changed since this was trained", t->name);
    if (strcmp(json_get_string_or(o, "digest", ""), t->digest) != 0)
        return room;
    if (!get_whole(json_object_get(o, "features"), UINT32_MAX, &features) ||
        features != task_features(t) ||
        !get_whole(json_object_get(o, "actions"), UINT32_MAX, &actions) ||
        actions != task_actions(t))
        return "features, actions: not those of the task";
    if (!get_whole(json_object_get(o, "seed"), INT64_MAX, &c->seed) ||
        !get_whole(json_object_get(o, "episodes"), INT64_MAX, &c->episodes))
        return "seed, episodes: must be whole numbers";
    memcpy(c->digest, t->digest, sizeof c->digest);
    memcpy(c->task, t->name, sizeof c->task);
    return NULL;
}

static const char *read_options(const json_t *o, struct checkpoint *c)
{
    const json_t *v = json_object_get(o, "options"), *dice = json_object_get(o, "dice");
    struct checkpoint_options *to = &c->options;
    if (!get_number(json_object_get(v, "epsilon_start"), 0, 1, &to->epsilon_start) ||
        !get_number(json_object_get(v, "epsilon_end"), 0, 1, &to->epsilon_end) ||
        !get_number(json_object_get(v, "alpha"), 0, 1, &to->alpha) ||
        !get_number(json_object_get(v, "gamma"), 0, 1, &to->gamma) ||
        !get_whole(json_object_get(v, "epsilon_decay"), INT64_MAX, &to->epsilon_decay))
        return "options: epsilon_start, epsilon_end, alpha and gamma must be numbers from 0 to 1, "
               "epsilon_decay a whole number";
    uint64_t any = 0;
    bool good = json_array_size(dice) == ARRAY_SIZE(c->dice.state);
    for (size_t i = 0; good && i < ARRAY_SIZE(c->dice.state); i++) {
        const char *text = json_string_value(json_array_get(dice, i));
        good = text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
        if (good)
            any |= c->dice.state[i] = strtoull(text, NULL, 16);
    }
    return good && any ? NULL : "dice: must be four numbers of 16 hexadecimal digits, not all zero";
}

static const char *read_states(const json_t *o, struct qtable *q)
{
    const json_t *list = json_object_get(o, "states"), *prices = json_object_get(o, "prices");
    size_t width = q->states.width, i;
    json_t *features;
    bool good = json_array_size(prices) == q->actions;
    for (size_t a = 0; good && a < q->actions; a++) {
        double price = -1;
        const json_t *v = json_array_get(prices, a);
        good = json_is_null(v) || get_number(v, 0, NUMBER_MAX, &price);
        q->prices[a] = price;
    }
    if (!good)
        return "prices: must be a number or null for each action";
    _cleanup_free_ int64_t *key = calloc(width + 1, sizeof *key);
    if (!key || !json_is_array(list))
        return key ? "states: must be a list" : "no memory";
    json_array_foreach((json_t *)list, i, features)
    {
        if (json_array_size(features) != width)
            return "states: each must have all features";
        for (size_t f = 0; f < width; f++) {
            if (!json_is_integer(json_array_get(features, f)))
                return "states: features must be whole numbers";
            key[f] = json_integer_value(json_array_get(features, f));
        }
        ssize_t at = qtable_state(q, key);
        if (at != (ssize_t)i)
            return at < 0 ? "too many states" : "states: duplicate state";
    }
    return NULL;
}

static const char *read_tried(const json_t *o, struct qtable *q)
{
    const json_t *list = json_object_get(o, "tried");
    size_t n = q->states.count;
    if (!json_is_array(list))
        return "tried: must be a list";
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct qtable_entry e = {.next = QTABLE_END};
        uint64_t state, action, next = 0;
        const json_t *v = json_array_get(list, i), *to = json_array_get(v, 3);
        if (json_array_size(v) != 6 || n == 0 || !get_whole(json_array_get(v, 0), n - 1, &state) ||
            !get_whole(json_array_get(v, 1), q->actions - 1, &action) ||
            !(json_is_null(to) || get_whole(to, n - 1, &next)))
            return "tried: must be lists of state, action, reward, next state, value, hope";
        if (!get_number(json_array_get(v, 2), -NUMBER_MAX, NUMBER_MAX, &e.reward) ||
            !get_number_or_null(json_array_get(v, 4), NAN, &e.value) ||
            !get_number_or_null(json_array_get(v, 5), -INFINITY, &e.hope))
            return "tried: a reward or an estimate is not a number or out of range";
        if (qtable_entry(q, state, action)->next != QTABLE_UNTRIED)
            return "tried: duplicate action for a state";
        if (!json_is_null(to))
            e.next = (int32_t)next;
        if (qtable_restore(q, state, action, &e) < 0)
            return "no memory";
    }
    return NULL;
}

int checkpoint_parse(const struct task *t, const char *text, size_t n, const char *name,
                     struct checkpoint *ret, struct error *err)
{
    json_error_t at;
    struct checkpoint c = {0};
    char room[256];
    if (json_count_values(text, n, CHECKPOINT_VALUES_MAX) > CHECKPOINT_VALUES_MAX)
        return error_set(err, EFBIG, "%s: the checkpoint is too large", name);
    _cleanup_json_ json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!o)
        return error_set(err, EINVAL, "%s:%d: not JSON: %s", name, at.line, at.text);
    const char *mistake = read_head(o, t, &c, room, sizeof room);
    if (!mistake)
        mistake = read_options(o, &c);
    if (!mistake) {
        struct dice first;
        dice_seed(&first, c.seed);
        struct qtable_options options = {.features = task_features(t),
                                         .actions = task_actions(t),
                                         .alpha = c.options.alpha,
                                         .gamma = c.options.gamma,
                                         .price = t->call_price,
                                         .dice = &first};
        mistake = qtable_init(&c.table, &options) < 0 ? "no memory" : read_states(o, &c.table);
    }
    if (!mistake)
        mistake = read_tried(o, &c.table);
    if (mistake) {
        checkpoint_free(&c);
        return error_set(err, EINVAL, "%s: %s", name, mistake);
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
