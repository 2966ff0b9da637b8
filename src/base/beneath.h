/*
 * Opening what lies beneath a folder, however long the path is, and never through a link.
 *
 * The kernel resolves (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS); a path longer than it
 * takes at once is resolved in pieces. Paths must be valid by relpath_is_valid() or empty, which
 * means the folder itself.
 */
#pragma once

/* A folder as a place to look names up in (O_PATH, so that it need not be readable). -ELOOP,
 * -ENOTDIR: something on the way is a link or no folder. */
int beneath_open_dir(int root, const char *path, int *ret_fd);

/* The folder that holds `path`; its name there is relpath_name(path). */
int beneath_open_parent(int root, const char *path, int *ret_fd);
