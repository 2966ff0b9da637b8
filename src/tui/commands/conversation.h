/*
 * The conversation with the agent, as the chat sees it: a command goes in, a result comes out, and
 * events happen on the way. The chat on the screen and the chat line by line both use it.
 *
 * One thread at a time runs commands; conversation_interrupt() may be called from any other,
 * conversation_interrupt_now() from a signal handler of the thread that runs them.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "chat_command.h"
#include "tui.h"

/* Called from the thread that runs the command. */
struct conversation_sink {
    bool redraws; /* what was shown can be removed again, as after /undo */
    void (*event)(void *data, const struct agent_event *e,
                  unsigned attempt);               /* attempt: 0, or 1… */
    void (*reset)(void *data);                     /* another conversation is shown from now on */
    void (*user)(void *data, const char *message); /* of a conversation that is shown again */
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

/* The chat line by line, where there is no screen (plain.c). */
int plain_chat(const struct tui_options *o, struct error *err);
