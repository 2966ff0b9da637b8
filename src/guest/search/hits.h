/*
 * What a search found, from all its threads: the first files in the order of their paths, with as
 * many matches as may be told, and exact counts of everything.
 *
 * More than twice of what can be told is never kept: then the files are put in order, what is too
 * much is dropped, and whoever comes behind the last file that is kept is only counted from then
 * on.
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
    /* Paths: from the first on nothing is told but counts, from the second on not even those. */
    _Atomic(const char *) matches_end, files_end;
    struct hits_end *ends; /* all that there were */
};

void hits_init(struct hits *h, const struct hits_limits *limits);
void hits_free(struct hits *h);

/* How many matches of the file at this path may be told. */
unsigned hits_room(struct hits *h, const char *path);

/* Takes a file with matches; the frames are the collection's afterwards. -ENOMEM. */
int hits_add(struct hits *h, const char *path, struct scan_result *r);

/* Calls `file` for each file to tell, then `frame` for each of its matches, in order. False in
 * *ret_all if something was left out. */
struct hits_sink {
    int (*file)(void *data, const char *path, uint64_t count);
    int (*frame)(void *data, const uint8_t *frame, size_t n);
    void *data;
};
int hits_tell(struct hits *h, const struct hits_sink *sink, bool *ret_all);

/* The order of a walk: by components, a folder before what is in it. */
int hits_compare_paths(const char *a, const char *b);
