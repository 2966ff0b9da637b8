/*
 * The table of subcommands. Dispatch, help, `hutch help --json` and the suggestions for mistyped
 * names read it; a new subcommand is a file and a row.
 *
 * Two programs are built from the table. `hutch` is static and starts fast. `hutch-agent` has the
 * commands that need libcurl, SQLite or ncurses; `hutch` executes it, with the same argv, for every
 * row that says IN_AGENT.
 */
#pragma once

#include <stdbool.h>

#include "options.h"

struct command {
    const char *of;   /* what goes in front of the name: "" or "box " */
    const char *name; /* NULL ends a table */
    const char *summary;
    const char *usage;            /* what follows the name */
    struct option_set options[3]; /* ends with a NULL table */
    const struct command *group;  /* its own subcommands, or NULL */
    const char *notes;            /* more for --help, or NULL */
    /* The program under libexec/hutch that implements the command, if it is not hutch itself. */
    const char *program;
    /* argv holds what follows the name. Returns the exit status. NULL where `program` is another
     * program than this one. */
    int (*run)(const struct command *self, int argc, char **argv);
};

/* The end of a row: which program implements the command, and by which function. */
#define IN_HUTCH(function) NULL, function
#ifdef HUTCH_AGENT
#define IN_AGENT(function) "hutch-agent", function
#else
#define IN_AGENT(function) "hutch-agent", NULL
#endif
#define IN_GROUP NULL, NULL /* a row that only has subcommands */

extern const struct command COMMANDS[];

/* NULL if there is none of that name. */
const struct command *command_find(const struct command *table, const char *name);

/* Says that there is no such command, and suggests a similar name; returns the exit status. */
int command_unknown(const struct command *table, const char *name);

/* Prints the help of a command on stdout; returns the exit status. */
int help_command(const struct command *c);
int help_overview(void);

/*
 * Parses the options and words of a command, which may be mixed; prints --help; refuses less than
 * min or more than max words (-1: any number). Returns true if the command goes on, with its words
 * at the front of argv; else it exits with *ret_status.
 */
bool command_words(const struct command *self, int argc, char **argv, void *target, int min,
                   int max, int *ret_n_words, int *ret_status);

int command_chat(const struct command *self, int argc, char **argv);
int command_ask(const struct command *self, int argc, char **argv);
int command_run(const struct command *self, int argc, char **argv);
int command_tool(const struct command *self, int argc, char **argv);
int command_mcp(const struct command *self, int argc, char **argv);
int command_trust(const struct command *self, int argc, char **argv);
int command_doctor(const struct command *self, int argc, char **argv);
int command_help(const struct command *self, int argc, char **argv);
int command_version(const struct command *self, int argc, char **argv);

int command_box_new(const struct command *self, int argc, char **argv);
int command_box_exec(const struct command *self, int argc, char **argv);
int command_box_fork(const struct command *self, int argc, char **argv);
int command_box_snapshot(const struct command *self, int argc, char **argv);
int command_box_restore(const struct command *self, int argc, char **argv);
int command_box_diff(const struct command *self, int argc, char **argv);
int command_box_apply(const struct command *self, int argc, char **argv);
int command_box_set(const struct command *self, int argc, char **argv);
int command_box_sync(const struct command *self, int argc, char **argv);
int command_box_ls(const struct command *self, int argc, char **argv);
int command_box_rm(const struct command *self, int argc, char **argv);

int command_history_ls(const struct command *self, int argc, char **argv);
int command_history_show(const struct command *self, int argc, char **argv);
int command_history_export(const struct command *self, int argc, char **argv);
int command_history_search(const struct command *self, int argc, char **argv);
int command_history_rm(const struct command *self, int argc, char **argv);

int command_gym_tasks(const struct command *self, int argc, char **argv);
int command_gym_episode(const struct command *self, int argc, char **argv);
int command_gym_train(const struct command *self, int argc, char **argv);
int command_gym_eval(const struct command *self, int argc, char **argv);
int command_gym_bench(const struct command *self, int argc, char **argv);
