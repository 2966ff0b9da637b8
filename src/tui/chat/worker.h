/*
 * The thread that runs the commands of the conversation, so that the one with the keys and the
 * screen never waits. One command at a time; events on the way and the result come back through a
 * queue of copies, in order.
 *
 * The queue is bounded in bytes: a writer waits while it is full, so a stream that is faster than
 * the screen is slowed down. Text that follows text is joined, so that a frame takes a handful of
 * updates however fast they come. The descriptor is readable while an update waits.
 */
#pragma once

#include "conversation.h"
#include "event.h"

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
