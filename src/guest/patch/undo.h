/*
 * Steps that can be undone: each is done and written down, and all of them are undone from last to
 * first if one fails.
 */
#pragma once

#include <sys/types.h>

#include "stage.h"
#include "../swap.h"

enum step_kind {
    STEP_SWAP,   /* a file is exchanged with what waits in the stage */
    STEP_TAKE,   /* a file is moved to the stage */
    STEP_PUT,    /* what waits in the stage is moved to a place where nothing is */
    STEP_MAKE,   /* a folder is made */
    STEP_REMOVE, /* an empty folder is removed */
};

struct step {
    enum step_kind kind;
    const char *path;    /* outlives the list, but for folders: then it is a copy */
    struct stage *stage; /* of a file */
    size_t number;       /* of what waits there */
    struct held ours;    /* what was put in the place of a file */
    mode_t mode;         /* of a folder that was removed */
};

struct undo {
    int root;
    struct step *steps;
    size_t count, room;
};

void undo_init(struct undo *u, int root);
void undo_free(struct undo *u);

/* Does a step and writes it down. */
int undo_do(struct undo *u, struct step s);

/* Makes the folders on the way to a path that are missing. */
int undo_make_folders(struct undo *u, const char *path);

/* Removes the folders above a path that are empty, up to and with `top` ("": below the root). */
void undo_prune(struct undo *u, const char *path, const char *top);

/* Says how many steps could not be undone. */
size_t undo_all(struct undo *u);
