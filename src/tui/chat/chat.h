/*
 * The chat on a screen: what happens. What is where and how it looks is in view.h.
 *
 * This thread owns the keys and the screen and never waits for anything else: the agent works in
 * another one (worker.h), whose updates come through a queue. Keys are handled at once; the screen
 * is drawn at most 30 times a second, and only if something changed.
 *
 * The worker runs one command at a time. What the user enters meanwhile is queued, shown as queued,
 * and run in order; stopping a turn moves the queue back into the input.
 */
#pragma once

#include <stdbool.h>

#include "completion.h"
#include "conversation.h"
#include "editor.h"
#include "input_history.h"
#include "keys.h"
#include "view.h"
#include "worker.h"

#define CHAT_QUEUE_MAX 32
#define CHAT_BUSY_MAX  64
#define REVIEW_CHOICES 4

struct chat {
    const struct tui_options *o;
    struct view *view;
    struct update_queue *updates;
    struct worker *worker;
    struct editor *editor;
    struct input_history *history;
    struct keys keys;

    bool leaving;
    bool changed;       /* the screen must be drawn */
    bool hung_up;       /* the terminal is gone */
    int64_t quit_until; /* a second Ctrl-C before this time quits */
    bool prefix;        /* Ctrl-X was pressed */
    bool keys_on;       /* the terminal's key modes are switched on */

    /* The worker. */
    const struct chat_command *running; /* NULL: the worker is idle */
    int64_t began;
    bool stopping;            /* it was interrupted */
    char busy[CHAT_BUSY_MAX]; /* what goes on, for the status line */
    char *queued[CHAT_QUEUE_MAX];
    size_t n_queued;
    struct error failure; /* why the agent could not be opened */
    int failed;

    /* The conversation. */
    struct conversation_state state;
    struct agent_changes changes; /* pending */
    bool has_messages;
    unsigned n_attempts;
    char attempts[16][CHAT_BUSY_MAX / 2]; /* what each attempt is doing */

    /* The input. */
    long history_at; /* entry that is shown; -1: the draft */
    char *draft;     /* the input before Up */
    bool searching;
    struct buf query;
    long found;
    struct completion_names names;
    struct completion completion;
    bool completing; /* the completion is shown */
    int chosen;

    bool confirming; /* a host-side tool waits for y or n */
    bool review;     /* the review of pending changes is offered */
    int review_chosen;
};

/* chat_keys.c */
void chat_press(struct chat *c, const struct press *p);

/* chat_input.c: the text, completion, the search in the history, and the review. */
void chat_enter(struct chat *c);
void chat_submit(struct chat *c, const char *entered); /* runs or queues it */
void chat_history_move(struct chat *c, bool older);
void chat_set_text(struct chat *c, const char *text);
void chat_edited(struct chat *c); /* after each edit */
void chat_complete(struct chat *c, bool asked);
bool chat_complete_accept(struct chat *c);
void chat_complete_close(struct chat *c);
void chat_complete_fetch(struct chat *c); /* names that are missing, if the worker is idle */
bool chat_search_press(struct chat *c, const struct press *p); /* false: the key is not for it */
bool chat_review_is_open(const struct chat *c);
int chat_review_letter(const struct chat *c); /* the choice that the input names; -1: none */

/* chat_updates.c: commands and their results. */
void chat_run(struct chat *c, struct chat_entry *entry); /* the worker must be idle */
void chat_stop(struct chat *c);
bool chat_is_busy(const struct chat *c); /* with something that the user should see */
void chat_take_updates(struct chat *c);
void chat_note(struct chat *c, const char *fmt, ...) PRINTF(2, 3);

/* chat.c */
void chat_set_keys(struct chat *c, bool on);
void chat_suspend(struct chat *c); /* Ctrl-Z */
