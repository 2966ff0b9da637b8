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

/* Does a component name a git folder, on any filesystem that the path may be written to? Also true
 * for other letter cases, trailing dots and spaces, streams (`.git:x`), short names (`git~1`),
 * backslashes as separators, and characters outside of ASCII in between, which a case-folding
 * filesystem may ignore. */
bool relpath_touches_git(const char *path);

/* By the same rules: could this component (n bytes, no slash) mean `name`, which is in lower
 * case? */
bool relpath_component_folds_to(const char *component, size_t n, const char *name);

/* The last component of a valid path. */
const char *relpath_name(const char *path);

/*
 * Opening folders beneath a folder, for paths of any length, and never through a link. The kernel
 * resolves them (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS), paths longer than PATH_MAX
 * in pieces. Paths must be valid, or empty: the folder itself.
 */

/* An O_PATH descriptor of a folder, which need not be readable. -ELOOP, -ENOTDIR: a component is a
 * link, or not a folder. */
int beneath_open_dir(int root, const char *path, int *ret_fd);

/* The folder that holds `path`; its name there is relpath_name(path). */
int beneath_open_parent(int root, const char *path, int *ret_fd);
