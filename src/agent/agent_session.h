/* Inside of an agent: its state, and what its files need of each other. */
#pragma once

#include <stdbool.h>

#include "agent.h"
#include "conversation.h"
#include "text.h"
#include "context.h"
#include "session.h"
#include "workbox.h"

#define AGENT_WHY_MAX 256

/* The turn that is running: what it has used so far, and how it ends. */
struct turn {
    unsigned number;
    unsigned answers;
    uint64_t tokens; /* of the answers */
    double cost;
    unsigned pauses, cuts; /* in a row: the model paused; its answer was cut at its limit */
    bool snapshot;         /* there is a state to restore */
    bool changed;          /* something ran that may have changed the box */
    bool interrupted;
    enum model_stop stop;
    char why[AGENT_WHY_MAX]; /* what ended it early; empty: nothing did */
};

/* A command in the background of the box. */
struct running {
    uint64_t handle;
    char command[200];
};

/* Which folder a path named. */
struct folder_identity {
    dev_t dev;
    ino_t ino;
};

struct agent {
    struct agent_options options; /* strings are borrowed */
    struct box_options box_options;
    struct agent_sink sink;
    int cancel; /* an eventfd */
    struct history *history;
    struct workbox *box;
    bool box_recorded; /* the history says which box it is */
    struct tool_session *tools;
    struct tool_schemas *schemas;
    char *system;
    struct model_spec spec;
    struct model *model;
    struct model_facts facts;
    struct model *embedder; /* for the memory; NULL: words only */
    char *summary_prompt;
    char model_name[160]; /* PROVIDER/NAME */
    struct context *context;
    struct model_usage usage; /* of the session */
    struct agent_money money;
    struct turn turn;
    size_t pending;      /* changes when they were last looked at */
    bool pending_known;  /* nothing of ours ran since then */
    uint64_t calls_seen; /* see agent_notice */
    struct running running[64];
    size_t n_running;
    struct buf prompt_notes;       /* for the model, with the person's next words */
    struct folder_identity folder; /* that the session began with */
    bool folder_known;
    bool folder_replaced;       /* the path names another folder now, or none */
    struct folder_watch *watch; /* NULL: changes of the folder are not noticed */
    int64_t watch_since; /* realtime: later changes of the folder are news; 0: a new session */
    bool watch_begun;
    bool sync_due; /* the box may lack changes of the folder that were noticed before */
};

/* agent_session.c */
int agent_ready(struct agent *a, struct error *err);    /* waits for the box, makes what needs it */
int agent_set_host(struct agent *a, struct error *err); /* who confirms what tools do on the host */
int agent_new(const struct agent_options *o, const struct agent_sink *sink, struct agent **ret,
              struct error *err);
int agent_use_model(struct agent *a, const struct model_spec *spec, struct error *err);
struct agent *agent_free(struct agent *a);

/* Takes note of commands that a frontend ran in the box by itself (`!` of the chat). */
int agent_notice(struct agent *a, struct error *err);

void agent_emit(struct agent *a, const struct agent_event *e);
void agent_note(struct agent *a, const char *fmt, ...) PRINTF(2, 3); /* for the person */
void prompt_note_printf(struct agent *a, const char *fmt, ...)
    PRINTF(2, 3); /* for the model, with the next words */
void agent_restore_usage(struct agent *a);
void agent_add_background(struct agent *a, uint64_t handle, const char *command);
void agent_forget_background(struct agent *a, size_t i);

/* turn.c. Messages of the history have the form that history.h describes; agent_append takes the
 * message over. */
int agent_append(struct agent *a, json_t *message, struct error *err);
json_t *message_of_hutch(const char *kind, const char *fmt, ...);
int agent_record_box(struct agent *a, struct error *err);
int turn_snapshot(struct agent *a, struct error *err); /* before something may change the box */
bool turn_over_limit(const struct agent_options *o, const struct turn *t, char *why, size_t size);
bool agent_is_interrupted(struct agent *a);

/* calls.c: runs the calls of an answer; *ret_results stays NULL if it has none. */
int calls_run(struct agent *a, const struct model_reply *reply, json_t **ret_results,
              struct error *err);
json_t *result_block(const char *id, const struct tool_result *r);
#define RESULT_BLOCK_TEXT  (96u << 10)   /* bytes of one result that a model gets */
#define RESULT_BLOCK_IMAGE (3750u << 10) /* bytes of an image; providers refuse more */
void explain_unknown_tool(const json_t *tools, const char *given, struct buf *text);

/*
 * folder_watch.c: which files of the person's folder changed between two looks at it.
 *
 * A look is a walk that compares identity and change time of each file with the look before; no
 * file is opened. It ends after FOLDER_ENTRIES_MAX entries or FOLDER_LOOK_NS, and then reports only
 * files that both looks met. What is beneath .git, node_modules and the like is left out.
 */
#define FOLDER_ENTRIES_MAX 100000u
#define FOLDER_LOOK_NS     500000000LL

enum folder_change_kind { FOLDER_CHANGED, FOLDER_ADDED, FOLDER_DELETED };

struct folder_change {
    char *path;
    enum folder_change_kind kind;
};

struct folder_changes {
    struct folder_change *items; /* in order of their paths */
    size_t count, room;
};
void folder_changes_free(struct folder_changes *c);

struct folder_watch;

struct folder_watch *folder_watch_new(const char *folder); /* NULL: no memory */
struct folder_watch *folder_watch_free(struct folder_watch *w);

/* Takes the first look, in a thread of its own. Does nothing if there was one. */
void folder_watch_begin(struct folder_watch *w);

/* Looks again: what changed since the last look. Before the first one, which files changed after
 * that time. */
int folder_watch_look(struct folder_watch *w, int64_t since_realtime_ns,
                      struct folder_changes *ret);

/* An apply wrote or removed this path: that is no change of the person's. */
void folder_watch_accept(struct folder_watch *w, const char *path);

void agent_remember_folder(struct agent *a);
/* Was it replaced? Notes so, once. `remade`: the box was made again over what is there now. */
void agent_check_folder(struct agent *a, bool remade);
void agent_learn_folder(struct agent *a); /* at the start of a turn */
void agent_seen_folder(struct agent *a);  /* changes until now are no news */
void agent_watch_folder(struct agent *a); /* starts to, if it has not yet */

/* changes.c: the changes saved beside the history as ID.patch */
int agent_save(struct agent *a, struct error *err);
int agent_load(struct agent *a, struct error *err); /* how many files could not be restored */

/* Takes the box over, also on failure */
int agent_fork_with(struct agent *a, struct workbox *box, unsigned turn,
                    const struct agent_sink *sink, struct agent **ret, struct error *err);

/* attempts.c: -1: none was tested. Of equals the first. */
int attempts_best(const struct attempt *all, unsigned n);
