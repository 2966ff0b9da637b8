/*
 * What the host wants written in a box: a merged file, the folder's version of one, or that a path
 * is gone. The guest writes it (WIRE_STAGE), since the host never opens a file that a box can
 * write.
 */
#pragma once

#include "box.h"
#include "seen.h"

enum box_edit_kind {
    BOX_EDIT_GONE,
    BOX_EDIT_BYTES,
    BOX_EDIT_FOLDER, /* what the folder has there: a file or a link */
};

struct box_edit {
    enum box_edit_kind kind;
    char *path;
    mode_t mode;            /* permissions, of BYTES */
    struct seen_base *data; /* of BYTES */
    struct identity id;     /* the folder's version that the box has afterwards */
};

struct box_edits {
    struct box_edit *items;
    size_t count, room;
};

/* Takes `data` over, also on failure. 0 or -ENOMEM. */
int box_edits_add(struct box_edits *l, enum box_edit_kind kind, const char *path, mode_t mode,
                  struct seen_base *data, const struct identity *id);
void box_edits_free(struct box_edits *l);

/* Writes all of them in the box, FOLDER ones from `folder`, then records in `seen` that the box has
 * the folder's version. What changed in the folder meanwhile is left out. */
int box_edits_write(struct box *b, int folder, struct box_edits *l, struct error *err);
