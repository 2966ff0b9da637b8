/*
 * The commands of the chat. What the user enters is a command (`/undo 2`), a shell command for the
 * box (`!ls`) or a message to the model; all three are run in the same way (conversation.h).
 *
 * A command is one row: parsing, /help, completion and suggestions for typos read CHAT_COMMANDS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"
#include "error.h"

struct chat_entry;
struct chat_result;
struct conversation;

/* What may follow the name. */
enum command_args {
    ARGS_NONE,
    ARGS_TEXT,
    ARGS_OPTIONAL_TEXT,
    ARGS_OPTIONAL_NUMBER,
    ARGS_ATTEMPTS, /* [N CMD | off] */
    ARGS_CHOICE,   /* [mine|theirs|markers] [PATH…] */
};

enum command_completes {
    COMPLETES_NOTHING,
    COMPLETES_SESSIONS,
    COMPLETES_MODELS,
    COMPLETES_CHOICES,
};

#define CHAT_CHANGES_FILES 1u /* the files of the box may be different afterwards */
#define CHAT_REVIEWS       2u /* pending changes are offered for review afterwards */
#define CHAT_INTERNAL      4u /* asks for names to complete: the user does not see it run */

struct chat_command {
    const char *name;  /* without the slash; NULL: not entered by name */
    const char *alias; /* or NULL */
    const char *args;
    const char *help;
    enum command_args takes;
    enum command_completes completes;
    unsigned flags;
    const char *busy; /* for the status line while it runs; NULL: "working" */
    /* Returns 0 or a negative errno with the text set. NULL: the mode (screen or plain) does it, at
     * once and without the agent. */
    int (*run)(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
               struct error *err);
};

/* In the order of /help; NULL ends the table. */
extern const struct chat_command *const CHAT_COMMANDS[];

extern const struct chat_command CHAT_HELP, CHAT_KEYS, CHAT_QUIT;
extern const struct chat_command CHAT_DIFF, CHAT_APPLY, CHAT_SYNC, CHAT_UNDO;
extern const struct chat_command CHAT_FORK, CHAT_CLEAR, CHAT_LOAD, CHAT_SESSIONS;
extern const struct chat_command CHAT_EXPORT, CHAT_MODEL, CHAT_COMPACT, CHAT_COST;
extern const struct chat_command CHAT_PLAN, CHAT_TOOLS, CHAT_ATTEMPTS, CHAT_NET, CHAT_SET;

/* Not entered by name. */
extern const struct chat_command CHAT_OPEN; /* opens the agent: the first of all */
extern const struct chat_command CHAT_MESSAGE, CHAT_SHELL;
extern const struct chat_command CHAT_FILE_NAMES, CHAT_SESSION_NAMES;

/* How a conflict is resolved, in the order of enum apply_choice; the first has no name. NULL ends
 * it. */
extern const char *const CONFLICT_CHOICES[];

/* What the user entered. */
struct chat_entry {
    const struct chat_command *command; /* NULL: nothing */
    char *text;                         /* argument, message, shell command; or NULL */
    unsigned n;                         /* number, or enum apply_choice; 0: not given */
};
void chat_entry_free(struct chat_entry *l);

/* -EINVAL with a message for the user if it is an unknown or a wrong command. */
int chat_entry_parse(const char *entered, struct chat_entry *ret, struct error *err);

/* The command of that name or alias; NULL: none. */
const struct chat_command *chat_command_find(const char *name, size_t n);

/* The list for /help. */
int chat_command_help(struct buf *out);
