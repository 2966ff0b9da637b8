/* `hutch gym train`: an agent learns; how far it is, what it learnt, and how that compares with the
 * best. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "columns.h"
#include "commands.h"
#include "curve.h"
#include "gym_place.h"
#include "gym_progress.h"
#include "interrupt.h"
#include "say.h"
#include "banned.h"

#define EPISODES    2000
#define DRAWING_MAX (1u << 20)

struct train_names {
    char out[PATH_MAX];
    char checkpoint[PATH_MAX + 32];
};

static double ratio_of(const struct train_result *r)
{
    double best = r->best.episode.total, got = r->greedy.episode.total;
    return !r->best_known || best <= 0 ? NAN : got / best;
}

static unsigned drawing_width(void)
{
    unsigned width = columns_of(STDOUT_FILENO);
    return width == 0 ? 80 : width > 100 ? 100 : width;
}

static void print_curve(const struct train_result *r)
{
    _cleanup_buf_ struct buf text = BUF_INIT(DRAWING_MAX);
    struct curve c = {.title = "",
                      .points = r->points,
                      .n = r->n_points,
                      .best = r->best_known ? r->best.episode.total : NAN};
    if (curve_text(&c, drawing_width(), 13, say_colours(STDOUT_FILENO), &text) < 0)
        return;
    printf("\nreturn, mean of the last %zu episodes%s\n", curve_window(c.n),
           r->best_known ? "; dashed: the best there is" : "");
    printf("%.*s\n", (int)text.len, (char *)text.data);
}

static void print_sequence(const char *what, const struct train_sequence *s)
{
    _cleanup_free_ char *actions = train_actions_text(s);
    _cleanup_buf_ struct buf text = BUF_INIT(1u << 20);
    buf_printf(&text, "return %.6f: %s", s->episode.total, actions ? actions : "");
    printf("%-8s ", what);
    columns_put(buf_cstr(&text) ? (char *)text.data : "", 9, 0);
}

static void print_text(const struct train_result *r, const struct gym_place *place,
                       const struct gym_options *o)
{
    char out[4 * PATH_MAX];
    printf("%s: %" PRIu64 " episodes", place->task->name, r->episodes);
    if (r->played && r->seconds > 0)
        printf(", %" PRIu64 " in %.1f s (%.0f per second)", r->played, r->seconds,
               (double)r->played / r->seconds);
    printf("\n");
    if (r->n_points > 1)
        print_curve(r);
    print_sequence("learnt", &r->greedy);
    if (r->best_known) {
        print_sequence("best", &r->best);
        if (!isnan(ratio_of(r)))
            printf("%-8s %.1f %% of the best return\n", "", 100 * ratio_of(r));
    }
    printf("written  %s: checkpoint.json, episodes.csv, curve.svg\n",
           say_clean(o->out, out, sizeof out));
}

static json_t *sequence_json(const struct train_sequence *s)
{
    json_t *actions = json_array();
    for (size_t i = 0; i < s->actions.count; i++)
        json_array_append_new(actions, json_string(s->actions.items[i]));
    return json_pack("{s:o, s:f, s:f, s:i, s:f}", "actions", actions, "return", s->episode.total,
                     "pass_rate", isnan(s->episode.pass_rate) ? 0 : s->episode.pass_rate, "calls",
                     (int)s->episode.calls, "seconds", s->episode.seconds);
}

static void print_json(const struct train_result *r, const struct gym_place *place,
                       const char *agent, const struct gym_options *o)
{
    json_t *line =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:s, s:b}", "task",
                  place->task->name, "agent", agent, "seed", (json_int_t)o->seed, "episodes",
                  (json_int_t)r->episodes, "played", (json_int_t)r->played, "seconds", r->seconds,
                  "episodes_per_second", r->seconds > 0 ? (double)r->played / r->seconds : 0,
                  "greedy", r->greedy_known ? sequence_json(&r->greedy) : json_null(), "best",
                  r->best_known ? sequence_json(&r->best) : json_null(), "ratio",
                  isnan(ratio_of(r)) ? json_null() : json_real(ratio_of(r)), "out", o->out,
                  "cancelled", r->cancelled);
    _cleanup_free_ char *text = line ? json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    printf("%s\n", text ? text : "null");
    json_decref(line);
}

/* Where it is written to, and whether something is there to go on from. */
static int settle_names(struct gym_options *o, const struct task *t, struct train_names *names,
                        struct error *err)
{
    if (o->out)
        snprintf(names->out, sizeof names->out, "%s", o->out);
    else
        snprintf(names->out, sizeof names->out, "hutch-train/%s-%" PRIu64, t->name, o->seed);
    o->out = names->out;
    snprintf(names->checkpoint, sizeof names->checkpoint, "%s/checkpoint.json", names->out);
    if (!o->resume)
        return 0;
    if (access(names->checkpoint, F_OK) < 0)
        return error_set(err, ENOENT,
                         "there is no %s to go on from; without --resume it begins anew",
                         names->checkpoint);
    o->checkpoint = names->checkpoint;
    return 0;
}

static int learn(struct gym_options *o, const struct policy_kind *k, struct gym_place *place,
                 struct train_result *ret, struct error *err)
{
    struct policy_options with;
    struct settings *none = NULL;
    struct policy *p = NULL;
    struct gym_progress progress;
    struct train_sink sink = {
        .episode = gym_progress_episode, .searching = gym_progress_searching, .data = &progress};
    struct train_options t = {.episodes = o->episodes ? o->episodes : EPISODES,
                              .seed = o->seed,
                              .out = o->out,
                              .resume = o->resume};
    int r = gym_policy_options(o, false, &with, &none, err);
    if (r == 0)
        r = policy_open(k, place->task, &with, &p, err);
    if (r < 0)
        return r;
    gym_progress_begin(&progress, t.episodes, o->json);
    r = train(place->env, p, &t, &sink, ret, err);
    gym_progress_end(&progress);
    policy_free(p);
    return r;
}

static int run(const struct gym_options *given, const struct policy_kind *k, struct error *err)
{
    _cleanup_place_ struct gym_place place = {0};
    struct gym_options with = *given, *o = &with;
    struct train_names names;
    struct train_result result = {0};
    int cancel = interrupt_watch(err);
    int r = cancel < 0 ? cancel : gym_place_open(o, cancel, &place, err);
    if (r == 0 && !o->has_seed)
        o->seed = place.task->seed;
    if (r == 0)
        r = settle_names(o, place.task, &names, err);
    if (r == 0)
        r = learn(o, k, &place, &result, err);
    if (r < 0)
        return gym_failed(err);
    if (o->resume && result.played == 0 && !result.cancelled)
        say("%s has %" PRIu64 " episodes already; --episodes says how many there shall be in all",
            names.checkpoint, result.episodes);
    if (result.cancelled)
        say("interrupted; %s has all %" PRIu64 " whole episodes, and --resume goes on from there",
            o->out, result.episodes);
    if (result.best_known && result.best.episode.pass_rate < 1)
        say("no sequence of actions passes all tests: 'hutch gym tasks' tells whether the task is "
            "in order "
            "here");
    if (o->json)
        print_json(&result, &place, k->name, o);
    else if (!result.cancelled)
        print_text(&result, &place, o);
    bool cancelled = result.cancelled;
    train_result_free(&result);
    return cancelled && interrupt_signal() ? 128 + interrupt_signal() : 0;
}

int command_gym_train(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct error err = {0};
    int status;
    if (!gym_words(self, argc, argv, &o, &status))
        return status;
    const struct policy_kind *k = policy_find(o.agent ? o.agent : "qlearn", &err);
    if (!k)
        return say_usage(&err);
    if (!k->learns)
        error_set(&err, EINVAL, "the agent %s learns nothing; train takes qlearn", k->name);
    else if (o.episodes > TRAIN_EPISODES_MAX)
        error_set(&err, EINVAL, "--episodes: at most %u", TRAIN_EPISODES_MAX);
    return err.code ? say_usage(&err) : run(&o, k, &err);
}
