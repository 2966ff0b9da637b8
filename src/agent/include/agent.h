/*
 * An agent: a model that works in a box and keeps a history. This is what frontends use; turn.c has
 * the loop.
 *
 * One thread at a time uses an agent; agent_interrupt() may be called from any thread or signal
 * handler.
 */
#pragma once

#include "event.h"
#include "history.h"
#include "session.h"
#include "model_choice.h"
#include "git_box.h"

struct agent;

struct agent_options {
    const struct box_options *box; /* resolved; workspace included */
    struct settings *settings;     /* borrowed */
    const char *model;             /* PROVIDER/NAME; NULL: the configured one */
    const char *start;       /* folder of the workspace that the shell starts in; NULL: its top */
    const char *resume;      /* a session's ID; NULL: a new one */
    const char *histories;   /* the folder of the sessions; NULL: the person's */
    const char *system_file; /* instead of the built-in system prompt; NULL */
    const char *record;      /* see model_spec */
    uint64_t max_tokens;     /* of all answers of a turn together; 0: none */
    unsigned max_turns;      /* answers of the model per turn of the person; 0: none */
    double max_cost;         /* dollars per turn of the person; 0: none */
    bool box_options_given;  /* by the person; they do not change a box that exists already */
    bool unattended;         /* nobody can answer questions: `ask` */
    bool foreign;            /* it works for somebody else than this process's user: without the
                                tools that work on the host */
    struct tool_host host;   /* for host-side tools; its folder and mode are the box's */
};

int agent_open(const struct agent_options *o, const struct agent_sink *sink, struct agent **ret,
               struct error *err);

/* With `keep` the box stays if it has changes that were not applied; else it is removed. */
struct agent *agent_close(struct agent *a, bool keep);

/* Lets go of it between two turns: history and box stay as they are, snapshots and background
 * commands included, for an agent that is opened with `resume`. */
struct agent *agent_leave(struct agent *a);

/* Runs one turn, from the person's words to the model's last answer. 0 also when it was interrupted
 * or a limit ended it (AGENT_DONE says so); a negative errno when the model could not be reached:
 * nothing is lost, and the conversation can continue from there. */
int agent_turn(struct agent *a, const char *words, struct error *err);

/* Ends the current turn and what it runs in the box. Async-signal-safe. */
void agent_interrupt(struct agent *a);

/* Drops an interrupt that came while no turn was running. */
void agent_forget_interrupt(struct agent *a);

/* Adds text for the model to the person's next message: what the person did meanwhile, say. */
void prompt_note(struct agent *a, const char *text, size_t n);

/* Undoes the last n turns: the conversation, and the files in the box, including what commands did.
 * Files that were applied stay in the folder; the box's changes revert them then. */
struct agent_undone {
    unsigned first, last; /* turns */
    enum {
        UNDO_NO_CHANGES, /* they ran nothing that may change files */
        UNDO_RESTORED,
        UNDO_STATE_GONE, /* the box was made again since: files stay as they are */
    } files;
    size_t restored; /* files that are different in the box now */
    size_t applied;  /* files that the pending changes revert in the folder */
    size_t failed;   /* applied files whose earlier state could not be restored, and why */
    char failures[512];
};
int agent_undo(struct agent *a, unsigned n, struct agent_undone *ret, struct error *err);

/* What it did, as lines for a person. */
int agent_undone_text(const struct agent_undone *u, struct buf *out);

/* A second agent from the end of turn `turn` (0: now), with a history and a box of its own. */
int agent_fork(struct agent *a, unsigned turn, const struct agent_sink *sink, struct agent **ret,
               struct error *err);

int agent_changes(struct agent *a, struct agent_changes *ret, struct error *err);
int agent_diff(struct agent *a, int out, struct error *err);

/* The session and the disk's size are filled in here; `o` may be NULL. Returns the number of
 * conflicts and refusals, or a negative errno. */
int agent_apply(struct agent *a, const struct tool_apply_options *o, struct error *err);

/* Brings the folder's present state into the box, merged with the box's changes. */
int agent_sync(struct agent *a, const struct apply_options *o, const struct apply_report *report,
               struct error *err);

int agent_set_model(struct agent *a, const char *given, struct error *err);
int agent_compact(struct agent *a, struct error *err);
int agent_clear(struct agent *a, struct error *err); /* a new conversation; the files stay */

/* For status lines. */
struct agent_state {
    const char *session, *model, *workspace; /* borrowed until the next call */
    unsigned turns;
    uint64_t context, window;
    struct model_usage usage;
    struct agent_money money;
    size_t running; /* background handles */
};
void agent_state(struct agent *a, struct agent_state *ret);
struct history *agent_history(struct agent *a);
struct tool_session *agent_tools(struct agent *a); /* NULL: the box did not start */
const char *agent_box(struct agent *a);            /* its ID for `hutch box`; NULL likewise */

/* --attempts N --test CMD: forks the agent's box n ways, lets n conversations work on the goal in
 * parallel, tests each in a clean fork, and continues with the best: most tests passed, then the
 * smallest diff. Events of attempt i carry its number. */
struct attempts_options {
    unsigned n;
    const char *test;
};
struct attempt {
    char session[HISTORY_ID_MAX];
    bool ended_well, tested;
    int test_status;         /* exit status of the test command */
    uint64_t passed, failed; /* tests, where the command's runner was understood */
    uint64_t added, deleted; /* lines of its diff */
    size_t files;
    struct model_usage usage;
    struct agent_money money;
    char why[160]; /* what went wrong, or empty */
};
struct attempts_sink {
    void (*event)(void *data, unsigned attempt, const struct agent_event *e); /* one at a time */
    void *data;
};
/* ret has room for n; *ret_best is the number of the attempt that the agent continues with, or
 * -1. */
int agent_attempts(struct agent *a, const char *words, const struct attempts_options *o,
                   const struct attempts_sink *sink, struct attempt *ret, int *ret_best,
                   struct error *err);
