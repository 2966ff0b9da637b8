/*
 * Paths as they come out of a box: relative to a folder, of any bytes but NUL, and never trusted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define RELPATH_MAX 65536u

/* Relative, not empty, at most RELPATH_MAX bytes, no NUL, and no component that is empty, "." or
 * "..". */
bool relpath_is_valid(const void *path, size_t n);

/*
 * Does a component name a git folder, on any filesystem that the path may be written to? Also true
 * for other cases, trailing dots and spaces, streams (`.git:x`), short names (`git~1`), backslashes
 * as separators, and characters outside of ASCII put between, since a case-folding filesystem may
 * ignore them.
 */
bool relpath_touches_git(const char *path);

/* Might a filesystem that folds names take this component (n bytes, no slash) for `name`, which is
 * in lower case? By the same rules. */
bool relpath_component_folds_to(const char *component, size_t n, const char *name);

/* The last component of a valid path. */
const char *relpath_name(const char *path);

/*
 * Opening what is beneath a folder, however long the path is, and never through a link. The kernel
 * resolves (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS); a path longer than it takes at
 * once is resolved in pieces. Paths must be valid, or empty: the folder itself.
 */

/* A folder as a place to look names up in (O_PATH, so that it need not be readable). -ELOOP,
 * -ENOTDIR: something on the way is a link or no folder. */
int beneath_open_dir(int root, const char *path, int *ret_fd);

/* The folder that holds `path`; its name there is relpath_name(path). */
int beneath_open_parent(int root, const char *path, int *ret_fd);
