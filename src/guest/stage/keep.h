/* What one STAGE has to remember: which paths it was given, and what it found to differ. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

#define STAGE_FILES_MAX 100000u
#define STAGE_ROOTS_MAX 1000u
#define STAGE_TOLD_MAX  1000u
#define STAGE_DEPTH_MAX 128u

struct stage_paths {
    char **items;
    size_t count, room;
};

struct stage {
    struct file_call *call;
    struct stage_paths files; /* in ascending order of their bytes */
    struct stage_paths own;
    int folder; /* the one that was opened last, for the next file in it */
    char *folder_path;
    uint64_t changes, told;
};
#define STAGE_INIT(c) ((struct stage){.call = (c), .folder = -1})
void stage_free(struct stage *s);

/* Takes a copy. -ENOBUFS beyond max. */
int stage_paths_add(struct stage_paths *p, const void *path, size_t n, size_t max);

/* Whether a file of that path is among those that were sent; or one beneath it. */
bool stage_has(const struct stage *s, const char *path);
bool stage_has_beneath(const struct stage *s, const char *path);

/* Whether the path is one of `own` or lies beneath one. */
bool stage_is_own(const struct stage *s, const char *path);

void stage_tell(struct stage *s, enum wire_change kind, const char *path, bool folder);
