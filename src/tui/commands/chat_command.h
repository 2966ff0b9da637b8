/*
 * The commands of the chat, and the conversation that they work on.
 *
 * What the user enters is a command (`/undo 2`), a shell command for the box (`!ls`) or a message
 * to the model; all three are run in the same way: a command goes in, a result comes out, and
 * events happen on the way. The chat on the screen and the chat line by line both use it. A command
 * is one row, listed in chat_commands.def: parsing, /help, completion and suggestions for typos
 * read it.
 *
 * One thread at a time runs commands; conversation_interrupt() may be called from any other,
 * conversation_interrupt_now() from a signal handler of the thread that runs them.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "text.h"
#include "tui.h"

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

#define CHAT_COMMAND(row) extern const struct chat_command row;
#include "chat_commands.def"
#undef CHAT_COMMAND

extern const struct chat_command *const CHAT_COMMANDS[]; /* NULL ends the table */

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

/* The conversation. */

/* Called from the thread that runs the command. */
struct conversation_sink {
    bool redraws; /* what was shown can be removed again, as after /undo */
    void (*event)(void *data, const struct agent_event *e,
                  unsigned attempt); /* attempt: 0, or 1… */
    /* A message of a conversation that is shown again; NULL: another one is shown from now on. */
    void (*user)(void *data, const char *message);
    /* As tool_confirm.ask. */
    int (*confirm)(void *data, const char *title, const char *text, int cancel);
    void *data;
};

/* For status lines: a copy. */
struct conversation_state {
    char session[HISTORY_ID_MAX];
    char model[160];
    unsigned turns;
    uint64_t context, window;
    struct agent_money money;
};

struct chat_result {
    const struct chat_command *command;
    int r; /* 0, or a negative errno with `err` */
    struct error err;
    struct buf text; /* lines for the user; may be empty */
    struct buf diff; /* a git diff */
    bool changes_known;
    struct agent_changes changes; /* pending now, if known */
    struct conversation_state state;
    json_t *names;  /* for completion: files, or [ID, title] of sessions */
    json_t *models; /* of CHAT_OPEN, for completion */
};
void chat_result_free(struct chat_result *r);

/* The members are for the commands. */
struct conversation {
    const struct tui_options *o;
    struct agent_options options; /* with what was chosen since */
    struct conversation_sink sink;
    struct agent *agent;   /* NULL before CHAT_OPEN */
    pthread_mutex_t lock;  /* for replacing `agent`, which conversation_interrupt() uses */
    int cancel;            /* eventfd: readable once the running command must end */
    _Atomic bool stopping; /* the same, to ask afterwards */
    unsigned attempts;     /* at each message; 0 or 1: one */
    char *test;            /* that picks the best attempt */
    unsigned shells;       /* shell commands of the user so far */
    char shell_id[16];     /* call ID of the running one: begins with ! */
};

int conversation_new(const struct tui_options *o, const struct conversation_sink *sink,
                     struct conversation **ret, struct error *err);

/* Pending changes stay, with their box. */
void conversation_free(struct conversation *c);

/* Runs a command that has a `run` function; CHAT_OPEN must be the first. The caller frees the
 * result. */
void conversation_run(struct conversation *c, const struct chat_entry *entry,
                      struct chat_result *ret);

/* End the running command as soon as possible. */
void conversation_interrupt(struct conversation *c);
void conversation_interrupt_now(struct conversation *c);

/* `3 files, +41 −2 not applied; kept in the session. Resume it with hutch --resume ID`: for the end
 * of the chat. */
int conversation_farewell(const struct conversation_state *s, const struct agent_changes *pending,
                          struct buf *out);

/* For the commands. */

/* Fits agent_sink.event. */
void conversation_emit(void *conversation, const struct agent_event *e);

/* Replaces the agent, and closes the one before. */
void conversation_set_agent(struct conversation *c, struct agent *agent);

/* Fills ret->changes. */
int conversation_pending(struct conversation *c, struct chat_result *ret, struct error *err);

/* The tools of the box; NULL with the text set if it has not started. */
struct tool_session *conversation_tools(struct conversation *c, struct error *err);

/* Shows the conversation again; of a long one the last part. */
int conversation_replay(struct conversation *c, struct error *err);

/*
 * Completion of the word at the cursor: a command's name after a leading /, sessions, models or
 * choices after some commands, and files of the workspace for a word with @ before it or with a
 * slash or a dot in it.
 */

#define COMPLETION_MAX 20 /* names that are offered */

/* What to complete from; NULL: not known yet. Borrowed. */
struct completion_names {
    json_t *files;    /* strings */
    json_t *sessions; /* [ID, title] */
    json_t *models;   /* strings */
};

/* The names that are missing to complete this word. */
enum completion_wants { WANTS_NOTHING, WANTS_FILES, WANTS_SESSIONS };

struct completion {
    size_t from, to; /* bytes of the text that a name replaces */
    const char *names[COMPLETION_MAX], *details[COMPLETION_MAX]; /* of tables or completion_names */
    size_t n;
    const char *suffix; /* added after the chosen name: a blank, or nothing */
    enum completion_wants wants;
    bool automatic; /* shown without Tab */
};

void completion_find(const char *text, size_t n, size_t cursor, const struct completion_names *from,
                     struct completion *ret);

/* How well the typed text matches a name: larger is better, -1: not at all. A match in the last
 * part of a path is better, then one anywhere, then the letters in order; shorter names win.
 * Capitals in the typed text must match exactly. */
int completion_score(const char *typed, size_t n, const char *name);
