/*
 * A walk through all folders beneath one, by several threads, for SEARCH and TREE.
 *
 * No link is followed: each folder is opened by its path from where the walk began, resolved by the
 * kernel beneath there and through no link, so that a folder which is swapped for a link meanwhile
 * leads nowhere. No descriptor is held for a folder that waits. What cannot be opened or read is
 * counted, and what vanishes meanwhile is left out.
 *
 * A walk serves one request in a worker process: what it allocates lives as long as the process.
 *
 * Left out are `.git`, what ignore files name (unless `ignored`), what the filter refuses, and with
 * `hidden` off every name that begins with a dot.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "rules.h"

#define TREE_WALK_THREADS_MAX 16

enum entry_type { ENTRY_FILE = 'f', ENTRY_FOLDER = 'd', ENTRY_LINK = 'l', ENTRY_OTHER = 'o' };

struct entry {
    uint32_t name; /* offset; the name ends in a NUL */
    uint16_t n;
    uint8_t type;
    bool unlisted; /* a folder that is only walked through */
};

/* One folder: its path and what was found in it. Names are bytes in one block that entries point
 * into. */
struct folder {
    atomic_uint uses; /* by jobs, and by a folder that keeps it as a child */
    unsigned depth;   /* 0: where the walk starts */
    char *path;       /* relative to the root, "" for the root itself; NUL-terminated */
    size_t n_path;
    const struct ignore *ignore; /* for what is in it, once it was read */
    char *names;
    size_t n_names;
    struct entry *entries;
    size_t count;
    struct folder **children; /* if kept: one for each entry that is a folder, in order */
    size_t n_children;
};

static inline const char *folder_name(const struct folder *f, const struct entry *e)
{
    return f->names + e->name;
}

/* The length of the folder's path with its slash. */
static inline size_t folder_base(const struct folder *f)
{
    return f->n_path ? f->n_path + 1 : 0;
}

/* A folder that is not read yet. `name` is added to the path of `above`, unless that is NULL. */
struct folder *folder_new(const struct folder *above, const char *name, size_t n);
void folder_release(struct folder *f);

/* Reads the names; `scratch` is memory for getdents64. *ret_ignore_files are bits of rules.h. */
int folder_read(struct folder *f, int fd, void *scratch, size_t size, unsigned *ret_ignore_files);

/* Sorts the entries by name. -ENOMEM. */
int folder_sort(struct folder *f);

struct file_call;
struct tree_walk;

/* What the walk is for. Called by several threads at once; `state` is what `thread_begin` made for
 * the thread. A negative errno ends the walk. */
struct tree_walk_ops {
    bool keeps;      /* folders are kept, sorted and linked to their children, for after the walk */
    bool everything; /* links and special files are wanted too */
    int (*thread_begin)(struct tree_walk *w, void **ret_state);
    void (*thread_end)(struct tree_walk *w, void *state);
    /* Regular files of a folder, entries [first, first + count); NULL: not called. */
    int (*files)(struct tree_walk *w, void *state, const struct folder *f, int fd, size_t first,
                 size_t count);
};

/* A folder to read, or some of its files to pass to `files`. */
struct tree_job {
    struct folder *folder;
    uint32_t first, count; /* of its files; no count: the folder itself */
};

struct tree_walk {
    /* set by the caller */
    const struct tree_walk_ops *ops;
    void *data;
    uint64_t keep_max; /* entries that are kept; those beyond are counted only */

    /* of the request */
    struct filter filter;
    bool hidden, ignored;
    unsigned depth_max; /* 0: none; 1: what is in the first folder alone */

    int start;                       /* the first folder */
    struct folder *top;              /* it again, with its path */
    size_t skip;                     /* bytes of a path, with a slash, that lead there */
    atomic_uint_fast64_t unreadable; /* folders and files */
    atomic_uint_fast64_t unkept;     /* entries beyond keep_max */
    atomic_uint_fast64_t kept;
    atomic_size_t memory; /* of ignore rules */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    struct tree_job *jobs; /* a stack, so that the tree is walked depth first and few jobs wait */
    size_t n_jobs, room;
    unsigned busy; /* threads that do a job, and may push others */
    bool ended;
    int failed;
    struct error error; /* with the message of `failed`, if there is one */
};

/* Reads HIDDEN, IGNORED, GLOB and DEPTH of a request, and opens the folder that its path names. The
 * path becomes clean. -ENOTDIR if it is no folder. */
int tree_walk_open(struct tree_walk *w, struct file_call *c, struct error *err);

/* Walks to the end. If the connection closes meanwhile, the process ends. */
int tree_walk_run(struct tree_walk *w, struct file_call *c, struct error *err);

/* Remembers the first failure, with its message if err is given, and ends the walk. */
int tree_walk_fail(struct tree_walk *w, int code, const struct error *err);

/* Opens a folder of the walk for reading. */
int tree_walk_open_folder(const struct tree_walk *w, const struct folder *f, int *ret_fd);

/* The path of an entry, composed again and again in the same memory: first the folder's, which can
 * fail with -ENOMEM, then each name; returns its length. */
struct entry_path {
    char *text;
    size_t room;
};
int entry_path_set_folder(struct entry_path *p, const struct folder *f);
size_t entry_path_set_name(struct entry_path *p, const struct folder *f, const char *name,
                           size_t n);

/* Removes `.`, empty components and `..` from a path, in place; a `..` that would lead above the
 * root stays. */
void tree_walk_clean_path(char *path);
