/* The calls of one answer while they run; calls.c says which, calls_run.c runs them. */
#pragma once

#include <pthread.h>

#include "agent_private.h"

#define CALLS_TOGETHER_MAX 16
#define CALLS_WORD_MAX     256

struct calls;

struct call {
    struct calls *calls;
    const char *id, *said, *name;
    json_t *input;
    const struct tool *tool; /* NULL: it cannot be called */
    struct tool_turn *place; /* in the order of calls */
    struct tool_request request;
    struct tool_progress progress;
    struct tool_result result;
    int64_t began, ended;
    bool made; /* there is a result */
    /* Left for the thread that tells, under the lock: */
    bool has_word, finished, told;
    double seconds;
    char word[CALLS_WORD_MAX];
};

struct calls {
    struct agent *agent;
    struct call *all;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t news;
};

/* Whoever watches is told that it begins; that it has ended. */
void call_tell(const struct call *c);
void call_tell_result(const struct call *c);

/* Runs one, or n side by side (at most CALLS_TOGETHER_MAX), and tells of it. */
void call_run(struct call *c);
void calls_run_together(struct calls *s, struct call *first, size_t n);
