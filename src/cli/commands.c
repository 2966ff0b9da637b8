/* The table of commands, with the options of those that have tables of their own. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "command_options.h"
#include "commands.h"
#include "text.h"
#include "run_options.h"
#include "output.h"
#include "options.h"
#include "banned.h"

/* Of several commands; the target is a bool. */
static const struct option JSON_OPTION[] = {
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, 0, option_parse_flag},
    {0},
};

/* The option sets of a row. */
/* clang-format off */
#define NO_OPTIONS     {{0}}
#define ALL_OF(table)  {{table, OPTION_ALWAYS}}
#define BOX_MAKER(bit) {{RUN_OPTIONS, bit}, {BOX_OPTIONS, BOX_OPTION_NEW}}
#define AGENT_BOX(bit) {{RUN_OPTIONS, bit}, {BOX_OPTIONS, BOX_OPTION_AGENT}}
#define EXEC_OPTIONS   {{RUN_OPTIONS, FOR_EXEC}, {BOX_OPTIONS, BOX_OPTION_EXEC}}
#define OPTIONS(table, bit) {{table, bit}}
/* clang-format on */

/* hutch box */

#define FORK(member)  offsetof(struct fork_options, member)
#define APPLY(member) offsetof(struct apply_command_options, member)

static const struct option FORK_OPTIONS[] = {
    {"count", 'n', "N", "number of forks", "1", OPTION_ALWAYS, FORK(count), option_parse_count},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, FORK(json), option_parse_flag},
    {0},
};

static const struct option DIFF_OPTIONS[] = {
    {"stat", 0, NULL, "print one line per file", NULL, OPTION_ALWAYS, 0, option_parse_flag},
    {0},
};

enum { FOR_APPLY = 1, FOR_SYNC = 2 };

static const struct option APPLY_OPTIONS[] = {
    {"on-conflict", 0, "mine|theirs|markers",
     "keep the folder's version, the box's, or both with conflict markers", "none",
     FOR_APPLY | FOR_SYNC, APPLY(on_conflict), option_parse_string},
    {"allow-git-dirs", 0, NULL, "also apply files that make a folder a git directory", NULL,
     FOR_APPLY, APPLY(allow_git_dirs), option_parse_flag},
    {"new-folder", 0, NULL, "apply even if another folder is now at the workspace's path", NULL,
     FOR_APPLY, APPLY(new_folder), option_parse_flag},
    {0},
};

static const char NEW_NOTES[] =
    "Prints the ID of the box, which exists until 'hutch box rm' or the end of its --ttl. "
    "An ID may be shortened as long as it stays unique.";

static const char EXEC_NOTES[] = "The exit status is that of 'hutch run'.";

static const char APPLY_NOTES[] =
    "With PATHs, applies only those and what is below them. Where you and the box changed "
    "different lines of a text, both changes are merged. Other files that you changed since the "
    "box read them are conflicts: they are listed and left alone, and the exit status is 1; choose "
    "with --on-conflict. Commits that cannot be fast-forwarded go to refs/hutch/ID.";

static const char SYNC_NOTES[] =
    "Files that the box did not change show your version immediately. Files that you and the box "
    "changed are merged; conflicts are listed and stay as they are in the box, and the exit "
    "status is 1.";

static const char SET_NOTES[] =
    "The network changes immediately, between off and allow; connections that are no longer "
    "allowed end. With control groups, limits change immediately; without, for later commands.";

static const struct command BOX_COMMANDS[] = {
    {"box ", "new", "make a box", "[OPTIONS]", BOX_MAKER(FOR_NEW), NULL, NEW_NOTES,
     IN_HUTCH(command_box_new)},
    {"box ", "exec", "run a command in a box", "ID [OPTIONS] [--] COMMAND [ARG...]", EXEC_OPTIONS,
     NULL, EXEC_NOTES, IN_HUTCH(command_box_exec)},
    {"box ", "fork", "copy a box, with its files as they are now", "ID [-n N] [--json]",
     ALL_OF(FORK_OPTIONS), NULL, NULL, IN_HUTCH(command_box_fork)},
    {"box ", "snapshot", "save the files of a box", "ID [--json]", ALL_OF(JSON_OPTION), NULL, NULL,
     IN_HUTCH(command_box_snapshot)},
    {"box ", "restore", "restore the files of a box from a snapshot; its processes end",
     "ID SNAPSHOT", NO_OPTIONS, NULL, NULL, IN_HUTCH(command_box_restore)},
    {"box ", "diff", "show the changes of a box in git diff format", "ID [--stat]",
     ALL_OF(DIFF_OPTIONS), NULL, NULL, IN_HUTCH(command_box_diff)},
    {"box ", "apply", "apply the changes and commits of a box to its folder",
     "ID [OPTIONS] [PATH...]", OPTIONS(APPLY_OPTIONS, FOR_APPLY), NULL, APPLY_NOTES,
     IN_HUTCH(command_box_apply)},
    {"box ", "sync", "bring the changes of the folder into its box",
     "ID [--on-conflict CHOICE] [PATH...]", OPTIONS(APPLY_OPTIONS, FOR_SYNC), NULL, SYNC_NOTES,
     IN_HUTCH(command_box_sync)},
    {"box ", "set", "change the network or limits of a running box", "ID OPTION...",
     OPTIONS(BOX_OPTIONS, BOX_OPTION_SET), NULL, SET_NOTES, IN_HUTCH(command_box_set)},
    {"box ", "ls", "list the boxes", "[--json]", ALL_OF(JSON_OPTION), NULL, NULL,
     IN_HUTCH(command_box_ls)},
    {"box ", "rm", "remove boxes and end their processes", "ID...", NO_OPTIONS, NULL, NULL,
     IN_HUTCH(command_box_rm)},
    {0},
};

/* hutch history */

#define LS(member)     offsetof(struct history_ls_options, member)
#define SHOW(member)   offsetof(struct history_show_options, member)
#define EXPORT(member) offsetof(struct history_export_options, member)
#define SEARCH(member) offsetof(struct history_search_options, member)

static const struct option LS_OPTIONS[] = {
    {"count", 'n', "N", "list only the last N", "all", OPTION_ALWAYS, LS(count),
     option_parse_count},
    {"workspace", 'w', "DIR", "list only the sessions of this folder", NULL, OPTION_ALWAYS,
     LS(workspace), option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, LS(json), option_parse_flag},
    {0},
};

static const struct option SHOW_OPTIONS[] = {
    {"full", 0, NULL, "also print all tool output, and what was undone or cleared", NULL,
     OPTION_ALWAYS, SHOW(full), option_parse_flag},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, SHOW(json), option_parse_flag},
    {0},
};

static const struct option EXPORT_OPTIONS[] = {
    {"format", 0, "md|html", "output format", "as FILE ends, else md", OPTION_ALWAYS,
     EXPORT(format), option_parse_string},
    {"output", 'o', "FILE", "write to this file", "stdout", OPTION_ALWAYS, EXPORT(output),
     option_parse_string},
    {0},
};

static const struct option SEARCH_OPTIONS[] = {
    {"count", 'n', "N", "print at most N passages", "10", OPTION_ALWAYS, SEARCH(count),
     option_parse_count},
    {"session", 0, "ID", "search only this session", NULL, OPTION_ALWAYS, SEARCH(session),
     option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, SEARCH(json), option_parse_flag},
    {0},
};

static const char ID_NOTES[] = "An ID may be shortened as long as it stays unique; 'last' is the "
                               "session that was used last.";

static const struct command HISTORY_COMMANDS[] = {
    {"history ", "ls", "list the sessions", "[-n N] [-w DIR] [--json]", ALL_OF(LS_OPTIONS), NULL,
     NULL, IN_AGENT(command_history_ls)},
    {"history ", "show", "print a session", "ID [--full] [--json]", ALL_OF(SHOW_OPTIONS), NULL,
     ID_NOTES, IN_AGENT(command_history_show)},
    {"history ", "export", "write a session as Markdown or HTML", "ID [--format F] [-o FILE]",
     ALL_OF(EXPORT_OPTIONS), NULL, ID_NOTES, IN_AGENT(command_history_export)},
    {"history ", "search", "search all sessions", "[-n N] [--session ID] [--json] WORDS...",
     ALL_OF(SEARCH_OPTIONS), NULL, NULL, IN_AGENT(command_history_search)},
    {"history ", "rm", "delete sessions and their boxes", "ID...", NO_OPTIONS, NULL, ID_NOTES,
     IN_AGENT(command_history_rm)},
    {0},
};

/* hutch gym */

enum {
    FOR_TASKS = 1,
    FOR_EPISODE = 2,
    FOR_TRAIN = 4,
    FOR_EVAL = 8,
    FOR_BENCH = 16,
    FOR_PLAY = FOR_EPISODE | FOR_TRAIN | FOR_EVAL | FOR_BENCH,
    FOR_ALL = FOR_TASKS | FOR_PLAY
};

#define GYM(member) offsetof(struct gym_options, member)

static int parse_seed(void *target, const struct option *self, const char *value, struct error *err)
{
    struct gym_options *o = target;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end)
        return error_set(err, EINVAL, "'%s' is not a whole number", value);
    if (errno || n > INT64_MAX)
        return error_set(err, EINVAL, "'%s' is too large", value);
    o->seed = n;
    o->has_seed = true;
    return 0;
}

static int parse_clock(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    struct gym_options *o = target;
    if (strcmp(value, "wall") != 0 && strcmp(value, "virtual") != 0)
        return error_set(err, EINVAL, "'%s' is not wall or virtual", value);
    o->virtual_clock = *value == 'v';
    o->has_clock = true;
    return 0;
}

static int parse_share(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    double n;
    if (units_parse_decimal(value, &n) < 0 || n > 1)
        return error_set(err, EINVAL, "'%s' is not a number from 0 to 1", value);
    double *field = (void *)((char *)target + self->field);
    *field = n;
    return 0;
}

#define GYM_STRING(name, arg, member, where, fallback, help)                                       \
    {                                                                                              \
        name, 0, arg, help, fallback, where, GYM(member), option_parse_string                      \
    }
#define GYM_COUNT(name, arg, member, where, fallback, help)                                        \
    {                                                                                              \
        name, 0, arg, help, fallback, where, GYM(member), option_parse_count                       \
    }
#define GYM_FLAG(name, member, where, help)                                                        \
    {                                                                                              \
        name, 0, NULL, help, NULL, where, GYM(member), option_parse_flag                           \
    }

static const struct option GYM_OPTIONS[] = {
    GYM_STRING("task", "TASK", task, FOR_EPISODE | FOR_TRAIN, NULL,
               "task name, or path of a task folder"),
    GYM_STRING("task", "TASK", task, FOR_BENCH, "bugfix_1", "task name, or path of a task folder"),
    GYM_STRING("task", "TASK[,TASK...]", task, FOR_EVAL, "all", "tasks to play"),
    GYM_STRING("agent", "random|greedy|qlearn|search|model|replay", agent, FOR_EPISODE, "random",
               "agent that acts"),
    GYM_STRING("agent", "qlearn", agent, FOR_TRAIN, "qlearn", "agent that learns"),
    GYM_STRING("agent", "random|solution", agent, FOR_BENCH, "solution",
               "agent that acts; solution applies the task's own patches"),
    GYM_STRING("agents", "NAME[,NAME...]", agent, FOR_EVAL, "random,greedy,qlearn",
               "agents to compare: random, greedy, qlearn, search, model"),
    {"seed", 0, "N", "seed of the agent's random numbers", "the task's",
     FOR_EPISODE | FOR_TRAIN | FOR_BENCH, GYM(seed), parse_seed},
    GYM_COUNT("seeds", "N", seeds, FOR_EVAL, "10",
              "play one episode per agent and task with each of the seeds 1 to N"),
    GYM_COUNT("episodes", "N", episodes, FOR_TRAIN, "2000",
              "episodes to play, including those before --resume"),
    GYM_COUNT("episodes", "N", episodes, FOR_EVAL, "2000",
              "training episodes per seed, for agents that learn"),
    GYM_COUNT("episodes", "N", episodes, FOR_BENCH, "1000", "episodes to play"),
    GYM_COUNT("envs", "N", envs, FOR_BENCH, "8", "environments in parallel"),
    {"epsilon-start", 0, "F", "exploration rate at the start", "1", FOR_TRAIN, GYM(epsilon_start),
     parse_share},
    {"epsilon-end", 0, "F", "exploration rate at the end", "0.05", FOR_TRAIN, GYM(epsilon_end),
     parse_share},
    GYM_COUNT("epsilon-decay", "N", epsilon_decay, FOR_TRAIN, "1500",
              "episodes over which the exploration rate falls"),
    {"alpha", 0, "F", "learning rate", "1", FOR_TRAIN, GYM(alpha), parse_share},
    {"gamma", 0, "F", "discount factor", "1", FOR_TRAIN, GYM(gamma), parse_share},
    GYM_STRING("out", "DIR", out, FOR_TRAIN, "hutch-train/TASK-SEED",
               "write checkpoint.json, episodes.csv and curve.svg to this folder"),
    GYM_FLAG("resume", resume, FOR_TRAIN, "continue from the checkpoint in the output folder"),
    GYM_STRING("checkpoint", "FILE", checkpoint, FOR_EPISODE | FOR_EVAL, NULL,
               "qlearn: checkpoint of a training run"),
    GYM_STRING("model", "PROVIDER/NAME", model, FOR_EPISODE | FOR_EVAL, "as configured",
               "model: the model to use"),
    GYM_FLAG("trust", trust, FOR_EPISODE | FOR_EVAL,
             "trust the current folder's .env and .hutch/config.json for this run"),
    GYM_STRING("trajectory", "FILE", trajectory, FOR_EPISODE, NULL, "replay: recorded trajectory"),
    GYM_STRING("record", "FILE", record, FOR_EPISODE, NULL, "write the trajectory to this file"),
    {"clock", 0, "wall|virtual", "measure real time, or a fixed time per action", "wall", FOR_PLAY,
     0, parse_clock},
    GYM_COUNT("max-steps", "N", max_steps, FOR_PLAY, "the task's",
              "truncate an episode after N steps"),
    GYM_FLAG("no-cache", no_cache, FOR_PLAY, "run every action, even if its result is known"),
    GYM_FLAG("no-check", no_check, FOR_TASKS, "list the tasks without checking them"),
    GYM_COUNT("jobs", "N", jobs, FOR_TASKS | FOR_EVAL, "number of processors", "tasks in parallel"),
    GYM_STRING("tasks", "DIR", tasks, FOR_ALL, "hutch's own", "folder of tasks"),
    GYM_STRING("from", "KIND:WHERE", from, FOR_ALL, NULL,
               "import tasks: quixbugs:DIR, swebench:FILE, harbor:DIR"),
    GYM_STRING("repos", "DIR", repos, FOR_ALL, NULL, "swebench: folder of the repositories"),
    GYM_STRING("image", "NAME|DIR", image, FOR_ALL, NULL,
               "harbor: root filesystem, or a folder with one per task"),
    GYM_FLAG("json", json, FOR_ALL, "print JSON"),
    {0},
};

static const char TASKS_NOTES[] =
    "A task is correct if its tests pass with the whole solution, and fail with the original, "
    "with parts of the solution and with the other patches. The exit status is 1 if a task is "
    "not.";

static const char EPISODE_NOTES[] =
    "With --clock virtual the same seed prints the same bytes. The exit status is 0 whatever the "
    "reward, 1 if a replay differs from its recording, 130 after Ctrl-C, 125 if the episode could "
    "not be played.";

static const char TRAIN_NOTES[] =
    "Ctrl-C stops at once and saves all finished episodes; --resume continues from there. The "
    "exit status is 0, 130 after Ctrl-C, 125 if something failed.";

static const char EVAL_NOTES[] =
    "qlearn is trained first, once per seed, unless --checkpoint is given (for one task). The "
    "intervals are 95 % confidence intervals of the mean (bootstrap). The exit status is 0, 1 if "
    "an episode could not be played, 130 after Ctrl-C, 125 if something else failed.";

static const char BENCH_NOTES[] = "With --no-cache every test runs.";

static const struct command GYM_COMMANDS[] = {
    {"gym ", "tasks", "list and check the tasks", "[OPTIONS] [TASK...]",
     OPTIONS(GYM_OPTIONS, FOR_TASKS), NULL, TASKS_NOTES, IN_AGENT(command_gym_tasks)},
    {"gym ", "episode", "play one episode", "--task TASK [--agent NAME] [OPTIONS]",
     OPTIONS(GYM_OPTIONS, FOR_EPISODE), NULL, EPISODE_NOTES, IN_AGENT(command_gym_episode)},
    {"gym ", "train", "train an agent on a task", "--task TASK [--episodes N] [OPTIONS]",
     OPTIONS(GYM_OPTIONS, FOR_TRAIN), NULL, TRAIN_NOTES, IN_AGENT(command_gym_train)},
    {"gym ", "eval", "compare agents over tasks and seeds",
     "[--task TASK,...] [--agents NAME,...] [OPTIONS]", OPTIONS(GYM_OPTIONS, FOR_EVAL), NULL,
     EVAL_NOTES, IN_AGENT(command_gym_eval)},
    {"gym ", "bench", "measure episodes per second", "[--task TASK] [--envs N] [OPTIONS]",
     OPTIONS(GYM_OPTIONS, FOR_BENCH), NULL, BENCH_NOTES, IN_AGENT(command_gym_bench)},
    {0},
};

/* hutch */

#define TRUST(member) offsetof(struct trust_options, member)

static const struct option TRUST_OPTIONS[] = {
    {"list", 0, NULL, "list the folders you decided about", NULL, OPTION_ALWAYS, TRUST(list),
     option_parse_flag},
    {"show", 0, NULL, "show what the files of DIR would set, without trusting them", NULL,
     OPTION_ALWAYS, TRUST(show), option_parse_flag},
    {"revoke", 0, "DIR", "delete the decision about this folder", NULL, OPTION_ALWAYS,
     TRUST(revoke), option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, TRUST(json), option_parse_flag},
    {0},
};

static const char RUN_NOTES[] =
    "Sizes are 512M, 2G; times are 250ms, 30s, 5m, or none. The exit status is the command's; "
    "128+N if signal N killed it; 124 if a time limit did; 125 if the box could not be made; 126 "
    "if the command could not be started, 127 if it was not found; 1 if --apply left conflicts.";

static const char TOOL_NOTES[] =
    "The input is a JSON object, as an argument or (with -) on stdin; 'hutch tool --list' lists "
    "the tools. A fresh box is removed after the call, with its changes, unless --apply or --mode "
    "direct is given; use --box for a box that stays. The exit status is 0, or 1 if the tool "
    "reported an error.";

static const char MCP_NOTES[] =
    "An MCP client starts this command and talks to it on stdin and stdout; docs/mcp.md shows how "
    "to configure clients. A fresh box is removed at the end, with its changes, unless --apply or "
    "--mode direct is given; use --box for a box that stays.";

static const char CHAT_NOTES[] =
    "The agent works in a box. It shows its changes at the end of a turn; they reach your folder "
    "when you apply them. /help lists the commands of the chat.";

static const char ASK_NOTES[] =
    "PROMPT may be several words; - reads it from stdin. The exit status is 0 if the agent "
    "finished the task, 1 if it gave up, reached a limit or left conflicts, 130 after Ctrl-C, 125 "
    "if the model or the box failed. Changes that are not applied stay in the box; continue the "
    "session with --resume ID.";

static const char TRUST_NOTES[] =
    "Until you trust a folder, hutch ignores what its .env and .hutch/config.json say about "
    "endpoints, keys, models and MCP servers. Trust ends when one of these files changes. DIR "
    "defaults to the current folder.";

const struct command COMMANDS[] = {
    {"", "chat", "work with an agent (also just 'hutch')", "[OPTIONS] [WORDS...]",
     AGENT_BOX(FOR_CHAT), NULL, CHAT_NOTES, IN_AGENT(command_chat)},
    {"", "ask", "run one task without interaction", "[OPTIONS] PROMPT", AGENT_BOX(FOR_ASK), NULL,
     ASK_NOTES, IN_AGENT(command_ask)},
    {"", "history", "list, show, export, search or delete sessions", "COMMAND ...", NO_OPTIONS,
     HISTORY_COMMANDS, NULL, IN_GROUP},
    {"", "run", "run one command in a fresh box", "[OPTIONS] [--] COMMAND [ARG...]",
     BOX_MAKER(FOR_RUN), NULL, RUN_NOTES, IN_HUTCH(command_run)},
    {"", "box", "make, use, fork, apply and remove boxes", "COMMAND ...", NO_OPTIONS, BOX_COMMANDS,
     NULL, IN_GROUP},
    {"", "tool", "call one of the agents' tools", "[OPTIONS] NAME [JSON | -]", BOX_MAKER(FOR_TOOL),
     NULL, TOOL_NOTES, IN_AGENT(command_tool)},
    {"", "mcp", "serve the tools by MCP on stdin and stdout", "[OPTIONS]", BOX_MAKER(FOR_MCP), NULL,
     MCP_NOTES, IN_AGENT(command_mcp)},
    {"", "gym", "train and evaluate agents", "COMMAND ...", NO_OPTIONS, GYM_COMMANDS, NULL,
     IN_GROUP},
    {"", "trust", "let a folder's files choose endpoints, models and servers",
     "[--list | --show | --revoke DIR] [--json] [DIR]", ALL_OF(TRUST_OPTIONS), NULL, TRUST_NOTES,
     IN_HUTCH(command_trust)},
    {"", "doctor", "check what isolation this host supports", "[--json]", ALL_OF(JSON_OPTION), NULL,
     NULL, IN_HUTCH(command_doctor)},
    {"", "help", "print this text, or the help of a command", "[--json] [COMMAND...]",
     ALL_OF(JSON_OPTION), NULL, NULL, IN_HUTCH(command_help)},
    {"", "version", "print the version", "", NO_OPTIONS, NULL, NULL, IN_HUTCH(command_version)},
    {0},
};

const struct command *command_find(const struct command *table, const char *name)
{
    for (const struct command *c = table; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int command_unknown(const struct command *table, const char *name)
{
    const char *of = table->of;
    struct nearest near = nearest_to(name, strlen(name));
    for (const struct command *c = table; c->name; c++)
        nearest_offer(&near, c->name);
    if (near.best)
        say("there is no command '%s%s'; did you mean '%s%s'?", of, name, of, near.best);
    else
        say("there is no command '%s%s'; see 'hutch help'", of, name);
    return EXIT_USAGE;
}

bool command_words(const struct command *self, int argc, char **argv, void *target, int min,
                   int max, int *ret_n_words, int *ret_status)
{
    struct error err = {0};
    int n;
    int r = options_parse_mixed(self->options, argc, argv, target, &n, &err);
    if (r == OPTIONS_HELP) {
        *ret_status = help_command(self);
        return false;
    }
    if (r < 0) {
        *ret_status = say_usage(&err);
        return false;
    }
    if (n < min || (max >= 0 && n > max)) {
        say("%s; usage: hutch %s%s %s", n < min ? "missing arguments" : "too many arguments",
            self->of, self->name, self->usage);
        *ret_status = EXIT_USAGE;
        return false;
    }
    *ret_n_words = n;
    return true;
}
