/*
 * What a diff worker answers about a box's changes, read by the host.
 *
 * No code of the agent runs where a diff worker does, but what it reads is hostile, so it is not
 * trusted either: every frame is checked, every list is bounded, and a path is valid by
 * relpath_is_valid() or the answer is refused.
 *
 * All functions take a fresh connection to a diff worker and leave closing it to the caller.
 */
#pragma once

#include "box.h"

#define CHANGES_MAX       1000000u
#define CHANGES_BYTES_MAX (512u << 20) /* of memory for one list */

/* One record, valid during the call that hands it out. */
struct changes_entry {
    enum wire_change kind;
    mode_t mode;
    uint64_t size;
    const char *path;
    const char *target; /* of a link, or NULL */
    bool implied;       /* a folder whose entries imply it */
    uint64_t link;      /* the same number for all names of one file; 0: it has one only */
};

/* Hands out the changes in order of their paths; with `folders` also folders that others imply. 0,
 * 1 if the box made more changes than are listed, or an error. */
int changes_each(int conn, bool folders, int (*each)(void *data, const struct changes_entry *e),
                 void *data, struct error *err);

/* The same as a list; of more than CHANGES_MAX changes it holds the first. */
int changes_read(int conn, struct box_changes *ret, struct error *err);

/* Appends a change to a list, with a copy of its path. 0 or -ENOMEM. */
int box_changes_add(struct box_changes *c, const struct box_change *change);

/* Writes the diff to a descriptor. */
int changes_diff(int conn, bool stat, int out, struct error *err);

/* Gets the bytes of a file in order; what lies between them is a hole. A negative answer ends the
 * transfer. */
struct fetch_sink {
    int (*put)(void *data, uint64_t offset, const void *bytes, size_t n);
    void *data;
};

/* The content of one changed file, which must come out at `size` bytes, as the list of changes
 * said. -ECANCELED when the sink ended it (the sink knows why, err is not set). */
int changes_fetch(int conn, const char *path, uint64_t size, const struct fetch_sink *sink,
                  struct error *err);

/* Sends one request, with a flag (WIRE_K_STAT, WIRE_K_ALL) or 0. */
int changes_request(int conn, enum wire_type type, const char *path, uint16_t flag,
                    struct error *err);

/* The next answer, valid until the one after it; an ERROR becomes err. */
int changes_answer(struct wire_reader *r, struct wire_frame *ret, struct error *err);
