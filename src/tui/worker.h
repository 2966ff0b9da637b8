/*
 * The thread that does the jobs of the desk, so that the one with the keys and the screen never
 * waits. One job at a time: what happens on the way and the answer come through the queue.
 */
#pragma once

#include "desk.h"
#include "queue.h"

struct worker;

int worker_new(const struct tui_options *o, struct queue *q, struct worker **ret,
               struct error *err);

/* Ends the job under way, closes the conversation and waits for both. */
struct worker *worker_free(struct worker *w);

/* Takes the job over. Only once the answer to the one before was taken from the queue. */
void worker_give(struct worker *w, struct job *job);

/* The person's answer to TOLD_CONFIRM. */
void worker_decide(struct worker *w, bool yes);

/* Ends the job under way. */
void worker_interrupt(struct worker *w);
