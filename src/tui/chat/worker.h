/*
 * The thread that runs the commands of the conversation, so that the one with the keys and the
 * screen never waits. One command at a time; events on the way and the result come through the
 * queue.
 */
#pragma once

#include "conversation.h"
#include "update_queue.h"

struct worker;

int worker_new(const struct tui_options *o, struct update_queue *q, struct worker **ret,
               struct error *err);

/* Ends the running command, closes the conversation and waits for both. */
struct worker *worker_free(struct worker *w);

/* Takes the command over. Only after the result of the one before was taken from the queue. */
void worker_run(struct worker *w, struct chat_entry *entry);

/* The user's answer to UPDATE_CONFIRM. */
void worker_decide(struct worker *w, bool yes);

void worker_interrupt(struct worker *w);
