/*
 * Runs git on the host.
 *
 * git starts with an environment of its own: no variable of the caller's, no configuration but the
 * repository's (and the person's, only where a call asks for it), no hook, no file system monitor,
 * no transport, no replaced objects, no background maintenance. Its output, memory and time are
 * bounded. Where root works in the repository of somebody else, git runs as that user.
 *
 * Never run git in a folder that a box can write (mode direct): its .git/config could name
 * programs.
 */
#pragma once

#include <stdint.h>

#include "buf.h"
#include "child.h"
#include "error.h"

#define GIT_OUTPUT_MAX (64u << 20) /* bytes of stdout, unless a call says otherwise */
#define GIT_TIMEOUT_NS (120 * 1000000000LL)
#define GIT_MEMORY_MAX (4ull << 30) /* address space of a git that reads what a box made */

struct git_call {
    const char *git_dir;     /* NULL: no repository */
    const char *work_tree;   /* NULL: none */
    const char *folder;      /* it runs in; NULL: the work tree, else the root */
    const char *const *args; /* the subcommand and its arguments, ended by NULL */
    const char *const *env;  /* more KEY=VALUE, which win over ours; ended by NULL, or NULL */
    const void *input;       /* what it reads */
    size_t n_input;
    const char
        *owner_of;      /* whose owner git runs as, if we are root; NULL: git_dir, else work_tree */
    uint64_t out_max;   /* 0: GIT_OUTPUT_MAX */
    int64_t timeout_ns; /* 0: GIT_TIMEOUT_NS */
    int cancel;         /* ends it when it becomes readable; 0 or -1: nothing does */
    bool personal; /* with the person's own configuration, home and SSH agent: to reach a remote */
    bool hostile;  /* reads bytes that a box made: memory is bounded, too */
};

/* Runs git to its end. 0, or its exit status if that is not 0 (err says what git complained about),
 * or a negative errno: -ENOENT (there is no git here), -ETIMEDOUT, -ENOBUFS, -ECANCELED. `ret_out`
 * gets what git wrote to stdout, is initialised here and freed by the caller in any case; NULL:
 * dropped. */
int git_run(const struct git_call *c, struct buf *ret_out, struct error *err);

/* The same in two steps, for a caller that feeds its input (child.in) meanwhile. git_run_finish is
 * called exactly once; it closes child.in. */
int git_run_begin(const struct git_call *c, struct child *ret, struct error *err);
int git_run_finish(const struct git_call *c, struct child *child, struct buf *ret_out,
                   struct error *err);

/* Is there a git on this host? */
bool git_available(void);
