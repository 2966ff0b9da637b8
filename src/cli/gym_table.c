/* `hutch gym`: the table of its subcommands. hutch-agent implements them (gym*.c). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "gym_options.h"
#include "say.h"
#include "units.h"
#include "banned.h"

enum {
    FOR_TASKS = 1,
    FOR_EPISODE = 2,
    FOR_TRAIN = 4,
    FOR_EVAL = 8,
    FOR_BENCH = 16,
    FOR_PLAY = FOR_EPISODE | FOR_TRAIN | FOR_EVAL | FOR_BENCH,
    FOR_ALL = FOR_TASKS | FOR_PLAY
};

#define FIELD(member) offsetof(struct gym_options, member)

static int parse_seed(void *target, const struct option *self, const char *value, struct error *err)
{
    struct gym_options *o = target;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end)
        return error_set(err, EINVAL, "--seed: '%s' is not a whole number", value);
    if (errno || n > INT64_MAX)
        return error_set(err, EINVAL, "--seed: '%s' is too large", value);
    o->seed = n;
    o->has_seed = true;
    return 0;
}

static int parse_clock(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    struct gym_options *o = target;
    if (strcmp(value, "wall") != 0 && strcmp(value, "virtual") != 0)
        return error_set(err, EINVAL, "--clock: '%s' is not wall or virtual", value);
    o->virtual_clock = *value == 'v';
    o->has_clock = true;
    return 0;
}

static int parse_share(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    double n;
    if (units_parse_decimal(value, &n) < 0 || n > 1)
        return error_set(err, EINVAL, "--%s: '%s' is not a number from 0 to 1", self->name, value);
    double *field = (void *)((char *)target + self->field);
    *field = n;
    return 0;
}

static const struct option GYM_OPTIONS[] = {
    {"task", 0, "NAME", "the task: a name, or the path of a folder", NULL, FOR_EPISODE | FOR_TRAIN,
     FIELD(task), option_parse_string},
    {"task", 0, "NAME", "the task: a name, or the path of a folder", "bugfix_1", FOR_BENCH,
     FIELD(task), option_parse_string},
    {"task", 0, "NAME[,NAME...]", "the tasks, or all", "all", FOR_EVAL, FIELD(task),
     option_parse_string},
    {"agent", 0, "NAME", "random, greedy, qlearn, search, model or replay", "random", FOR_EPISODE,
     FIELD(agent), option_parse_string},
    {"agent", 0, "NAME", "who learns: qlearn", "qlearn", FOR_TRAIN, FIELD(agent),
     option_parse_string},
    {"agent", 0, "NAME", "random, or solution: the patches that solve the task, and submit",
     "solution", FOR_BENCH, FIELD(agent), option_parse_string},
    {"agents", 0, "NAME[,NAME...]", "who is compared", "random,greedy,qlearn", FOR_EVAL,
     FIELD(agent), option_parse_string},
    {"seed", 0, "N", "of the agent's dice", "the task's", FOR_EPISODE | FOR_TRAIN | FOR_BENCH,
     FIELD(seed), parse_seed},
    {"seeds", 0, "N", "episodes of each agent on each task, with the seeds 1 to N", "10", FOR_EVAL,
     FIELD(seeds), option_parse_count},
    {"episodes", 0, "N", "how many are played, with those before --resume", "2000", FOR_TRAIN,
     FIELD(episodes), option_parse_count},
    {"episodes", 0, "N", "of training, with each seed anew, for agents that learn", "2000",
     FOR_EVAL, FIELD(episodes), option_parse_count},
    {"episodes", 0, "N", "how many are played", "1000", FOR_BENCH, FIELD(episodes),
     option_parse_count},
    {"envs", 0, "N", "environments at once", "8", FOR_BENCH, FIELD(envs), option_parse_count},
    {"epsilon-start", 0, "F", "share of episodes in which it explores, at first", "1", FOR_TRAIN,
     FIELD(epsilon_start), parse_share},
    {"epsilon-end", 0, "F", "the same, at last", "0.05", FOR_TRAIN, FIELD(epsilon_end),
     parse_share},
    {"epsilon-decay", 0, "N", "from at first to at last, it falls over so many episodes", "1500",
     FOR_TRAIN, FIELD(epsilon_decay), option_parse_count},
    {"alpha", 0, "F", "the learning rate", "1", FOR_TRAIN, FIELD(alpha), parse_share},
    {"gamma", 0, "F", "the discount", "1", FOR_TRAIN, FIELD(gamma), parse_share},
    {"out", 0, "DIR", "where checkpoint.json, episodes.csv and curve.svg go",
     "hutch-train/TASK-SEED", FOR_TRAIN, FIELD(out), option_parse_string},
    {"resume", 0, NULL, "go on from the checkpoint that is there", NULL, FOR_TRAIN, FIELD(resume),
     option_parse_flag},
    {"checkpoint", 0, "FILE", "qlearn: what it has learnt so far", NULL, FOR_EPISODE | FOR_EVAL,
     FIELD(checkpoint), option_parse_string},
    {"model", 0, "PROVIDER/NAME", "model: who is asked", "as configured", FOR_EPISODE | FOR_EVAL,
     FIELD(model), option_parse_string},
    {"trust", 0, NULL, "trust the current folder's .env and .hutch/config.json for this run", NULL,
     FOR_EPISODE | FOR_EVAL, FIELD(trust), option_parse_flag},
    {"trajectory", 0, "FILE", "replay: what was recorded", NULL, FOR_EPISODE, FIELD(trajectory),
     option_parse_string},
    {"record", 0, "FILE", "write the trajectory there", NULL, FOR_EPISODE, FIELD(record),
     option_parse_string},
    {"clock", 0, "wall|virtual",
     "what counts as a second: time itself, or a fixed price per action", "wall", FOR_PLAY, 0,
     parse_clock},
    {"max-steps", 0, "N", "steps after which an episode is cut", "the task's", FOR_PLAY,
     FIELD(max_steps), option_parse_count},
    {"no-cache", 0, NULL, "carry out everything, known or not", NULL, FOR_PLAY, FIELD(no_cache),
     option_parse_flag},
    {"no-check", 0, NULL, "only list them: nothing is carried out", NULL, FOR_TASKS,
     FIELD(no_check), option_parse_flag},
    {"jobs", 0, "N", "tasks at once", "as many as processors", FOR_TASKS | FOR_EVAL, FIELD(jobs),
     option_parse_count},
    {"tasks", 0, "DIR", "the folder of tasks", "those that came with hutch", FOR_ALL, FIELD(tasks),
     option_parse_string},
    {"from", 0, "KIND:WHERE", "tasks of others: quixbugs:DIR, swebench:FILE, harbor:DIR", NULL,
     FOR_ALL, FIELD(from), option_parse_string},
    {"repos", 0, "DIR", "swebench: the folder of the repositories", NULL, FOR_ALL, FIELD(repos),
     option_parse_string},
    {"image", 0, "NAME|DIR", "harbor: the root filesystem, or a folder with one per task", NULL,
     FOR_ALL, FIELD(image), option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, FOR_ALL, FIELD(json), option_parse_flag},
    {0},
};

static const char TASKS_NOTES[] =
    "Each task is carried out in boxes: its solution passes, the original does not, neither do "
    "parts of the "
    "solution nor\n"
    "other patches. The exit status is 0, or 1 if a task is not in order.\n";

static const char EPISODE_NOTES[] =
    "With --clock virtual the same seed prints the same bytes. The exit status is 0 however the "
    "episode "
    "went, "
    "1 if a replay\n"
    "differs from what was recorded, 130 after Ctrl-C, 125 if it could not be played.\n";

static const char TRAIN_NOTES[] =
    "Ctrl-C ends it at once, with all whole episodes saved; --resume goes on "
    "from there. The exit status is "
    "0, 130 after\n"
    "Ctrl-C, 125 if something failed.\n";

static const char EVAL_NOTES[] = "qlearn is trained first, with each seed anew, unless "
                                 "--checkpoint gives what it has learnt (of one "
                                 "task). An interval\n"
                                 "holds the mean with 95 % confidence (bootstrap). The exit status "
                                 "is 0, 1 if an episode could not be "
                                 "played, 130 after Ctrl-C,\n"
                                 "125 if something else failed.\n";

static const char BENCH_NOTES[] =
    "Figures are of this machine as it is now. With --no-cache every test runs.\n";

const struct command GYM_COMMANDS[] = {
    {"gym ", "tasks", "list the tasks, and check them", "[OPTIONS] [NAME...]", GYM_OPTIONS,
     FOR_TASKS, NULL, TASKS_NOTES, IN_AGENT(command_gym_tasks)},
    {"gym ", "episode", "play one episode", "--task NAME [--agent NAME] [OPTIONS]", GYM_OPTIONS,
     FOR_EPISODE, NULL, EPISODE_NOTES, IN_AGENT(command_gym_episode)},
    {"gym ", "train", "let an agent learn a task", "--task NAME [--episodes N] [OPTIONS]",
     GYM_OPTIONS, FOR_TRAIN, NULL, TRAIN_NOTES, IN_AGENT(command_gym_train)},
    {"gym ", "eval", "compare agents over tasks and seeds",
     "[--task NAME,...] [--agents NAME,...] [OPTIONS]", GYM_OPTIONS, FOR_EVAL, NULL, EVAL_NOTES,
     IN_AGENT(command_gym_eval)},
    {"gym ", "bench", "measure how fast episodes are played", "[--task NAME] [--envs N] [OPTIONS]",
     GYM_OPTIONS, FOR_BENCH, NULL, BENCH_NOTES, IN_AGENT(command_gym_bench)},
    {0},
};
