/*
 * The extension module that a warm process loads (hutch-warm.so), and what the host and it agree
 * on. Both are of one version and on one machine: plain structs do.
 *
 * The python3 of whatever root filesystem the boxes have loads it, so it uses only names that every
 * C library has, is linked with none, and needs no headers of Python's.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define WARM_MODULE_PATH "/run/hutch-warm.so" /* as the warm process sees it */

/* Descriptors that the warm process starts with, beside 0 to 2. */
enum warm_fd {
    WARM_FD_CONTROL = 3, /* packets: ready, or why not, from it; then runs, to it */
    WARM_FD_RULES,       /* struct warm_rules, and the rules */
    WARM_FD_PROGRAM,     /* Python source */
    WARM_FD_SETUP,       /* what its prepare() is given */
    WARM_FD_END,
};

/* What a child has to become; behind it, for each rule, a byte (its class) and the path with its
 * NUL. */
struct warm_rules {
    uint32_t namespaces; /* of the box that a child enters beside the pid namespace, CLONE_NEW… */
    uint32_t landlock;   /* LANDLOCK_… */
    uint32_t on_disk;    /* reserving space is refused: the box may have no quota */
    uint32_t n_rules;
};

#define WARM_RULES_MAX   80
#define WARM_RULES_BYTES (72u << 10)

/* A run: a packet of one byte with these descriptors, and behind them files to join control groups
 * by. */
enum warm_run_fd {
    WARM_RUN_BOX,     /* a pidfd of process 1 */
    WARM_RUN_GUEST,   /* where to say hello (wire.h) */
    WARM_RUN_OUTPUT,  /* stdout and stderr */
    WARM_RUN_SAID,    /* what run() is given to write to */
    WARM_RUN_REQUEST, /* a file with what run() is to do */
    WARM_RUN_FIXED,
    WARM_RUN_MAX = WARM_RUN_FIXED + 4,
};

/* Descriptors that a child ends up with, beside 0 to 2. */
enum warm_child_fd { WARM_CHILD_SAID = 3, WARM_CHILD_REQUEST, WARM_CHILD_END };

/* ---- within the module ---- */

struct warm_run_fds {
    int fds[WARM_RUN_MAX];
    size_t n;
};

/* Reads WARM_FD_RULES. */
int child_learn(void);

/* In a fresh child: enters the box and becomes as a command of it is. Returns only if it did. */
void child_enter(const struct warm_run_fds *run);

/* Tells the guest that no process will come, and why. */
void child_report_failure(int guest, const char *step, int code);
