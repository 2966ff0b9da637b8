/*
 * Work for several threads: a stack of jobs, each a folder to be read or some of its files to be
 * looked at. A thread that does a job may push others. Last in, first out, so that a tree is walked
 * depth first and what waits stays small.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct folder;

struct job {
    struct folder *folder;
    uint32_t first, count; /* of its files; no count: the folder itself */
};

struct jobs {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct job *stack;
    size_t count, room;
    unsigned busy; /* threads that do a job, and may push others */
    bool ended;
};

int jobs_init(struct jobs *j);

/* -ENOMEM. */
int jobs_push(struct jobs *j, const struct job *list, size_t n);

/* Waits for a job; the one taken before it is done (`again`). False: there will be no more. */
bool jobs_take(struct jobs *j, bool again, struct job *ret);

/* Nobody gets a job from now on. */
void jobs_end(struct jobs *j);
