/*
 * Tabular Q-learning (qtable.h). With probability epsilon a whole episode explores: exploring at
 * single steps would rarely get far from what is known. Otherwise it takes the best known actions.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "policy.h"
#include "banned.h"

/* A step of the episode, and what the table held before it. */
struct qlearn_step {
    size_t state, action;
    struct qtable_entry was;
    double price;
};

struct qlearn {
    struct policy base;
    struct checkpoint known;
    int64_t *features;
    bool learning, explores;
    ssize_t state; /* negative: not in the table */
    size_t action;
    struct qlearn_step *path; /* of the episode */
    size_t n_path, room_path;
    bool under_way;   /* an episode that it learns from */
    struct dice dice; /* when that began */
    size_t states;    /* of the table, likewise */
};

static double qlearn_epsilon(const struct checkpoint *c)
{
    const struct checkpoint_options *o = &c->options;
    if (c->episodes >= o->epsilon_decay)
        return o->epsilon_end;
    double part = (double)c->episodes / (double)o->epsilon_decay;
    return o->epsilon_start + (o->epsilon_end - o->epsilon_start) * part;
}

static ssize_t qlearn_state(struct qlearn *q, const struct gym_env *e)
{
    env_features(e, q->features, q->known.table.states.width);
    return q->learning ? qtable_state(&q->known.table, q->features)
                       : feature_map_find(&q->known.table.states, q->features);
}

static int qlearn_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                        bool learning, struct error *err)
{
    struct qlearn *q = (struct qlearn *)p;
    q->learning = q->under_way = learning;
    q->dice = q->known.dice;
    q->states = q->known.table.states.count;
    q->explores = learning && dice_unit(&q->known.dice) < qlearn_epsilon(&q->known);
    q->n_path = 0;
    q->state = qlearn_state(q, e);
    return q->state == -ENOMEM ? error_set(err, ENOMEM, "no memory") : 0;
}

/* In a state for which the table is full, it submits. */
static int qlearn_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                         const char **ret_tool, json_t **ret_input, struct error *err)
{
    struct qlearn *q = (struct qlearn *)p;
    const struct qtable *t = &q->known.table;
    ssize_t best = q->state < 0 ? -1 : qtable_best(t, (size_t)q->state);
    q->action = best < 0 ? t->actions - 1 : (size_t)best;
    if (q->state >= 0 && q->learning && (q->explores || best < 0))
        q->action = (size_t)qtable_explore(t, (size_t)q->state);
    *ret_number = q->action;
    return 0;
}

static int qlearn_add_step(struct qlearn *q)
{
    if (q->n_path == q->room_path) {
        size_t room = q->room_path ? 2 * q->room_path : 32;
        struct qlearn_step *path = reallocarray(q->path, room, sizeof *path);
        if (!path)
            return -ENOMEM;
        q->path = path;
        q->room_path = room;
    }
    const struct qtable *t = &q->known.table;
    q->path[q->n_path++] =
        (struct qlearn_step){.state = (size_t)q->state,
                             .action = q->action,
                             .was = *qtable_entry(t, (size_t)q->state, q->action),
                             .price = t->prices[q->action]};
    return 0;
}

/* Undoes the episode, as if it had never begun: the next one is the same. */
static void qlearn_forget(struct policy *p)
{
    struct qlearn *q = (struct qlearn *)p;
    if (!q->under_way)
        return;
    while (q->n_path > 0) {
        const struct qlearn_step *t = &q->path[--q->n_path];
        qtable_take_back(&q->known.table, t->state, t->action, &t->was, t->price);
    }
    qtable_drop_states(&q->known.table, q->states);
    q->known.dice = q->dice;
    q->under_way = false;
}

/* A truncated step says nothing about its action: only the limit made it the last one. */
static int qlearn_learn(struct policy *p, struct gym_env *e, const struct gym_step *s,
                        struct error *err)
{
    struct qlearn *q = (struct qlearn *)p;
    struct qtable *t = &q->known.table;
    bool over = s->terminated || s->truncated;
    ssize_t from = q->state, to = over ? QTABLE_END : qlearn_state(q, e);
    int r = to == -ENOMEM && !over ? -ENOMEM : 0;
    if (r == 0 && q->learning && !s->truncated && from >= 0 && (to >= 0 || s->terminated)) {
        /* the price is all of the reward but the pass rate that the last step adds */
        double price = (s->terminated ? s->pass_rate : 0) - s->reward;
        r = qlearn_add_step(q);
        if (r == 0)
            r = qtable_note(t, (size_t)from, q->action, s->reward, price, (int32_t)to);
    }
    q->state = to;
    if (q->learning && over) {
        for (size_t i = q->n_path; i-- > 0;)
            qtable_update(t, q->path[i].state, q->path[i].action);
        qtable_replay(t);
        q->known.episodes++;
        q->under_way = false;
    }
    return r < 0 ? error_set(err, ENOMEM, "no memory for the learned table") : 0;
}

static int qlearn_save(struct policy *p, const char *path, struct error *err)
{
    return checkpoint_save(&((struct qlearn *)p)->known, path, err);
}

static void qlearn_progress(const struct policy *p, struct policy_progress *ret)
{
    const struct checkpoint *c = &((const struct qlearn *)p)->known;
    *ret = (struct policy_progress){.episodes = c->episodes, .epsilon = qlearn_epsilon(c)};
}

static void qlearn_free(struct policy *p)
{
    struct qlearn *q = (struct qlearn *)p;
    checkpoint_free(&q->known);
    free(q->features);
    free(q->path);
    free(q);
}

/* An empty table, with the default options. */
static int qlearn_start(struct checkpoint *c, const struct task *t, uint64_t seed)
{
    c->seed = seed;
    c->options = (struct checkpoint_options){.epsilon_start = 1.0,
                                             .epsilon_end = 0.05,
                                             .epsilon_decay = 1500,
                                             .alpha = 1.0,
                                             .gamma = 1.0};
    dice_seed(&c->dice, seed);
    memcpy(c->task, t->name, sizeof c->task);
    memcpy(c->digest, t->digest, sizeof c->digest);
    struct dice order = c->dice;
    struct qtable_options table = {.features = task_features(t),
                                   .actions = task_actions(t),
                                   .price = t->call_price,
                                   .dice = &order};
    return qtable_init(&c->table, &table);
}

static int qlearn_open(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct qlearn *q = calloc(1, sizeof *q);
    if (q)
        q->features = calloc(task_features(t) + 1, sizeof *q->features);
    int r = !q || !q->features ? error_set(err, ENOMEM, "no memory") : 0;
    if (r == 0 && o->checkpoint)
        r = checkpoint_load(t, o->checkpoint, &q->known, err);
    else if (r == 0 && qlearn_start(&q->known, t, o->seed) < 0)
        r = error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        if (q)
            qlearn_free(&q->base);
        return r;
    }
    struct checkpoint_options *in_force = &q->known.options;
    if (o->epsilon_start >= 0)
        in_force->epsilon_start = o->epsilon_start;
    if (o->epsilon_end >= 0)
        in_force->epsilon_end = o->epsilon_end;
    if (o->epsilon_decay)
        in_force->epsilon_decay = o->epsilon_decay;
    if (o->alpha >= 0)
        in_force->alpha = o->alpha;
    if (o->gamma >= 0)
        in_force->gamma = o->gamma;
    q->known.table.alpha = in_force->alpha;
    q->known.table.gamma = in_force->gamma;
    q->base = (struct policy){.kind = k,
                              .begin = qlearn_begin,
                              .choose = qlearn_choose,
                              .learn = qlearn_learn,
                              .forget = qlearn_forget,
                              .save = qlearn_save,
                              .progress = qlearn_progress,
                              .free = qlearn_free};
    *ret = &q->base;
    return 0;
}

const struct policy_kind policy_qlearn = {
    .name = "qlearn",
    .summary = "learns the value of each action (tabular Q-learning)",
    .discrete = true,
    .learns = true,
    .open = qlearn_open};
