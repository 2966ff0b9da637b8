/*
 * What the folder had at each path when the box touched it.
 *
 * A box works on the live folder, so neither the files it saw nor their content exist anywhere
 * else. Without a record of them nobody can tell later whether the person changed a file, or put
 * another one in its place, and there is no base to merge with. The table belongs to a box;
 * snapshots and forks share it until one of them changes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "identity.h"

#define SEEN_CONTENT_MAX (1u << 20)  /* bytes of one file that are kept as a base */
#define SEEN_BYTES_MAX   (64u << 20) /* of all of them */
#define SEEN_PATHS_MAX   1000000u

struct seen;

enum seen_state {
    SEEN_UNKNOWN, /* the person may have changed it while the box worked on it */
    SEEN_ABSENT,
    SEEN_KNOWN,
};

/* Content, shared by the tables that have it. */
struct seen_base {
    unsigned refs; /* atomic */
    size_t size;
    unsigned char data[];
};

struct seen_entry {
    enum seen_state state;
    struct identity id; /* of the folder's version that the box has taken into account */
    struct seen_base
        *base; /* the common ancestor of the folder's and the box's version; NULL: not kept */
    int64_t
        stable; /* a folder: the note in which it was found to be where it was since the last one */
    bool hides; /* a folder: the box's layers hide what the folder has in it */
    bool base_differs; /* the base is not the content of that version: the folder was merged into */
    struct seen_entry *next;
    char path[];
};

struct seen *seen_new(void);
struct seen *seen_ref(struct seen *s); /* takes NULL */
struct seen *seen_unref(struct seen *s);

/* Makes *s a table that nobody else has; NULL becomes a new one. 0 or -ENOMEM. */
int seen_own(struct seen **s);

/* The record of a path, or NULL. seen_state_of() also answers for what lies below a path that was
 * absent: the nearest record above decides. */
const struct seen_entry *seen_find(const struct seen *s, const char *path);
enum seen_state seen_state_of(const struct seen *s, const char *path);

/* All records in no order; for each in turn: seen_first, then entry->next. */
const struct seen_entry *seen_first(const struct seen *s);

/* Records a state in place of the one before. `base` is taken over, with its reference, also on
 * failure. 0, -ENOSPC beyond SEEN_PATHS_MAX, -ENOMEM. The caller owns the table. */
int seen_set(struct seen *s, const char *path, enum seen_state state, const struct identity *id,
             struct seen_base *base, bool base_differs);

void seen_set_stable(struct seen *s, const char *path, int64_t note);

/* From now on, the box does not see what comes into that folder. */
void seen_set_hides(struct seen *s, const char *path);

struct seen_base *seen_base_new(const void *data, size_t n);
struct seen_base *seen_base_ref(struct seen_base *b);
void seen_base_unref(struct seen_base *b);
bool seen_base_same(const struct seen_base *a, const struct seen_base *b);

/* Whether `n` more bytes may be kept. */
bool seen_has_room(const struct seen *s, size_t n);

/* Other names of a file that we gave or took a name: their ctime moved by our doing. */
void seen_moved(struct seen *s, const struct identity *before, const struct identity *after);
