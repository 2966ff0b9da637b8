/*
 * Threads of ours in a process that may be somebody else's: no signal of the process is ever
 * handled on one of them, so that its handlers run where it expects them.
 */
#pragma once

#include <pthread.h>

/* Like pthread_create; returns 0 or a negative errno. `how` may be NULL. */
int thread_start(pthread_t *ret, const pthread_attr_t *how, void *(*run)(void *), void *data);
