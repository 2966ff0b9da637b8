/*
 * What the person's folder had at each path when the box touched it.
 *
 * A box works on the live folder, so the files that it saw exist nowhere else. Without a record of
 * them nobody can tell later whether the person changed a file, or put another one in its place,
 * and there is no base to merge with. The table belongs to a box; snapshots and forks share it
 * until one of them changes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/*
 * What tells one state of a file from another. Every change of a file's content, mode or name moves
 * its change time (ctime), and nobody can set that time. For a folder only the inode counts, since
 * every new name in it moves the time; the birth time tells a new folder from an old one that had
 * the same inode number.
 */
struct identity {
    uint64_t dev, ino;
    mode_t mode;
    uint32_t links;
    uint64_t size;
    uint32_t uid, gid;
    int64_t ctime_ns, mtime_ns;
    int64_t btime_ns; /* 0 where the filesystem has none */
};

/* Of a name in a folder, never following a link; "" is the descriptor itself. 0 or -errno. */
int identity_get(int dir, const char *name, struct identity *ret);

bool identity_same(const struct identity *a, const struct identity *b);
bool identity_same_inode(const struct identity *a, const struct identity *b);

/* The same inode with the same content, after a rename of ours has moved its ctime. */
bool identity_same_content(const struct identity *a, const struct identity *b);

/* Content, shared by the tables that have it. */
struct seen_base {
    unsigned refs; /* atomic */
    size_t size;
    unsigned char data[];
};

struct seen_base *seen_base_new(const void *data, size_t n); /* without data: zeros */
struct seen_base *seen_base_ref(struct seen_base *b);
void seen_base_unref(struct seen_base *b);
bool seen_base_same(const struct seen_base *a, const struct seen_base *b);

/* Reads a regular file that is `id` before and after. -ESTALE if it is another by then, -EFBIG
 * beyond `max` bytes. */
int seen_base_read(int dir, const char *name, const struct identity *id, size_t max,
                   struct seen_base **ret);

#define SEEN_CONTENT_MAX (1u << 20)  /* bytes of one file that are kept as a base */
#define SEEN_BYTES_MAX   (64u << 20) /* of all of them */
#define SEEN_PATHS_MAX   1000000u

enum seen_state {
    SEEN_UNKNOWN, /* the person may have changed it while the box worked on it */
    SEEN_ABSENT,
    SEEN_KNOWN,
};

struct seen_entry {
    enum seen_state state;
    struct identity id;     /* the folder's version that the box has taken into account */
    struct seen_base *base; /* common ancestor of that and the box's version; NULL: not kept */
    bool base_differs;      /* the base is not that version's content: the folder was merged into */
    int64_t stable; /* a folder: the note that last found it where it was at the note before */
    bool hides;     /* a folder: the box's layers hide what the folder has in it */
    struct seen_entry *next;
    char path[];
};

struct seen;

struct seen *seen_new(void);
struct seen *seen_ref(struct seen *s); /* takes NULL */
struct seen *seen_unref(struct seen *s);

/* Makes *s a table that nobody else has; NULL becomes a new one. 0 or -ENOMEM. */
int seen_own(struct seen **s);

/* The record of a path, or NULL. seen_state_of() also answers for what lies below a path that was
 * absent: the nearest record above decides. */
struct seen_entry *seen_find(const struct seen *s, const char *path);
enum seen_state seen_state_of(const struct seen *s, const char *path);

/* The first of all records; the others follow by `next`. */
const struct seen_entry *seen_first(const struct seen *s);

/* Records a state in place of the one before. `base` is taken over, also on failure. 0, -ENOSPC
 * beyond SEEN_PATHS_MAX, -ENOMEM. The caller owns the table. */
int seen_set(struct seen *s, const char *path, enum seen_state state, const struct identity *id,
             struct seen_base *base, bool base_differs);

/* Whether `n` more bytes of one file may be kept. */
bool seen_has_room(const struct seen *s, size_t n);

/* What a file of the folder has now, to be the base of later merges; NULL: no regular file, too
 * large, or another by now. */
struct seen_base *seen_read_base(const struct seen *s, int dir, const char *name,
                                 const struct identity *id);

/* We gave a file another name, or took one away: its ctime moved for all its names. */
void seen_moved(struct seen *s, const struct identity *before, const struct identity *after);

/*
 * Reads the list of touched paths over a fresh connection to a diff worker, and records what the
 * folder has at those that are new. That is what the box saw only if it has not changed since
 * `fresh_ns`, from when on the box looks names up anew, and if all folders above it are the ones
 * they were, because moving a folder does not change the files in it.
 */
int seen_note_touched(struct seen *s, int folder, int64_t fresh_ns, int conn, struct error *err);
