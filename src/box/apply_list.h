/* Inside of apply and sync: the list of a box's changes, and which of them are wanted. */
#pragma once

#include "apply.h"
#include "changes.h"

struct apply_item {
    struct changes_entry e; /* owns its strings */
    bool later;             /* something has to be removed first */
    bool silent;            /* the report of another item covers this one */
};

struct apply_list {
    struct apply_item *at; /* in order of the paths */
    size_t count, room, bytes;
};

/* `folders`: also those that the paths in them imply. */
int apply_list_read(const struct apply_job *job, bool folders, struct apply_list *ret,
                    struct error *err);
void apply_list_free(struct apply_list *list);

/* Whether the options name the path, something above it or something below it; or nothing at all.
 */
bool apply_is_selected(const struct apply_options *o, const char *path);
