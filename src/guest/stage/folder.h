/* Folders of a hostile tree: opened without following a link, made where they are missing, opened
 * up where their mode forbids it. */
#pragma once

#include "keep.h"

/* The folder that is to hold `path`, in s->folder. What is in the way of a folder is removed and
 * told. */
int stage_open_parent(struct stage *s, const char *path);

/* Opens a folder as a place to look names up in, able to be read and written. -ENOENT, -ENOTDIR
 * (also for a link). */
int stage_open_folder(int dir, const char *name, int *ret_fd);

/* Removes whatever has that name, with everything in it. 0 also if nothing has. */
int stage_remove(int dir, const char *name);

/* Removes an absolute path of the box; a link or a file on the way goes instead, since behind it
 * nothing is left of that path then. With a slash at its end it is made again, as an empty folder.
 */
int stage_clear(const char *path);
