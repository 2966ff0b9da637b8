/*
 * Exact renames: a file that is gone and one that is new with the same content.
 *
 * Only files of a size that occurs on both sides are read, and each name is computed once, so that
 * this costs what the diff's index lines would cost anyway.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "changes.h"
#include "tree.h"

/* For each change, the index of its partner in a rename, or RENAME_NONE. */
#define RENAME_NONE SIZE_MAX

/* Looks only at changes for which wanted[i] is set. The caller frees *ret_partner. 0 or -ENOMEM. */
int renames_find(const struct tree *t, const struct changes *list, const bool *wanted,
                 uint64_t *budget, size_t **ret_partner);
