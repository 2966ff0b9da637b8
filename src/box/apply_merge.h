/* Inside of apply and sync: merging the folder's and the box's version of one file. */
#pragma once

#include "apply_file.h"

enum apply_merge_result {
    APPLY_MERGE_CLEAN,
    APPLY_MERGE_ONLY_BOX,    /* the folder's version has the base's content: take the box's */
    APPLY_MERGE_ONLY_FOLDER, /* the box's version is the base: take the folder's */
    APPLY_MERGE_CONFLICT,    /* with bytes, if both are texts: these hold conflict markers */
    APPLY_MERGE_MODE,        /* both changed the permissions, differently */
};

struct apply_merged {
    struct seen_base *bytes;  /* the merged text, or NULL */
    struct seen_base *mine;   /* the folder's version, or NULL */
    struct seen_base *theirs; /* the box's version, or NULL */
    mode_t mode;              /* permissions */
};

void apply_merged_free(struct apply_merged *m);

/* Merges what the folder has at e->path, which is `now`, with what the box has there. `seen` is
 * what the box saw, or NULL if that is not known. An apply_merge_result, or a negative errno with
 * err set. */
int apply_merge(struct apply *ap, int dir, const struct changes_entry *e,
                const struct identity *now, const struct seen_entry *seen, struct apply_merged *ret,
                struct error *err);
