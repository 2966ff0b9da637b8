/* One entry of a folder, made again in another. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* Anything but a folder: content with its holes, mode, times, user attributes. `escape` as in
 * copyfile_attributes. */
int copyfile_entry(int from, int to, const char *name, const struct stat *st, bool escape);

/* The user attributes of an open file or folder. What looks like overlay's own marks through a
 * mounted overlay is in truth the agent's doing: with `escape` it is written such that overlay
 * shows it again and does not obey it. */
int copyfile_attributes(int from, int to, bool escape);

/* Mode and times of an open file or folder; the last thing done to it. Set-user-id is not kept: it
 * has no effect in a box, and the diff worker's own system call filter refuses it. */
int copyfile_finish(int to, const struct stat *st);
