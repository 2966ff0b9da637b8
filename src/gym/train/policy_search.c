/*
 * The best sequence of discrete actions, by exhaustive search, and the agent that plays it: not
 * what an agent could do, but what one is measured against.
 *
 * Uniform-cost search: states are expanded from the cheapest on, each once. A state is what the
 * features say, so two orders of the same patches are one. A state is not expanded when even all
 * tests passing right after it would not beat the best sequence so far. Reading a file and running
 * the tests cost something and change nothing, so no best sequence has them: they are left out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "qtable.h"
#include "search.h"
#include "banned.h"

/* A way to a state. */
struct node {
    double cost;
    size_t parent; /* another node; of the first: itself */
    size_t action; /* that led here */
    size_t depth;
    size_t features; /* number in `seen` */
};

struct search {
    struct gym_env *env;
    int64_t *features;
    struct feature_map seen;
    bool *expanded; /* for each of `seen` */
    size_t room_expanded;
    struct node *nodes;
    size_t n_nodes, room_nodes;
    size_t *heap; /* of nodes, the cheapest first */
    size_t n_heap, room_heap;
    size_t *path; /* to the node that is expanded */
    size_t room_path;
    struct search_result best;
};

void search_result_free(struct search_result *r)
{
    free(r->actions);
    *r = (struct search_result){0};
}

/* Makes room for one more item in a growing array. */
static int array_reserve(void *array, size_t *room, size_t count, size_t size)
{
    void **at = array;
    if (count < *room)
        return 0;
    size_t more = *room ? 2 * *room : 64;
    void *grown = reallocarray(*at, more, size);
    if (!grown)
        return -ENOMEM;
    *at = grown;
    *room = more;
    return 0;
}

/* Of two nodes with the same cost, the older one comes first. */
static bool heap_less(const struct search *s, size_t a, size_t b)
{
    double x = s->nodes[s->heap[a]].cost, y = s->nodes[s->heap[b]].cost;
    return x < y || (x <= y && s->heap[a] < s->heap[b]);
}

static void heap_swap(struct search *s, size_t a, size_t b)
{
    size_t t = s->heap[a];
    s->heap[a] = s->heap[b];
    s->heap[b] = t;
}

static int heap_push(struct search *s, size_t node)
{
    if (array_reserve(&s->heap, &s->room_heap, s->n_heap, sizeof *s->heap) < 0)
        return -ENOMEM;
    size_t at = s->n_heap++;
    s->heap[at] = node;
    for (; at > 0 && heap_less(s, at, (at - 1) / 2); at = (at - 1) / 2)
        heap_swap(s, at, (at - 1) / 2);
    return 0;
}

static size_t heap_pop(struct search *s)
{
    size_t top = s->heap[0], at = 0;
    s->heap[0] = s->heap[--s->n_heap];
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < s->n_heap; child++)
            if (heap_less(s, child, least))
                least = child;
        if (least == at)
            return top;
        heap_swap(s, at, least);
        at = least;
    }
}

/* Adds the environment's state as a node, unless it was expanded already. */
static int search_add_node(struct search *s, struct gym_env *e, size_t parent, size_t action)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    env_features(e, s->features, s->seen.width);
    size_t known = s->seen.count;
    ssize_t at = feature_map_add(&s->seen, s->features);
    if (at < 0 ||
        array_reserve(&s->expanded, &s->room_expanded, s->seen.count, sizeof *s->expanded) < 0 ||
        array_reserve(&s->nodes, &s->room_nodes, s->n_nodes, sizeof *s->nodes) < 0)
        return -ENOMEM;
    if (s->seen.count > known)
        s->expanded[at] = false;
    if (s->expanded[at])
        return 0;
    s->nodes[s->n_nodes] = (struct node){.cost = -sums.total,
                                         .parent = parent,
                                         .action = action,
                                         .depth = sums.calls,
                                         .features = (size_t)at};
    return heap_push(s, s->n_nodes++);
}

/* Records the path and one more action, which ended an episode, if that is the best so far. */
static int search_record(struct search *s, struct gym_env *e, size_t depth, size_t action)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    if (s->best.actions && sums.total <= s->best.episode.total)
        return 0;
    size_t *actions = calloc(depth + 1, sizeof *actions);
    if (!actions)
        return -ENOMEM;
    if (depth)
        memcpy(actions, s->path, depth * sizeof *actions);
    actions[depth] = action;
    free(s->best.actions);
    s->best.actions = actions;
    s->best.count = depth + 1;
    s->best.episode = sums;
    return 0;
}

/* Brings the environment to a node; s->path is then the way. */
static int search_go_to(struct search *s, size_t number, struct error *err)
{
    struct gym_step step = {0};
    const struct node *n = &s->nodes[number];
    while (s->room_path < n->depth + 1)
        if (array_reserve(&s->path, &s->room_path, s->room_path, sizeof *s->path) < 0)
            return error_set(err, ENOMEM, "no memory");
    for (size_t i = n->depth; i-- > 0; n = &s->nodes[n->parent])
        s->path[i] = n->action;
    int r = env_reset(s->env, 0, &step, err);
    gym_step_free(&step);
    for (size_t i = 0; r == 0 && i < s->nodes[number].depth; i++) {
        r = env_act(s->env, s->path[i], &step, err);
        gym_step_free(&step);
    }
    return r;
}

/* Tries submit first, so that there is a sequence to compare with, and then every patch; each in a
 * fork of the environment. */
static int search_expand(struct search *s, size_t node, struct error *err)
{
    const struct task *t = env_task(s->env);
    int r = search_go_to(s, node, err);
    for (size_t i = 0; r == 0 && i <= t->n_patches; i++) {
        size_t action = i == 0 ? task_actions(t) - 1 : i - 1;
        struct gym_env *fork = NULL;
        struct gym_step step = {0};
        r = env_fork(s->env, &fork, err);
        if (r == 0)
            r = env_act(fork, action, &step, err);
        bool over = step.terminated || step.truncated;
        gym_step_free(&step);
        if (r == 0 && (over ? search_record(s, fork, s->nodes[node].depth, action)
                            : search_add_node(s, fork, node, action)) < 0)
            r = error_set(err, ENOMEM, "no memory for the search");
        env_close(fork);
    }
    return r;
}

int search_best(struct gym_env *e, size_t max_states, struct search_result *ret, struct error *err)
{
    const struct task *t = env_task(e);
    struct search s = {.env = e, .seen = {.width = task_features(t)}};
    struct gym_step first = {0};
    if (task_actions(t) == 0)
        return error_set(err, EINVAL, "the task %s has no discrete actions to search", t->name);
    s.features = calloc(s.seen.width, sizeof *s.features);
    int r = s.features ? env_reset(e, 0, &first, err) : error_set(err, ENOMEM, "no memory");
    gym_step_free(&first);
    if (r == 0 && search_add_node(&s, e, 0, 0) < 0)
        r = error_set(err, ENOMEM, "no memory for the search");
    while (r == 0 && s.n_heap > 0 && s.best.states < max_states) {
        size_t node = heap_pop(&s);
        double most = 1 - s.nodes[node].cost - t->call_price;
        if (s.best.actions && most <= s.best.episode.total)
            s.n_heap = 0; /* neither this node nor those that cost more can be better */
        else if (!s.expanded[s.nodes[node].features]) {
            s.expanded[s.nodes[node].features] = true;
            s.best.states++;
            r = search_expand(&s, node, err);
        }
    }
    s.best.whole = s.n_heap == 0;
    free(s.features);
    feature_map_free(&s.seen);
    free(s.expanded);
    free(s.nodes);
    free(s.heap);
    free(s.path);
    if (r < 0)
        search_result_free(&s.best);
    else
        *ret = s.best;
    return r;
}

struct search_policy {
    struct policy base;
    struct search_result found;
    size_t at; /* in found.actions */
};

/* Searches before the first episode, in a fork of the environment. */
static int search_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                        bool learning, struct error *err)
{
    struct search_policy *s = (struct search_policy *)p;
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

static int search_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                         const char **ret_tool, json_t **ret_input, struct error *err)
{
    struct search_policy *s = (struct search_policy *)p;
    *ret_number =
        s->at < s->found.count ? s->found.actions[s->at++] : task_actions(env_task(e)) - 1;
    return 0;
}

static void search_free(struct policy *p)
{
    search_result_free(&((struct search_policy *)p)->found);
    free(p);
}

static int search_open(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct search_policy *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->base = (struct policy){
        .kind = k, .begin = search_begin, .choose = search_choose, .free = search_free};
    *ret = &s->base;
    return 0;
}

const struct policy_kind policy_search = {.name = "search",
                                          .summary = "finds the best sequence by exhaustive search",
                                          .discrete = true,
                                          .open = search_open};
