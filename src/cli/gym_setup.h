/* What the commands of `hutch gym` have in common: a task made ready, and the options as the layers
 * below take them. */
#pragma once

#include "commands.h"
#include "command_options.h"
#include "policy.h"
#include "settings.h"

struct gym_setup {
    struct task *task;
    struct gym_arena *arena;
    struct gym_env *env;
};

/* Reads the command line of a command that plays one task, and wants one to be named. False:
 * *ret_status says how it ended. */
bool gym_words(const struct command *self, int argc, char **argv, struct gym_options *o,
               int *ret_status);

/* For import_options.say: one line on stderr. */
void gym_say(void *data, const char *text);

/* A trajectory is played again: it says of which task it is. */
bool gym_replays(const struct gym_options *o);

/* A task by its name, of ours or of others. `name` NULL: the only one that --from leads to. */
int gym_task(const struct gym_options *o, const char *name, int cancel, struct task **ret,
             struct error *err);

/* --max-steps, for a task that was found otherwise. */
int gym_task_limit(const struct gym_options *o, struct task *t, struct error *err);

/* The task of the options with an arena and an environment, which ends what it does when `cancel`
 * is readable. */
int gym_setup_open(const struct gym_options *o, int cancel, struct gym_setup *ret,
                   struct error *err);
void gym_setup_close(struct gym_setup *p);
#define _cleanup_gym_setup_ _cleanup_(gym_setup_close)

struct arena_options gym_arena_options(const struct gym_options *o);

/* Options for agents. Settings are read, and their notes said, if one of the agents is a model. */
int gym_policy_options(const struct gym_options *o, bool model, struct policy_options *ret,
                       struct settings **ret_settings, struct error *err);

/* The exit status of a failure: 128 + N after a signal, which explains itself; else one line is
 * said. */
int gym_failed(const struct error *err);
