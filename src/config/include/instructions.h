/*
 * Instructions for the model: AGENTS.md, or CLAUDE.md in a folder that has none. These are the ones
 * outside of the workspace: the person's own (~/.config/hutch/AGENTS.md), and those of the folders
 * above the workspace, up to the root of the repository that it is part of.
 *
 * Instructions are text for the model, never settings: a repository's need no trust.
 */
#pragma once

#include <stdbool.h>

#include "text.h"

#define INSTRUCTIONS_FILE      "AGENTS.md"
#define INSTRUCTIONS_ELSE_FILE "CLAUDE.md" /* of a repository only */
#define INSTRUCTIONS_MAX       (64u << 10) /* bytes of one file; the rest is left out */
#define INSTRUCTIONS_FOLDERS   16          /* above the workspace; the nearest count */

struct instructions {
    char *path; /* for people and the model: ~/.config/hutch/AGENTS.md, ../AGENTS.md, … */
    struct buf text;
    bool cut;
};

struct instructions_sink {
    void (*found)(void *data, const struct instructions *i);
    void (*trouble)(void *data, const char *text); /* why a file is ignored */
    void *data;
};

/* The person's own first, then from the root of the repository downwards: later ones are about less
 * and say more. `workspace` may be NULL. */
void instructions_read(const char *workspace, const struct instructions_sink *sink);
