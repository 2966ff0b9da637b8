/*
 * Tabular Q-learning (qtable.h says how). With probability epsilon an episode explores, as a whole:
 * whoever wavers at every step never gets far from what it knows. Else it goes by what it knows to
 * be best.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "policy.h"
#include "banned.h"

#define EPSILON_START 1.0
#define EPSILON_END   0.05
#define EPSILON_DECAY 1500
#define ALPHA         1.0
#define GAMMA         1.0

struct taken {
    size_t state, action;
    struct qtable_entry was; /* before it was noted, */
    double price;            /* and what the action cost then */
};

struct qlearn {
    struct policy base;
    struct checkpoint known;
    int64_t *features;
    bool learning, explores;
    ssize_t state; /* negative: one that the table does not have */
    size_t action;
    struct taken *path; /* of the episode */
    size_t n_path, room_path;
    bool under_way; /* an episode that is learnt from; when it began, there were: */
    struct dice dice;
    size_t states;
};

static struct qlearn *qlearn(struct policy *p)
{
    return (struct qlearn *)p;
}

static double epsilon_of(const struct checkpoint *c)
{
    const struct checkpoint_options *o = &c->options;
    if (c->episodes >= o->epsilon_decay)
        return o->epsilon_end;
    double part = (double)c->episodes / (double)o->epsilon_decay;
    return o->epsilon_start + (o->epsilon_end - o->epsilon_start) * part;
}

static ssize_t look(struct qlearn *q, const struct gym_env *e)
{
    env_features(e, q->features, q->known.table.states.width);
    return q->learning ? qtable_state(&q->known.table, q->features)
                       : feature_map_find(&q->known.table.states, q->features);
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct qlearn *q = qlearn(p);
    q->learning = q->under_way = learning;
    q->dice = q->known.dice;
    q->states = q->known.table.states.count;
    q->explores = learning && dice_unit(&q->known.dice) < epsilon_of(&q->known);
    q->n_path = 0;
    q->state = look(q, e);
    return q->state == -ENOMEM ? error_set(err, ENOMEM, "no memory") : 0;
}

/* In a state that the table has no place for, it submits. */
static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct qlearn *q = qlearn(p);
    const struct qtable *t = &q->known.table;
    ssize_t best = q->state < 0 ? -1 : qtable_best(t, (size_t)q->state);
    q->action = best < 0 ? t->actions - 1 : (size_t)best;
    if (q->state >= 0 && q->learning && (q->explores || best < 0))
        q->action = (size_t)qtable_explore(t, (size_t)q->state);
    *ret_number = q->action;
    return 0;
}

static int add_to_path(struct qlearn *q)
{
    if (q->n_path == q->room_path) {
        size_t room = q->room_path ? 2 * q->room_path : 32;
        struct taken *path = reallocarray(q->path, room, sizeof *path);
        if (!path)
            return -ENOMEM;
        q->path = path;
        q->room_path = room;
    }
    const struct qtable *t = &q->known.table;
    q->path[q->n_path++] = (struct taken){.state = (size_t)q->state,
                                          .action = q->action,
                                          .was = *qtable_entry(t, (size_t)q->state, q->action),
                                          .price = t->prices[q->action]};
    return 0;
}

static void end_episode(struct qlearn *q)
{
    for (size_t i = q->n_path; i-- > 0;)
        qtable_update(&q->known.table, q->path[i].state, q->path[i].action);
    qtable_replay(&q->known.table);
    q->known.episodes++;
    q->under_way = false;
}

/* As if it had never begun: the next one is the same. */
static void forget(struct policy *p)
{
    struct qlearn *q = qlearn(p);
    if (!q->under_way)
        return;
    while (q->n_path > 0) {
        const struct taken *t = &q->path[--q->n_path];
        qtable_take_back(&q->known.table, t->state, t->action, &t->was, t->price);
    }
    qtable_drop_states(&q->known.table, q->states);
    q->known.dice = q->dice;
    q->under_way = false;
}

/* What of the reward was paid: all but the pass rate that the last step adds. */
static double price_of(const struct gym_step *s)
{
    return (s->terminated ? s->pass_rate : 0) - s->reward;
}

/* A step that was cut off says nothing about its action: that it was the last one is the limit's
 * doing. */
static int learn(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err)
{
    struct qlearn *q = qlearn(p);
    ssize_t from = q->state, to = s->terminated || s->truncated ? QTABLE_END : look(q, e);
    int r = 0;
    if (q->learning && !s->truncated && from >= 0 && (to >= 0 || s->terminated)) {
        r = add_to_path(q);
        if (r == 0)
            r = qtable_note(&q->known.table, (size_t)from, q->action, s->reward, price_of(s),
                            (int32_t)to);
    }
    q->state = to;
    if (q->learning && (s->terminated || s->truncated))
        end_episode(q);
    return r < 0 || (to == -ENOMEM && !s->terminated && !s->truncated)
               ? error_set(err, ENOMEM, "no memory for the learned table")
               : 0;
}

static int save(struct policy *p, const char *path, struct error *err)
{
    return checkpoint_save(&qlearn(p)->known, path, err);
}

static void progress(const struct policy *p, struct policy_progress *ret)
{
    const struct checkpoint *c = &((const struct qlearn *)p)->known;
    *ret = (struct policy_progress){.episodes = c->episodes, .epsilon = epsilon_of(c)};
}

static void release(struct policy *p)
{
    struct qlearn *q = qlearn(p);
    checkpoint_free(&q->known);
    free(q->features);
    free(q->path);
    free(q);
}

static double given_or(double given, double otherwise)
{
    return given >= 0 ? given : otherwise;
}

/* What was given goes over what was in force before. */
static void take_options(struct checkpoint_options *o, const struct policy_options *given)
{
    o->epsilon_start = given_or(given->epsilon_start, o->epsilon_start);
    o->epsilon_end = given_or(given->epsilon_end, o->epsilon_end);
    o->alpha = given_or(given->alpha, o->alpha);
    o->gamma = given_or(given->gamma, o->gamma);
    if (given->epsilon_decay)
        o->epsilon_decay = given->epsilon_decay;
}

static int start_anew(struct checkpoint *c, const struct task *t, const struct policy_options *o)
{
    c->seed = o->seed;
    c->options = (struct checkpoint_options){.epsilon_start = EPSILON_START,
                                             .epsilon_end = EPSILON_END,
                                             .epsilon_decay = EPSILON_DECAY,
                                             .alpha = ALPHA,
                                             .gamma = GAMMA};
    take_options(&c->options, o);
    dice_seed(&c->dice, o->seed);
    memcpy(c->task, t->name, sizeof c->task);
    memcpy(c->digest, t->digest, sizeof c->digest);
    struct dice order = c->dice;
    struct qtable_options table = {.features = task_features(t),
                                   .actions = task_actions(t),
                                   .alpha = c->options.alpha,
                                   .gamma = c->options.gamma,
                                   .price = t->call_price,
                                   .dice = &order};
    return qtable_init(&c->table, &table);
}

static int start(struct qlearn *q, const struct task *t, const struct policy_options *o,
                 struct error *err)
{
    q->features = calloc(task_features(t) + 1, sizeof *q->features);
    if (!q->features)
        return error_set(err, ENOMEM, "no memory");
    if (!o->checkpoint)
        return start_anew(&q->known, t, o) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
    int r = checkpoint_load(t, o->checkpoint, &q->known, err);
    if (r < 0)
        return r;
    take_options(&q->known.options, o);
    q->known.table.alpha = q->known.options.alpha;
    q->known.table.gamma = q->known.options.gamma;
    return 0;
}

static int open_qlearn(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct qlearn *q = calloc(1, sizeof *q);
    if (!q)
        return error_set(err, ENOMEM, "no memory");
    int r = start(q, t, o, err);
    if (r < 0) {
        release(&q->base);
        return r;
    }
    q->base = (struct policy){.kind = k,
                              .begin = begin,
                              .choose = choose,
                              .learn = learn,
                              .forget = forget,
                              .save = save,
                              .progress = progress,
                              .free = release};
    *ret = &q->base;
    return 0;
}

const struct policy_kind policy_qlearn = {
    .name = "qlearn",
    .summary = "learns the value of each action (tabular Q-learning)",
    .discrete = true,
    .learns = true,
    .open = open_qlearn};
