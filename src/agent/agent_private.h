/* What the files of an agent share: its innards, and the steps of a turn. Nobody else includes
 * this. */
#pragma once

#include <stdbool.h>

#include "agent.h"
#include "buf.h"
#include "context.h"
#include "session.h"
#include "tool_schemas.h"

#define AGENT_WHY_MAX 256

/* What one turn of the person's has used up so far, and how it is ending. */
struct turn {
    unsigned number;
    unsigned answers;
    uint64_t tokens; /* of the answers */
    double cost;
    unsigned pauses, cuts; /* in a row: the model paused; its answer was cut at its limit */
    bool snapshot;         /* there is a state to go back to */
    bool changed;          /* something ran that may have changed the box */
    bool interrupted;
    enum model_stop stop;
    char why[AGENT_WHY_MAX]; /* what ended it early; empty: nothing did */
};

/* A command in the background of the box. */
struct running {
    uint64_t handle;
    char *command;
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
    bool box_told; /* the history says which box it is */
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
    struct running *running;
    size_t n_running;
    struct buf aside;              /* what the model is to be told with the person's next words */
    struct folder_identity folder; /* that the session began with */
    bool folder_known;
    bool folder_replaced;       /* the path names another folder now, or none */
    struct folder_watch *watch; /* NULL: changes of the folder are not noticed */
    int64_t watch_since; /* realtime: later changes of the folder are news; 0: a new session */
    bool watch_begun;
    bool sync_due; /* the box may lack changes of the folder that were noticed before */
};

/* What a step of a turn returns: go on, or it is over; or a negative errno. */
enum { TURN_OVER = 0, TURN_ON = 1 };

/* agent.c */
int agent_ready(struct agent *a,
                struct error *err); /* waits for the box and makes what stands on it */
int agent_set_host(struct agent *a,
                   struct error *err); /* tells the tools who confirms what they do on the host */
int agent_renew_context(struct agent *a, struct error *err);
int agent_new(const struct agent_options *o, const struct agent_sink *sink, struct agent **ret,
              struct error *err);
int agent_use_model(struct agent *a, const struct model_spec *spec, struct error *err);
struct agent *agent_free(struct agent *a);

/* doors.c: a door may have run something in the box by itself (`!` of the chat) */
int agent_notice(struct agent *a, struct error *err);

/* tell.c */
void agent_tell(struct agent *a, const struct agent_event *e);
void agent_note(struct agent *a, const char *fmt, ...) PRINTF(2, 3);
void agent_aside(struct agent *a, const char *fmt, ...)
    PRINTF(2, 3); /* for the model, with the next words */

/* record.c: messages of the history. All take the message over. */
int agent_append(struct agent *a, json_t *message, struct error *err);
json_t *message_of_person(unsigned turn, const char *aside, const char *words);
json_t *message_of_results(json_t *blocks);
json_t *message_of_hutch(const char *kind, const char *fmt, ...);
json_t *text_block(const char *text);
int agent_record_box(struct agent *a, struct error *err);
int agent_record_answer(struct agent *a, const struct model_reply *reply, const char *stop,
                        double cost, struct error *err);

/* turn.c */
int turn_begin(struct agent *a, const char *words, struct error *err);
int turn_ask(struct agent *a, struct model_reply *ret, struct error *err);
int turn_finish(struct agent *a, int r, struct error *err);
int turn_guard(struct agent *a, struct error *err); /* before something that may change the box */
void turn_end(struct turn *t, const char *fmt, ...) PRINTF(2, 3);
bool agent_is_interrupted(struct agent *a);

/* usage.c */
void agent_account(struct agent *a, const struct model_usage *u);
void agent_restore_usage(struct agent *a);
bool turn_over_limit(const struct agent_options *o, const struct turn *t, char *why, size_t size);

/* calls.c */
bool has_calls(const json_t *content);
int calls_run(struct agent *a, const struct model_reply *reply, json_t **ret_results,
              struct error *err);

/* result_block.c: pure */
#define RESULT_BLOCK_TEXT  (96u << 10)   /* bytes of one result that a model gets */
#define RESULT_BLOCK_IMAGE (3750u << 10) /* bytes of an image; providers refuse more */
json_t *result_block(const char *id, const struct tool_result *r);
json_t *result_block_text(const char *id, const char *text); /* a failed one */

/* unknown.c: pure */
void explain_unknown(const json_t *tools, const char *said, struct buf *text);

/* now.c: what is the case at present, for the model */
int agent_now(struct agent *a, struct buf *text);
void agent_watch_background(struct agent *a, const json_t *input, const struct tool_result *r);
void agent_restore_background(struct agent *a);
void agent_forget_background(struct agent *a);
size_t agent_count_background(struct agent *a);

/* resume.c */
int agent_resume(struct agent *a, struct error *err);
int agent_close_calls(struct agent *a, const char *text, struct error *err);
json_t *open_calls_answered(const json_t *content,
                            const char *text); /* pure; NULL: there are none */

/* folder_news.c: what the person did in the folder */
void agent_remember_folder(struct agent *a);
/* Was it replaced? Tells so, once. `remade`: the box was made anew over what is there now. */
void agent_check_folder(struct agent *a, bool remade);
int agent_learn_folder(struct agent *a, struct error *err); /* at the start of a turn */
void agent_seen_folder(struct agent *a);                    /* what changed until now is no news */
void agent_watch_folder(struct agent *a); /* begins to, if that was not done yet */

/* save.c: the changes beside the history */
int agent_save(struct agent *a, struct error *err);
int agent_unsave(struct agent *a, struct error *err); /* there are none any more */
int agent_load(struct agent *a, struct error *err);

/* states.c: which state of which box stands for the beginning of a turn */
struct box_state {
    unsigned turn;
    char box[16];
    char snapshot[KEEPER_SNAPSHOT_NAME];
};
int agent_find_state(struct agent *a, unsigned after, struct box_state *ret);

/* The name of the snapshot in the present box. */
void agent_state_name(const struct agent *a, const struct box_state *s,
                      char ret[KEEPER_SNAPSHOT_NAME]);

/* Puts the box back to that state. -ENOENT: it does not have it. */
int agent_go_to_state(struct agent *a, const struct box_state *s, struct workbox_reverted *reverted,
                      struct error *err);

/* fork.c */
int agent_fork_with(struct agent *a, struct workbox *box, unsigned turn,
                    const struct agent_sink *sink, struct agent **ret, struct error *err);

/* attempts_best.c: pure */
int attempts_best(const struct attempt *all, unsigned n);
