/* Plays the best sequence that there is. It looks for it first, in an environment of its own: that
 * is not what an agent could do, but what one is measured against. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "qtable.h"
#include "search.h"
#include "banned.h"

struct search_policy {
    struct policy base;
    struct search_result found;
    size_t at; /* in found.actions */
};

static struct search_policy *search(struct policy *p)
{
    return (struct search_policy *)p;
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct search_policy *s = search(p);
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

static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct search_policy *s = search(p);
    *ret_number =
        s->at < s->found.count ? s->found.actions[s->at++] : task_actions(env_task(e)) - 1;
    return 0;
}

static void release(struct policy *p)
{
    search_result_free(&search(p)->found);
    free(p);
}

static int open_search(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct search_policy *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->base = (struct policy){.kind = k, .begin = begin, .choose = choose, .free = release};
    *ret = &s->base;
    return 0;
}

const struct policy_kind policy_search = {.name = "search",
                                          .summary = "finds the best sequence by exhaustive search",
                                          .discrete = true,
                                          .open = open_search};

/* A state on the way to which so much was paid. */
struct node {
    double cost;
    size_t parent; /* another node; of the first: itself */
    size_t action; /* that led here */
    size_t depth;
    size_t features; /* number in the map of those that were seen */
};

struct search {
    struct gym_env *env;
    int64_t *features;
    struct feature_map seen;
    bool *done; /* for each of `seen`: it was gone through */
    size_t room_done;
    struct node *nodes;
    size_t n_nodes, room_nodes;
    size_t *heap; /* of nodes, the cheapest first */
    size_t n_heap, room_heap;
    size_t *path; /* of the node that is at work */
    size_t room_path;
    struct search_result best;
};

void search_result_free(struct search_result *r)
{
    free(r->actions);
    *r = (struct search_result){0};
}

static void free_search(struct search *s)
{
    free(s->features);
    feature_map_free(&s->seen);
    free(s->done);
    free(s->nodes);
    free(s->heap);
    free(s->path);
}

/* Makes room for one more in an array that grows. */
static int reserve(void *array, size_t *room, size_t count, size_t size)
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

/* Of two nodes that cost the same, the one that came first. */
static bool before(const struct search *s, size_t a, size_t b)
{
    double x = s->nodes[a].cost, y = s->nodes[b].cost;
    return x < y || (x <= y && a < b);
}

static void swap(size_t *a, size_t *b)
{
    size_t t = *a;
    *a = *b;
    *b = t;
}

static int push(struct search *s, size_t node)
{
    if (reserve(&s->heap, &s->room_heap, s->n_heap, sizeof *s->heap) < 0)
        return -ENOMEM;
    size_t at = s->n_heap++;
    s->heap[at] = node;
    for (; at > 0 && before(s, s->heap[at], s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&s->heap[at], &s->heap[(at - 1) / 2]);
    return 0;
}

static size_t pop(struct search *s)
{
    size_t top = s->heap[0], at = 0;
    s->heap[0] = s->heap[--s->n_heap];
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < s->n_heap; child++)
            if (before(s, s->heap[child], s->heap[least]))
                least = child;
        if (least == at)
            return top;
        swap(&s->heap[at], &s->heap[least]);
        at = least;
    }
}

/* The state that the environment is in, as a node; none if it was gone through already. */
static int add_node(struct search *s, struct gym_env *e, size_t parent, size_t action)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    env_features(e, s->features, s->seen.width);
    size_t known = s->seen.count;
    ssize_t at = feature_map_add(&s->seen, s->features);
    if (at < 0 || reserve(&s->done, &s->room_done, s->seen.count, sizeof *s->done) < 0 ||
        reserve(&s->nodes, &s->room_nodes, s->n_nodes, sizeof *s->nodes) < 0)
        return -ENOMEM;
    if (s->seen.count > known)
        s->done[at] = false;
    if (s->done[at])
        return 0;
    s->nodes[s->n_nodes] = (struct node){.cost = -sums.total,
                                         .parent = parent,
                                         .action = action,
                                         .depth = sums.calls,
                                         .features = (size_t)at};
    return push(s, s->n_nodes++);
}

static int step(struct gym_env *e, size_t action, bool *ret_over, struct error *err)
{
    _cleanup_step_ struct gym_step got = {0};
    int r = env_act(e, action, &got, err);
    if (r == 0)
        *ret_over = got.terminated || got.truncated;
    return r;
}

/* Brings the environment to a node; s->path is then how. */
static int go_to(struct search *s, size_t number, struct error *err)
{
    _cleanup_step_ struct gym_step first = {0};
    const struct node *n = &s->nodes[number];
    bool over = false;
    while (s->room_path < n->depth + 1)
        if (reserve(&s->path, &s->room_path, s->room_path, sizeof *s->path) < 0)
            return error_set(err, ENOMEM, "no memory");
    for (size_t i = n->depth; i-- > 0; n = &s->nodes[n->parent])
        s->path[i] = n->action;
    int r = env_reset(s->env, 0, &first, err);
    for (size_t i = 0; r == 0 && i < s->nodes[number].depth; i++)
        r = step(s->env, s->path[i], &over, err);
    return r;
}

/* The path and one action more ended an episode: is that the best one so far? */
static int consider(struct search *s, struct gym_env *e, size_t depth, size_t action)
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

/* One action from where the environment is, which stays there. */
static int branch(struct search *s, size_t node, size_t action, struct error *err)
{
    struct gym_env *fork = NULL;
    bool over = false;
    int r = env_fork(s->env, &fork, err);
    if (r == 0)
        r = step(fork, action, &over, err);
    if (r == 0 && (over ? consider(s, fork, s->nodes[node].depth, action)
                        : add_node(s, fork, node, action)) < 0)
        r = error_set(err, ENOMEM, "no memory for the search");
    env_close(fork);
    return r;
}

/* Submits, so that there is something to compare with, and then applies every patch. */
static int expand(struct search *s, size_t node, struct error *err)
{
    size_t patches = env_task(s->env)->n_patches;
    int r = go_to(s, node, err);
    if (r == 0)
        r = branch(s, node, task_actions(env_task(s->env)) - 1, err);
    for (size_t a = 0; r == 0 && a < patches; a++)
        r = branch(s, node, a, err);
    return r;
}

/* Could anything that comes after this node be better than what was found? */
static bool is_hopeless(const struct search *s, size_t node)
{
    double most = 1 - s->nodes[node].cost - env_task(s->env)->call_price;
    return s->best.actions && most <= s->best.episode.total;
}

static int run(struct search *s, size_t max_states, struct error *err)
{
    int r = 0;
    while (r == 0 && s->n_heap > 0 && s->best.states < max_states) {
        size_t node = pop(s);
        if (is_hopeless(s, node)) /* and so are all that cost more */
            s->n_heap = 0;
        else if (!s->done[s->nodes[node].features]) {
            s->done[s->nodes[node].features] = true;
            s->best.states++;
            r = expand(s, node, err);
        }
    }
    s->best.whole = s->n_heap == 0;
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
    if (r == 0 && add_node(&s, e, 0, 0) < 0)
        r = error_set(err, ENOMEM, "no memory for the search");
    if (r == 0)
        r = run(&s, max_states, err);
    free_search(&s);
    if (r < 0) {
        search_result_free(&s.best);
        return r;
    }
    *ret = s.best;
    return 0;
}
