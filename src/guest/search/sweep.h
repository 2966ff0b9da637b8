/*
 * A walk through all folders beneath one, by several threads.
 *
 * Nothing is followed: each folder is opened by its path from where the walk began, resolved by the
 * kernel beneath there and through no link, so that a folder which is swapped for a link meanwhile
 * leads nowhere. No descriptor is held for a folder that waits. What cannot be opened or read is
 * counted, and what vanishes meanwhile is left out.
 *
 * It is made for a process that serves one request: what a walk holds lives as long as that.
 *
 * Left out are `.git`, what the ignore files name (unless `ignored`), what the filter refuses, and
 * with `hidden` off every name with a dot in front.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "filter.h"
#include "folder.h"
#include "jobs.h"

#define SWEEP_THREADS_MAX 16

struct file_call;
struct sweep;

/* What the walk is for. Called by several threads at once; `mine` is what `begin` made for the
 * thread. A negative errno ends the walk. */
struct sweep_user {
    bool keeps;      /* folders are kept, sorted and linked to their children, for after the walk */
    bool everything; /* links and special files are wanted too */
    int (*begin)(struct sweep *w, void **ret_mine);
    void (*end)(struct sweep *w, void *mine);
    /* Regular files of a folder, entries [first, first + count); NULL: they are not looked at. */
    int (*files)(struct sweep *w, void *mine, const struct folder *f, int fd, size_t first,
                 size_t count);
};

struct sweep {
    /* set by the caller */
    const struct sweep_user *user;
    void *data;
    struct filter filter;
    bool hidden, ignored;
    unsigned depth_max; /* 0: none; 1: what is in the first folder alone */
    uint64_t keep_max;  /* entries that are kept; those beyond are counted only */

    int start;          /* the first folder */
    struct folder *top; /* it again, with its path */
    size_t skip;        /* bytes of a path, with a slash, that lead there */
    struct jobs jobs;
    atomic_uint_fast64_t unreadable; /* folders and files */
    atomic_uint_fast64_t unkept;     /* entries beyond keep_max */
    atomic_uint_fast64_t kept;
    atomic_size_t memory; /* of ignore rules */
    pthread_mutex_t lock; /* of what follows */
    int failed;
    struct error error; /* of the user's, if it said more than the number */
};

/* Reads HIDDEN, IGNORED, GLOB and DEPTH of a request, and opens the folder that its path names. The
 * path becomes clean. -ENOTDIR if it is no folder. */
int sweep_open(struct sweep *w, struct file_call *c, struct error *err);

/* Walks to the end. If the connection closes meanwhile, the process ends. */
int sweep_run(struct sweep *w, struct file_call *c, struct error *err);

/* Remembers the first failure, with words if err is given, and ends the walk. */
int sweep_fail(struct sweep *w, int code, const struct error *err);

/* Opens a folder of the walk for reading. */
int sweep_open_folder(const struct sweep *w, const struct folder *f, int *ret_fd);

/* Takes `.`, empty components and `..` out of a path, in place; what would lead above the root
 * stays. */
void sweep_clean_path(char *path);
