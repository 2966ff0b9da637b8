/* One file's part of a git diff. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "answer.h"
#include "blob.h"

/* What the diff said of all files so far. */
struct patch_totals {
    uint64_t files, added, deleted;
    uint64_t untold; /* files that are only said to differ */
};

/* Writes the header and the change of one file; nothing if git sees none. */
int patch_write(struct answer *a, const char *path, const struct blob *old, const struct blob *new,
                struct patch_totals *totals);

/* Writes that a file was moved; its mode may have changed. */
int patch_write_rename(struct answer *a, const char *from, const char *to, mode_t old_mode,
                       mode_t new_mode);

/* Instead: a line as of `git diff --numstat`. */
int patch_count(struct answer *a, const char *path, const struct blob *old, const struct blob *new,
                struct patch_totals *totals);
int patch_count_rename(struct answer *a, const char *from, const char *to);
