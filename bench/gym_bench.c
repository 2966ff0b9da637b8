/*
 * Episodes per second: many environments of one task without the cache, under the virtual clock.
 *
 *     gym_bench TASK_FOLDER
 *
 * reads orders, a line each, and answers each with a line of JSON, so that whoever asks can measure
 * something else in between: `play ENVS EPISODES PLAN` (plans are below), `memory ENVS`.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"
#include "thread.h"
#include "vector.h"
#include "banned.h"

#define ENVS_MAX  256
#define PLAN_MAX  16
#define LONG_PLAY 100000 /* steps: as good as no limit */

enum deed { RESET, APPLY, TEST, READ, BASH, SUBMIT };

/* What every episode does. A plan that does not end with SUBMIT is not graded. */
struct plan {
    const char *name;
    size_t n;
    enum deed deeds[PLAN_MAX];
};

static const struct plan PLANS[] = {
    {"submit", 3, {RESET, APPLY, SUBMIT}},
    {"tested", 4, {RESET, APPLY, TEST, SUBMIT}},
    {"reset", 1, {RESET}},
    {"first", 2, {RESET, READ}},
    {"read", 11, {RESET, READ, READ, READ, READ, READ, READ, READ, READ, READ, READ}},
    {"bash", 11, {RESET, BASH, BASH, BASH, BASH, BASH, BASH, BASH, BASH, BASH, BASH}},
};

struct bench {
    struct task *task;
    struct gym_arena *arena;
    json_t *patch, *file, *script, *nothing; /* inputs */
};

static void fail(const struct error *e)
{
    errx(1, "%s", e->text);
}

static const struct plan *find_plan(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(PLANS); i++)
        if (strcmp(PLANS[i].name, name) == 0)
            return &PLANS[i];
    errx(2, "no plan '%s'", name);
}

static struct vector_action action_of(const struct bench *b, size_t env, enum deed deed)
{
    static const char *const tools[] = {[APPLY] = "apply_diff",
                                        [TEST] = "run_tests",
                                        [READ] = "read_file",
                                        [BASH] = "bash",
                                        [SUBMIT] = "submit"};
    json_t *inputs[] = {[APPLY] = b->patch,
                        [TEST] = b->nothing,
                        [READ] = b->file,
                        [BASH] = b->script,
                        [SUBMIT] = b->nothing};
    if (deed == RESET)
        return (struct vector_action){.env = env, .reset = true, .seed = 1};
    return (struct vector_action){.env = env, .tool = tools[deed], .input = inputs[deed]};
}

/* Every result is looked at: what is fast and wrong is not measured. */
static void check(const struct vector_result *r, enum deed deed)
{
    if (r->code < 0)
        errx(1, "environment %zu: %s", r->env, r->text);
    bool failed = json_is_true(json_object_get(r->step.observation, "failed"));
    bool ended = r->step.terminated || r->step.truncated;
    if (ended != (deed == SUBMIT) || r->step.truncated || (deed != SUBMIT && failed))
        errx(1, "environment %zu: %s", r->env, json_dumps(r->step.observation, 0));
    if (deed == SUBMIT && r->step.pass_rate != 1)
        errx(1, "environment %zu: %s", r->env, json_dumps(r->step.info, 0));
}

static void send_one(struct bench *b, struct gym_vector *v, size_t env, enum deed deed)
{
    struct error e = {0};
    struct vector_action a = action_of(b, env, deed);
    if (vector_send(v, &a, 1, &e) < 0)
        fail(&e);
}

static struct gym_vector *open_vector(struct bench *b, size_t envs)
{
    struct gym_vector *v = NULL;
    struct error e = {0};
    if (vector_open(b->arena, &(struct vector_options){.n = envs}, &v, &e) < 0)
        fail(&e);
    return v;
}

/* Plays so many episodes on all environments. */
static void play(struct bench *b, struct gym_vector *v, const struct plan *p, size_t episodes)
{
    struct vector_result results[ENVS_MAX];
    size_t at[ENVS_MAX] = {0}, begun = 0, done = 0, n = vector_size(v);
    struct error e = {0};
    for (; begun < n && begun < episodes; begun++)
        send_one(b, v, begun, p->deeds[0]);
    while (done < episodes) {
        ssize_t got = vector_recv(v, 1, ENVS_MAX, -1, results, &e);
        if (got <= 0)
            fail(&e);
        for (ssize_t i = 0; i < got; i++) {
            size_t env = results[i].env;
            check(&results[i], p->deeds[at[env]]);
            vector_result_free(&results[i]);
            if (++at[env] == p->n) {
                at[env] = 0;
                done++;
                if (begun == episodes)
                    continue;
                begun++;
            }
            send_one(b, v, env, p->deeds[at[env]]);
        }
    }
}

static void do_play(struct bench *b, size_t envs, size_t episodes, const struct plan *p)
{
    int64_t began = clock_now();
    struct gym_vector *v = open_vector(b, envs);
    play(b, v, p, episodes);
    vector_close(v);
    double seconds = (double)(clock_now() - began) / (double)NS_PER_S;
    struct arena_counts counts;
    arena_counts(b->arena, &counts);
    printf("{\"episodes\":%zu,\"steps\":%zu,\"seconds\":%.6f,\"warm\":%s}\n", episodes,
           episodes * (p->n - 1), seconds, counts.warm ? "true" : "false");
}

static void add_share(int pid, void *data)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int64_t share = tally_number(path, "Pss");
    if (share > 0)
        *(int64_t *)data += share;
}

/* Every environment in the middle of an episode, with its box. */
static void do_memory(struct bench *b, size_t envs)
{
    static const struct plan middle = {"middle", 2, {RESET, APPLY}};
    struct gym_vector *v = open_vector(b, envs);
    int64_t share = 0;
    play(b, v, &middle, envs);
    int64_t own = tally_number("/proc/self/smaps_rollup", "Pss");
    tally_children(add_share, &share);
    printf("{\"own_kib\":%" PRId64 ",\"share_kib\":%" PRId64 ",\"files_kib\":%" PRId64 "}\n", own,
           share, tally_number("/proc/meminfo", "Shmem"));
    vector_close(v);
}

static void open_bench(struct bench *b, const char *folder)
{
    struct error e = {0};
    if (task_load(folder, &b->task, &e) < 0)
        fail(&e);
    b->task->max_steps = LONG_PLAY;
    if (task_finish(b->task, &e) < 0 ||
        arena_open(b->task, &(struct arena_options){.no_cache = true, .clock = CLOCK_VIRTUAL}, -1,
                   &b->arena, &e) < 0)
        fail(&e);
    const struct task_patch *patch =
        b->task->solution.count ? task_patch_find(b->task, b->task->solution.items[0]) : NULL;
    if (!patch || !b->task->reads.count)
        errx(1, "%s: has no solution by patches, or nothing to read", folder);
    b->patch = json_pack("{s:s}", "diff", patch->diff);
    b->file = json_pack("{s:s}", "path", b->task->reads.items[0]);
    b->script = json_pack("{s:s}", "command", "true");
    b->nothing = json_object();
}

static void close_bench(struct bench *b)
{
    arena_close(b->arena);
    task_free(b->task);
    json_decref(b->patch);
    json_decref(b->file);
    json_decref(b->script);
    json_decref(b->nothing);
}

static size_t count_of(const char *text, size_t max)
{
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (n == 0 || *end || n > max)
        errx(2, "'%s' is not a number from 1 to %zu", text ? text : "", max);
    return n;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char line[256];
    if (argc != 2)
        errx(2, "usage: gym_bench TASK_FOLDER");
    open_bench(&b, argv[1]);
    while (fgets(line, sizeof line, stdin)) {
        char *words[4] = {0}, *rest = line;
        line[strcspn(line, "\n")] = 0;
        for (size_t i = 0; i < ARRAY_SIZE(words) && rest; i++)
            words[i] = strsep(&rest, " ");
        size_t envs = count_of(words[1], ENVS_MAX);
        if (strcmp(words[0], "memory") == 0)
            do_memory(&b, envs);
        else if (strcmp(words[0], "play") == 0 && words[3])
            do_play(&b, envs, count_of(words[2], 10000000), find_plan(words[3]));
        else
            errx(2, "what is '%s'?", words[0]);
        fflush(stdout);
    }
    close_bench(&b);
    return 0;
}
