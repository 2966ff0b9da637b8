/*
 * Files that the person wrote for hutch: configuration, manifests, tools. They are believed only if
 * nobody else can have written them: they belong to the person (or root), and not everybody may
 * write to them.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "buf.h"
#include "error.h"

/* Opens a regular file, or a folder, that is the person's own. -ENOENT with a text if it is not
 * there. */
int ownfile_open(const char *path, int *ret_fd, struct stat *ret_st, struct error *err);
int ownfile_open_folder(const char *path, int *ret_fd, struct error *err);

/* The whole of it, as far as the buffer's maximum: beyond that -EFBIG. */
int ownfile_read(const char *path, struct buf *b, struct error *err);

/* $XDG_CONFIG_HOME/hutch or ~/.config/hutch, with `name` behind it if that is not NULL; a new
 * string. NULL: nobody says where the home is, or no memory. */
char *ownfile_config_path(const char *name);

/* The same for $XDG_STATE_HOME/hutch or ~/.local/state/hutch: what hutch remembers about this
 * machine. */
char *ownfile_state_path(const char *name);

/* Makes each folder of the path that does not exist, for the person alone. */
int ownfile_make_folders(char *path);
