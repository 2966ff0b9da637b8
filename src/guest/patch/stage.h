/*
 * Folders where new contents wait to be put in their places, and old ones to be put back if it
 * comes to that.
 *
 * A rename only works within a filesystem, so there is one such folder for each that the files of a
 * diff lie on: as far up in the tree as it can be made, since the folders further down may have to
 * go. Only its owner can enter it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAGES_MAX 32u
#define STAGE_NAME 32

struct stage {
    int above, dir; /* the folder it is in; itself */
    uint64_t dev;
    char name[STAGE_NAME];
};

struct stages {
    int root;
    struct stage list[STAGES_MAX];
    size_t count;
};

/* The stage for a path, made if there is none yet. */
int stage_for(struct stages *s, const char *path, struct stage **ret);

/* Removes the folders with everything that is left in them; or only lets go of them. */
void stages_end(struct stages *s, bool remove, size_t names);

/* What waits there has a number: new contents and old ones. */
void stage_name(char name[STAGE_NAME], char kind, size_t number);
