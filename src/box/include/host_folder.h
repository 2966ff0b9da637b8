/*
 * Folders and files of the host that a person names for a box: workspaces, shares, images.
 */
#pragma once

#include <stdbool.h>

/* The kernel's own name of a folder: absolute, without links, '.', '..' and doubled slashes.
 * -errno. */
int host_folder_resolve(const char *given, char **ret_path);

/* The same for a folder or a regular file. -EINVAL: it is something else (a socket, a device, a
 * FIFO). */
int host_share_resolve(const char *given, char **ret_path, bool *ret_is_file);

/* Why a resolved folder or file must not be shown in a box, as the end of a sentence; NULL if it
 * may be. */
const char *host_folder_refuse(const char *path, bool writable);
