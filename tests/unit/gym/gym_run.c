/*
 * A program that tests drive (tests/gym): environments of one task, played by JSON lines on stdin,
 * each of which is answered by one on stdout.
 *
 *     gym_run [--no-cache] [--virtual] [--cold] [--max-steps N] TASK
 *
 *     {"do": "reset", "env": 0, "seed": 7}          {"do": "step", "env": 0, "tool": "bash",
 *                                                   "input": {…}}
 *     {"do": "act", "env": 0, "number": 2}          {"do": "fork", "env": 0, "to": 1}
 *     {"do": "close", "env": 0}                     {"do": "look", "env": 0}
 *     {"do": "replay", "env": 0, "path": "FILE"}    {"do": "head", "env": 0} {"do": "end", "env":
 *                                                   0}
 *     {"do": "counts"}                              {"do": "many", "envs": 64, "episodes": 2,
 *                                                   "numbers": [0,
 * 6]}
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "env.h"
#include "trajectory.h"
#include "banned.h"

#define ENVS     8
#define FEATURES 600

struct run {
    struct gym_arena *arena;
    struct gym_env *envs[ENVS];
};

static json_t *failure(const struct error *err)
{
    return json_pack("{s:i, s:s}", "code", err->code, "error", err->text);
}

static json_t *answer_step(struct gym_step *s)
{
    json_t *o = json_pack("{s:o, s:o}", "step", trajectory_step(s), "info", json_incref(s->info));
    gym_step_free(s);
    return o;
}

static json_t *do_reset(struct gym_env *e, const json_t *q)
{
    struct error err = {0};
    struct gym_step s = {0};
    json_int_t seed = json_integer_value(json_object_get(q, "seed"));
    return env_reset(e, (uint64_t)seed, &s, &err) < 0 ? failure(&err) : answer_step(&s);
}

static json_t *do_step(struct gym_env *e, const json_t *q)
{
    struct error err = {0};
    struct gym_step s = {0};
    const char *tool = json_string_value(json_object_get(q, "tool"));
    return env_step(e, tool, json_object_get(q, "input"), &s, &err) < 0 ? failure(&err)
                                                                        : answer_step(&s);
}

static json_t *do_act(struct gym_env *e, const json_t *q)
{
    struct error err = {0};
    struct gym_step s = {0};
    json_int_t number = json_integer_value(json_object_get(q, "number"));
    return env_act(e, (size_t)number, &s, &err) < 0 ? failure(&err) : answer_step(&s);
}

/* What can be known of an environment without changing it. */
static json_t *do_look(struct gym_env *e, const json_t *q)
{
    int64_t features[FEATURES];
    struct gym_episode sums;
    json_t *list = json_array();
    size_t n = env_features(e, features, FEATURES);
    env_episode(e, &sums);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(features[i]));
    return json_pack("{s:o, s:i, s:f, s:i, s:f, s:b, s:i}", "features", list, "pid",
                     (int)env_box_pid(e), "return", sums.total, "calls", (int)sums.calls, "seconds",
                     sums.seconds, "over", sums.over, "n_features",
                     (int)task_features(env_task(e)));
}

/* Plays a trajectory again and tells where it first differs. */
static json_t *do_replay(struct gym_env *e, const json_t *q)
{
    struct error err = {0};
    struct trajectory t = {0};
    char why[1024] = "";
    if (trajectory_load(json_string_value(json_object_get(q, "path")), &t, &err) < 0)
        return failure(&err);
    struct gym_step s = {0};
    json_int_t seed = json_integer_value(json_object_get(t.head, "seed"));
    int r = env_reset(e, (uint64_t)seed, &s, &err);
    for (size_t i = 0; r == 0; i++) {
        bool same = trajectory_same(&t, &s, env_clock(e), why, sizeof why);
        gym_step_free(&s);
        if (!same || i + 1 >= json_array_size(t.steps))
            break;
        json_t *input = json_copy(json_object_get(json_array_get(t.steps, i + 1), "action"));
        char *tool = strdup(json_string_value(json_object_get(input, "tool")));
        json_object_del(input, "tool");
        r = env_step(e, tool, input, &s, &err);
        json_decref(input);
        free(tool);
    }
    json_t *o = r < 0 ? failure(&err)
                      : json_pack("{s:i, s:s}", "steps", (int)json_array_size(t.steps), "why", why);
    trajectory_free(&t);
    return o;
}

static json_t *do_fork(struct run *run, struct gym_env *e, const json_t *q)
{
    struct error err = {0};
    size_t to = (size_t)json_integer_value(json_object_get(q, "to"));
    if (to >= ENVS)
        return NULL;
    run->envs[to] = env_close(run->envs[to]);
    return env_fork(e, &run->envs[to], &err) < 0 ? failure(&err)
                                                 : json_pack("{s:i}", "env", (int)to);
}

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static json_t *do_counts(struct run *run)
{
    struct arena_counts c;
    arena_counts(run->arena, &c);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:i}", "resets", (json_int_t)c.resets,
                     "steps", (json_int_t)c.steps, "test_runs", (json_int_t)c.test_runs,
                     "cache_hits", (json_int_t)c.cache_hits, "boxes", (json_int_t)c.boxes, "warm",
                     c.warm, "descriptors", (int)count_descriptors(), "expected",
                     (int)arena_expected(run->arena)->count);
}

/* One of many threads, each with an environment of its own. */
struct player {
    pthread_t thread;
    struct gym_arena *arena;
    const json_t *numbers;
    json_int_t episodes;
    double sum;
    struct error err;
};

static int play_episode(struct gym_env *e, struct player *p)
{
    struct gym_step s = {0};
    struct gym_episode sums;
    int r = env_reset(e, 1, &s, &p->err);
    for (size_t i = 0; r == 0 && i < json_array_size(p->numbers); i++) {
        gym_step_free(&s);
        r = env_act(e, (size_t)json_integer_value(json_array_get(p->numbers, i)), &s, &p->err);
    }
    if (r == 0 && json_object_get(s.info, "reason"))
        r = error_set(&p->err, EIO, "%s", json_string_value(json_object_get(s.info, "reason")));
    gym_step_free(&s);
    env_episode(e, &sums);
    p->sum += sums.total;
    return r;
}

static void *play(void *data)
{
    struct player *p = data;
    struct gym_env *e = NULL;
    int r = env_open(p->arena, &e, &p->err);
    for (json_int_t i = 0; r == 0 && i < p->episodes; i++)
        r = play_episode(e, p);
    env_close(e);
    return NULL;
}

static json_t *do_many(struct run *run, const json_t *q)
{
    size_t n = (size_t)json_integer_value(json_object_get(q, "envs"));
    struct player *players = calloc(n, sizeof *players);
    json_t *sums = json_array(), *errors = json_array();
    for (size_t i = 0; i < n; i++) {
        players[i] =
            (struct player){.arena = run->arena,
                            .numbers = json_object_get(q, "numbers"),
                            .episodes = json_integer_value(json_object_get(q, "episodes"))};
        pthread_create(&players[i].thread, NULL, play, &players[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(players[i].thread, NULL);
        json_array_append_new(sums, json_real(players[i].sum));
        if (players[i].err.code)
            json_array_append_new(errors, json_string(players[i].err.text));
    }
    free(players);
    return json_pack("{s:o, s:o}", "sums", sums, "errors", errors);
}

static json_t *do_line(struct run *run, const json_t *q)
{
    const char *what = json_string_value(json_object_get(q, "do"));
    size_t number = (size_t)json_integer_value(json_object_get(q, "env"));
    static const struct {
        const char *name;
        json_t *(*go)(struct gym_env *e, const json_t *q);
    } DEEDS[] = {{"reset", do_reset},
                 {"step", do_step},
                 {"act", do_act},
                 {"look", do_look},
                 {"replay", do_replay}};
    if (!what || number >= ENVS)
        return NULL;
    if (strcmp(what, "counts") == 0)
        return do_counts(run);
    if (strcmp(what, "many") == 0)
        return do_many(run, q);
    if (strcmp(what, "close") == 0) {
        run->envs[number] = env_close(run->envs[number]);
        return json_object();
    }
    struct error err = {0};
    if (!run->envs[number] && env_open(run->arena, &run->envs[number], &err) < 0)
        return failure(&err);
    struct gym_env *e = run->envs[number];
    for (size_t i = 0; i < ARRAY_SIZE(DEEDS); i++)
        if (strcmp(what, DEEDS[i].name) == 0)
            return DEEDS[i].go(e, q);
    if (strcmp(what, "fork") == 0)
        return do_fork(run, e, q);
    return strcmp(what, "head") == 0  ? trajectory_head(e, "test")
           : strcmp(what, "end") == 0 ? trajectory_end(e)
                                      : NULL;
}

static int serve(struct run *run)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, stdin)) > 0) {
        json_error_t at;
        json_t *q = json_loadb(line, (size_t)n, 0, &at);
        json_t *o = q ? do_line(run, q) : NULL;
        char *text = trajectory_line(o);
        puts(text ? text : "null");
        fflush(stdout);
        free(text);
        json_decref(o);
        json_decref(q);
    }
    free(line);
    return 0;
}

int main(int argc, char **argv)
{
    struct arena_options o = {0};
    struct error err = {0};
    struct task *t = NULL;
    unsigned steps = 0;
    for (int i = 1; i + 1 < argc; i++) {
        o.no_cache |= strcmp(argv[i], "--no-cache") == 0;
        o.cold |= strcmp(argv[i], "--cold") == 0;
        if (strcmp(argv[i], "--virtual") == 0)
            o.clock = CLOCK_VIRTUAL;
        if (strcmp(argv[i], "--max-steps") == 0)
            steps = (unsigned)atoi(argv[i + 1]);
    }
    struct run run = {0};
    int r = argc < 2 ? -EINVAL : task_load(argv[argc - 1], &t, &err);
    if (r == 0 && steps)
        t->max_steps = steps;
    if (r == 0)
        r = arena_open(t, &o, -1, &run.arena, &err);
    if (r < 0)
        fprintf(stderr, "gym_run: %s\n", err.text);
    else
        serve(&run);
    for (size_t i = 0; i < ENVS; i++)
        env_close(run.envs[i]);
    arena_close(run.arena);
    task_free(t);
    return r < 0;
}
