/*
 * The ignore files that hold for a folder: its own and those of the folders above it.
 *
 * .gitignore counts wherever it lies, whether or not there is a repository; a folder with a .git
 * begins anew, as a repository of its own, and has its .git/info/exclude besides. .ignore files,
 * which rg and fd know too, are asked first. Chains are shared by all folders beneath, and live as
 * long as the request.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct rules;

struct ignore {
    const struct ignore *up;
    size_t base; /* bytes of a path, with its last slash, up to this folder */
    struct rules *dot, *git, *exclude;
    bool repository;
};

/* What of interest was seen in a folder. */
enum { IGNORE_HAS_DOT = 1, IGNORE_HAS_GITIGNORE = 2, IGNORE_HAS_GIT = 4 };

#define IGNORE_MEMORY_MAX (64u << 20) /* of all rules of one request */

/* The chain for a folder in which `has` was seen: `up` itself if there is nothing to add. Its path
 * has `base` bytes with its slash. -E2BIG if there are too many rules, -ENOMEM. */
int ignore_extend(const struct ignore *up, int folder, unsigned has, size_t base,
                  atomic_size_t *memory, const struct ignore **ret);

/* What `name` means in a folder: one of the bits above, or 0. */
unsigned ignore_interest(const char *name, size_t n);

/* Is the entry at this path ignored? */
bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder);
