/* `hutch gym episode`: one episode, step by step, for people or as JSON lines; and its trajectory
 * as a file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "gym.h"
#include "policy.h"
#include "text.h"
#include "tui.h"
#include "banned.h"

#define SHOWN_MAX   88 /* bytes of an observation's first line */
#define LABEL_WIDTH 32

struct episode {
    struct gym_options *options;
    struct gym_setup setup;
    const char *agent;
    FILE *record;                                           /* the trajectory, or NULL */
    unsigned columns;                                       /* of the terminal; 0: there is none */
    const char *bold, *dim, *yellow, *cyan, *green, *plain; /* escape sequences, or nothing */
};

static void episode_put_line(FILE *f, json_t *o)
{
    _cleanup_free_ char *line = trajectory_line(o);
    fprintf(f, "%s\n", line ? line : "null");
    json_decref(o);
}

static void episode_put_step(const struct episode *t, const struct gym_step *s)
{
    const struct task *task = t->setup.task;
    char text[1024];
    if (s->number == 0) {
        printf("%s%s%s: %s\n", t->bold, task->name, t->plain,
               say_clean(task->title, text, sizeof text));
        printf("agent %s, seed %" PRIu64 ", %s clock\n\n", t->agent, t->options->seed,
               t->options->virtual_clock ? "virtual" : "wall");
        return;
    }
    char label[160];
    bool failed = json_is_true(json_object_get(s->observation, "failed"));
    action_label(task, s->action, label, sizeof label);
    printf("%s%3u%s  %s%-*s%s %+.4f  ", t->dim, s->number, t->plain, failed ? t->yellow : t->cyan,
           LABEL_WIDTH, label, t->plain, s->reward);
    size_t used = 15 + (strlen(label) > LABEL_WIDTH ? strlen(label) : LABEL_WIDTH);
    /* The first line of what the step showed; with the second where that is only its heading. */
    const char *shown = json_string_value(json_object_get(s->observation, "text"));
    size_t n = shown ? strcspn(shown, "\n") : 0;
    if (n > 0 && shown[n - 1] == ':' && shown[n])
        n += 1 + strcspn(shown + n + 1, "\n");
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    summary_line(shown, n,
                 !t->columns             ? SHOWN_MAX
                 : t->columns > used + 8 ? t->columns - used
                                         : 8,
                 &line);
    printf("%.*s\n", (int)line.len, (const char *)line.data);
    const char *reason =
        s->truncated ? json_string_value(json_object_get(s->info, "reason")) : NULL;
    const char *trouble = json_string_value(json_object_get(s->info, "trouble"));
    if (reason)
        printf("     truncated: %s\n", say_clean(reason, text, sizeof text));
    if (trouble)
        printf("     problem: %s\n", say_clean(trouble, text, sizeof text));
}

static void episode_on_step(void *data, const struct gym_step *s)
{
    const struct episode *t = data;
    if (t->record && s->number == 0)
        episode_put_line(t->record, trajectory_head(t->setup.env, t->agent));
    if (t->record)
        episode_put_line(t->record, trajectory_step(s));
    if (!t->options->json) {
        episode_put_step(t, s);
    } else if (s->number > 0) {
        json_t *o = trajectory_step(s); /* a trajectory has more members than what is printed */
        json_object_del(o, "seconds");
        episode_put_line(stdout, o);
    }
    output_flush();
}

static int episode_play(struct episode *t, struct policy *p, struct error *err)
{
    struct gym_episode e;
    const struct task *task = t->setup.task;
    char text[1024] = "", clean[4096];
    int r = policy_play(p, t->setup.env, t->options->seed, false, episode_on_step, t, &e, err);
    if (r < 0)
        return gym_failed(err);
    if (t->record)
        episode_put_line(t->record, trajectory_end(t->setup.env));
    if (t->options->json) {
        episode_put_line(stdout, trajectory_end(t->setup.env));
    } else {
        double rate = isnan(e.pass_rate) ? 0 : e.pass_rate;
        printf("\n%s%s%s after %u call%s and %.3f s\n", rate >= 1 ? t->green : t->yellow,
               rate >= 1 ? "solved" : "not solved", t->plain, e.calls, e.calls == 1 ? "" : "s",
               e.seconds);
        printf("return %.6f = pass rate %.4f - calls %.4f - seconds %.6f\n", e.total, rate,
               task->call_price * e.calls, task->second_price * e.seconds);
    }
    /* What the agent has to say goes to people: to stderr where stdout is for programs. */
    bool failed = p->remark && p->remark(p, text, sizeof text);
    if (text[0] && t->options->json)
        say("%s", text);
    else if (text[0])
        printf("%s\n", say_clean(text, clean, sizeof clean));
    return failed ? 1 : 0;
}

/* What is not given otherwise is as it was recorded. */
static int episode_take_recorded(struct gym_options *o, struct trajectory *t, struct error *err)
{
    int r = trajectory_load(o->trajectory, t, err);
    if (r < 0)
        return r;
    const char *clock = json_string_value(json_object_get(t->head, "clock"));
    const json_t *seed = json_object_get(t->head, "seed");
    json_int_t steps = json_integer_value(json_object_get(t->head, "max_steps"));
    if (!o->task)
        o->task = json_string_value(json_object_get(t->head, "task"));
    if (!o->has_clock)
        o->virtual_clock = clock && strcmp(clock, "virtual") == 0;
    if (!o->max_steps && steps > 0 && steps <= TRAJECTORY_STEPS_MAX)
        o->max_steps = (uint64_t)steps;
    if (!o->has_seed && json_is_integer(seed)) {
        o->seed = (uint64_t)json_integer_value(seed);
        o->has_seed = true;
    }
    return 0;
}

static int gym_episode_run(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct error err = {0};
    int status;
    if (!gym_words(self, argc, argv, &o, &status))
        return status;
    const struct policy_kind *k = policy_find(o.agent ? o.agent : "random", &err);
    if (!k)
        return say_usage(&err);
    _cleanup_(trajectory_free) struct trajectory recorded = {0};
    struct episode t = {.options = &o,
                        .agent = k->name,
                        .columns = columns_of(STDOUT_FILENO),
                        .bold = say_colour(STDOUT_FILENO, "\033[1m"),
                        .dim = say_colour(STDOUT_FILENO, "\033[2m"),
                        .yellow = say_colour(STDOUT_FILENO, "\033[33m"),
                        .cyan = say_colour(STDOUT_FILENO, "\033[36m"),
                        .green = say_colour(STDOUT_FILENO, "\033[32m"),
                        .plain = say_colour(STDOUT_FILENO, "\033[0m")};
    int cancel = interrupt_watch(&err), r = cancel < 0 ? cancel : 0;
    if (r == 0 && gym_replays(&o))
        r = episode_take_recorded(&o, &recorded, &err);
    if (r == 0)
        r = gym_setup_open(&o, cancel, &t.setup, &err);
    if (r < 0)
        return gym_failed(&err);
    if (!o.has_seed)
        o.seed = t.setup.task->seed;

    struct policy_options with;
    struct settings *settings = NULL;
    struct policy *p = NULL;
    r = gym_policy_options(&o, strcmp(k->name, "model") == 0, &with, &settings, &err);
    if (r == 0)
        r = policy_open(k, t.setup.task, &with, &p, &err);
    if (r == 0 && o.record && !(t.record = fopen(o.record, "we")))
        r = error_errno(&err, errno, "cannot write %s", o.record);
    if (r == 0 && k->learns && !o.checkpoint)
        say("%s is untrained: give --checkpoint a file that 'hutch gym train' wrote", k->name);
    status = r == 0 ? episode_play(&t, p, &err) : gym_failed(&err);
    policy_free(p);
    settings_free(settings);
    bool lost = t.record && ferror(t.record);
    if (t.record && fclose(t.record) != 0)
        lost = true;
    if (lost)
        say("cannot write %s: %s", o.record, strerror(errno));
    gym_setup_close(&t.setup);
    return status ? status : lost ? EXIT_HUTCH : 0;
}

const struct command_body COMMAND_GYM_EPISODE = {
    .usage = "--task TASK [--agent NAME] [OPTIONS]",
    .options = {{GYM_OPTIONS, FOR_EPISODE}},
    .notes =
        "With --clock virtual the same seed prints the same bytes. The exit status is 0 whatever "
        "the reward, 1 if a replay differs from its recording, 130 after Ctrl-C, 125 if the "
        "episode could not be played.",
    .run = gym_episode_run};
