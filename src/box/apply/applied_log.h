/*
 * What applies of a box changed in the folder: for each path the state that it had before.
 *
 * Entries are numbered from 1 in the order in which they were made. A position is the number of the
 * last one at some time; a snapshot remembers its position, and what came after it is what an undo
 * has to take back. Contents are kept in an unlinked temporary file, which a log shares with the
 * logs copied from it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "text.h"

#define APPLIED_BYTES_MAX (256ull << 20) /* of contents, for a box and all forked from it */

struct applied_log;

/* The state of a path before it was changed. */
enum applied_kind {
    APPLIED_ABSENT,
    APPLIED_FILE,
    APPLIED_LINK,
    APPLIED_DIR,
};

struct applied_entry {
    const char *path; /* relative to the workspace */
    enum applied_kind kind;
    mode_t mode;        /* permissions, of a file or folder */
    uint64_t size;      /* of a file */
    const char *target; /* of a link */
    bool kept;          /* a file: its content is there for applied_log_read() */
    uint64_t number;
};

struct applied_log *applied_log_new(void);
struct applied_log *applied_log_copy(
    const struct applied_log *l); /* for a fork; NULL without memory */
struct applied_log *applied_log_free(struct applied_log *l);

/* Adds an entry; `e->number` and `e->kept` are not looked at. The content of a file is read from
 * `content`, from its start; it is left out when it is larger than what is left of
 * APPLIED_BYTES_MAX. */
int applied_log_add(struct applied_log *l, const struct applied_entry *e, int content);

/* Takes back the last entry: what it announced did not happen. */
void applied_log_drop_last(struct applied_log *l);

uint64_t applied_log_position(const struct applied_log *l); /* takes NULL: 0 */

/* Calls `each` once per path that has an entry after `position`, with the earliest of them, in
 * order of their paths, until it returns non-zero; returns that or 0, or -ENOMEM. */
int applied_log_each(const struct applied_log *l, uint64_t position,
                     int (*each)(void *data, const struct applied_entry *e), void *data);

/* Reads the content of an entry that each() was called with. Bytes read, 0 at the end, or a
 * negative errno. */
ssize_t applied_log_read(const struct applied_log *l, const struct applied_entry *e, void *space,
                         size_t n, uint64_t offset);
