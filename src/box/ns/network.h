/*
 * A box's empty network, made by a process of its own at the same time as the mounts: it is the
 * slowest of all namespaces to make, a third of what a box costs.
 *
 * Who starts it shares memory and descriptors with it and with process 1, which waits for it only
 * when everything else is done. All functions are async-signal-safe.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define NETWORK_STACK 4096

struct network {
    uint32_t ready; /* futex: 1 when `fd` or `error` is there */
    int fd;         /* the namespace */
    int error;
    pid_t pid;
    char stack[NETWORK_STACK] __attribute__((aligned(16)));
};

int network_start(struct network *n);
int network_enter(struct network *n);   /* waits, then enters; by process 1 */
void network_finish(struct network *n); /* by who started it; takes one that was never started */
