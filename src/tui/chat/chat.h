/*
 * The chat on a screen: what happens. What is where and how it looks is in view.h.
 *
 * This thread owns the keys and the screen and never waits for anything else: the agent works in
 * another one (worker.c), whose updates come through a queue. Keys are handled at once; the screen
 * is drawn at most 30 times a second, and only if something changed.
 *
 * The worker runs one command at a time. What the user enters meanwhile is queued, shown as queued,
 * and run in order; stopping a turn moves the queue back into the input.
 */
#pragma once

#include <stdbool.h>

#include "chat_command.h"
#include "event.h"
#include "input.h"
#include "view.h"

/*
 * The thread that runs the commands of the conversation, so that the one with the keys and the
 * screen never waits. One command at a time; events on the way and the result come back through a
 * queue of copies, in order.
 *
 * The queue is bounded in bytes: a writer waits while it is full, so a stream that is faster than
 * the screen is slowed down. Text that follows text is joined, so that a frame takes a handful of
 * updates however fast they come. The descriptor is readable while an update waits.
 */

#define UPDATE_QUEUE_MAX  (4u << 20)  /* bytes; a larger update is let in alone */
#define UPDATE_QUEUE_TEXT (64u << 10) /* bytes of text that are joined */

enum update_kind {
    UPDATE_EVENT,   /* event, attempt */
    UPDATE_RESET,   /* another conversation is shown from now on */
    UPDATE_USER,    /* text: a message of the user, in a conversation that is shown again */
    UPDATE_RESULT,  /* command_result */
    UPDATE_CONFIRM, /* text: what the user must confirm */
};

/* Owns all that it points to. */
struct update {
    enum update_kind kind;
    struct agent_event event;
    unsigned attempt; /* from 1; 0: not one of several */
    char *text;
    struct chat_result *command_result;

    struct update *next;
    size_t size;
    struct buf event_text; /* event.text, while more may be joined */
    struct tool_result result;
    struct agent_changes *changes;
};
void update_free(struct update *u);

struct update_queue;

int update_queue_new(struct update_queue **ret);
void update_queue_free(struct update_queue *q);
int update_queue_fd(const struct update_queue *q);

/* Copies the event. Waits while the queue is full; does nothing after update_queue_close(). Without
 * memory the event is lost. */
void update_queue_event(struct update_queue *q, const struct agent_event *e, unsigned attempt);

/* UPDATE_RESET (NULL), UPDATE_USER or UPDATE_CONFIRM. */
void update_queue_text(struct update_queue *q, enum update_kind kind, const char *text);

/* UPDATE_RESULT: takes the result, which malloc() made. */
void update_queue_result(struct update_queue *q, struct chat_result *result);

/* The oldest update, which the caller frees; NULL: none. */
struct update *update_queue_take(struct update_queue *q);

/* Nobody takes updates any more: writers that wait continue. */
void update_queue_close(struct update_queue *q);

struct worker;

int worker_new(const struct tui_options *o, struct update_queue *q, struct worker **ret,
               struct error *err);

/* Ends the running command, closes the conversation and waits for both. */
void worker_free(struct worker *w);

/* Takes the command over. Only after the result of the one before was taken from the queue. */
void worker_run(struct worker *w, struct chat_entry *entry);

/* The user's answer to UPDATE_CONFIRM. */
void worker_decide(struct worker *w, bool yes);

void worker_interrupt(struct worker *w);

/* The chat. */

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

/* chat_input.c: keys, the text, completion, the search in the history, and the review. */
void chat_press(struct chat *c, const struct press *p);
void chat_submit(struct chat *c, const char *entered); /* runs or queues it */
void chat_set_text(struct chat *c, const char *text);
void chat_complete(struct chat *c, bool asked); /* `asked`: Tab was pressed */
void chat_complete_close(struct chat *c);
void chat_complete_fetch(struct chat *c); /* names that are missing, if the worker is idle */
bool chat_review_is_open(const struct chat *c);
int chat_review_letter(const struct chat *c); /* the choice that the input names; -1: none */

/* chat.c */
void chat_run(struct chat *c, struct chat_entry *entry); /* the worker must be idle */
void chat_stop(struct chat *c);
bool chat_is_busy(const struct chat *c); /* with something that the user should see */
void chat_note(struct chat *c, const char *fmt, ...) PRINTF(2, 3);

/* Frees the terminal for another program; and takes it again. */
void chat_release_terminal(struct chat *c);
void chat_take_terminal(struct chat *c);
void chat_suspend(struct chat *c); /* Ctrl-Z */

/* The chat line by line, where there is no screen (plain.c). */
int plain_chat(const struct tui_options *o, struct error *err);
