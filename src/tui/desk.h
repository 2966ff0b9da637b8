/*
 * The desk: the conversation at hand, and all that a person can have done with it. Both faces of
 * the chat, the screen and the lines, work with it: a job in, an answer out, and events on the way.
 *
 * One thread at a time does jobs; desk_interrupt() may be called from any other,
 * desk_interrupt_now() from a signal handler of the thread that does them.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "slash.h"
#include "tui.h"

/* Who is told what happens, from the thread that does the job. */
struct desk_sink {
    bool redraws; /* what was shown can be taken away again: an undone turn, say */
    void (*event)(void *data, const struct agent_event *e, unsigned attempt);
    void (*anew)(void *data);                      /* another conversation is shown from now on */
    void (*person)(void *data, const char *words); /* of one that is shown again */
    int (*confirm)(void *data, const char *title, const char *text,
                   int cancel); /* as tool_confirm.ask */
    void *data;
};

/* For status lines: a copy. */
struct desk_state {
    char session[HISTORY_ID_MAX];
    char model[160];
    char workspace[1024];
    unsigned turns;
    uint64_t context, window;
    struct model_usage usage;
    struct agent_money money;
};

/* What came of a job. */
struct answer {
    enum job_kind kind;
    int r; /* 0 or a negative errno, then `err` says it */
    struct error err;
    struct buf text; /* for the person: lines; may be empty */
    struct buf diff; /* a git diff */
    bool interrupted;
    bool changes_known; /* `changes` are what is pending now */
    struct agent_changes changes;
    struct desk_state state;
    json_t *names; /* for completion, strings: files of the workspace, or [ID, title] of sessions */
    json_t *models; /* of JOB_OPEN: names of models; for completion */
};
void answer_init(struct answer *a);
void answer_free(struct answer *a);

struct desk;

int desk_new(const struct tui_options *o, const struct desk_sink *sink, struct desk **ret,
             struct error *err);

/* Ends the conversation. What is pending stays, with its box. */
struct desk *desk_free(struct desk *d);

/* Does it. JOB_OPEN has to be the first; the answer is initialised here, and freed by the caller.
 */
void desk_do(struct desk *d, const struct job *job, struct answer *ret);

/* Ends what is under way, as soon as can be. */
void desk_interrupt(struct desk *d);
void desk_interrupt_now(struct desk *d);

/* `3 files, +41 −2`; `nothing` if there is none. */
int changes_summary(const struct agent_changes *c, struct buf *out);

/* `12,345` */
int put_number(struct buf *out, uint64_t n);
