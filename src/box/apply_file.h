/* Inside of apply: the steps on one path of the folder. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "apply.h"
#include "changes.h"

/* One apply on its way. */
struct apply {
    int folder;
    int64_t since;
    struct apply_memory *memory;
    int (*connect)(void *data, int *ret_fd);
    void *data;
    bool as_root; /* then what is written is given to the owner of the folder, or of the file it takes the
                     place of */
    struct stat owner;
};

/* The folder that holds a path; with `create`, missing ones are made. -ENOENT, -ENOTDIR, -ELOOP as they are.
 */
int apply_open_parent(const struct apply *ap, const char *path, bool create, int *ret_fd);

/* Writes the content or link of a change at its name in dir, in place of `old` (NULL: there must be nothing).
 * 0, -EEXIST if something is there by now, or a negative errno with err set. */
int apply_write(const struct apply *ap, int dir, const struct changes_entry *e, const struct stat *old,
                struct error *err);

/* Is what is at that name already what apply_write would put there? 1, 0, or a negative errno with err set.
 */
int apply_is_same(const struct apply *ap, int dir, const struct changes_entry *e, const struct stat *old,
                  struct error *err);

/* Removes a file, or an empty folder. 0 or a negative errno. */
int apply_remove(const struct apply *ap, int dir, const char *name, const struct stat *old);

/* Removes up to `count` folders at the end of the path's folder, the deepest first, as long as they are
 * empty. */
void apply_remove_parents(const struct apply *ap, const char *path, size_t count);
