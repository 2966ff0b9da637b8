/*
 * The collection of what all threads of a search found: the first files in the order of their
 * paths, with as many matches as the answer may have, and exact counts of everything.
 *
 * It holds at most about twice what the answer may have: then the files are sorted, the excess is
 * dropped, and files behind the last one kept are only counted from then on.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "scan.h"

struct hits_limits {
    uint64_t matches, files, bytes;
};

struct hits_file;
struct hits_end;

struct hits {
    struct hits_limits limits;
    pthread_mutex_t lock; /* of all that follows */
    struct hits_file *list;
    size_t count, room;
    uint64_t kept, bytes;
    uint64_t matches, files; /* all there were */
    /* Results are cut at a path, not at a count, so that parallel scans give the same answer in
     * every run. */
    _Atomic(const char *) last_path_with_matches; /* later files: counts only */
    _Atomic(const char *) last_path_counted;      /* later files: only the totals */
    struct hits_end *ends; /* all such paths there were: threads may still read them */
};

void hits_init(struct hits *h, const struct hits_limits *limits);
void hits_free(struct hits *h);

/* How many matches of the file at this path the answer may have. */
unsigned hits_room(struct hits *h, const char *path);

/* Adds a file with matches; takes its frames. -ENOMEM. */
int hits_add(struct hits *h, const char *path, struct scan_result *r);

/* Calls `file` for each file of the answer, then `frame` for each of its matches, in order. False
 * in *ret_all if something was left out. */
struct hits_sink {
    int (*file)(void *data, const char *path, uint64_t count);
    int (*frame)(void *data, const uint8_t *frame, size_t n);
    void *data;
};
int hits_send(struct hits *h, const struct hits_sink *sink, bool *ret_all);

/* The order of a walk: by components, a folder before what is in it. */
int hits_compare_paths(const char *a, const char *b);
