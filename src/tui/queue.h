/*
 * What the agent's thread tells the one that owns the screen: a queue of copies, in order.
 *
 * It is bounded in bytes: who puts waits when it is full, so that a stream faster than the screen
 * is slowed down and not kept. Text that follows text becomes one, and of a call's progress only
 * the newest is kept, so that a frame takes a handful of things however fast they came. The
 * descriptor is readable while there is something to take.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "event.h"

#define QUEUE_MAX  (4u << 20)  /* bytes that wait; one thing larger than that is let in alone */
#define QUEUE_TEXT (64u << 10) /* bytes of text that become one */

enum told_kind {
    TOLD_EVENT,   /* event, attempt */
    TOLD_ANEW,    /* another conversation is shown from now on */
    TOLD_PERSON,  /* text: what the person said, in a conversation that is shown again */
    TOLD_ANSWER,  /* data: what came of a job */
    TOLD_CONFIRM, /* text: what the person is to confirm */
};

/* One thing told, with all that it points to its own. */
struct told {
    enum told_kind kind;
    struct agent_event event;
    unsigned attempt; /* from 1; 0: none of several */
    char *text;
    void *data;
    void (*free_data)(void *data);

    struct told *next;
    size_t size;
    struct buf more; /* event.text, while more may come */
    struct tool_result result;
    struct agent_changes *changes;
};
void told_free(struct told *t);

struct queue;

int queue_new(struct queue **ret);
struct queue *queue_free(struct queue *q);
int queue_fd(const struct queue *q);

/* Copies the event. Waits while the queue is full; after queue_close() it does nothing. Without
 * memory the event is lost: there is nobody who could be told. */
void queue_event(struct queue *q, const struct agent_event *e, unsigned attempt);
void queue_anew(struct queue *q);
void queue_person(struct queue *q, const char *words);
void queue_confirm(struct queue *q, const char *text);

/* Takes `data` over, also when it fails. */
void queue_answer(struct queue *q, void *data, void (*free_data)(void *data));

/* The oldest, which the caller frees; NULL: nothing waits. */
struct told *queue_take(struct queue *q);

/* Nobody takes any more: who waits to put goes on. */
void queue_close(struct queue *q);
