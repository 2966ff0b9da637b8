/*
 * Files between a box and the worker: as tars, which the box's own tar makes and unpacks, and which
 * libarchive reads on the host; through pipes with limits. The host opens no file of a box.
 */
#pragma once

#include "box.h"
#include "text.h"

/* A pipe whose bytes go to a file without a name, up to `max`; then the writer finds the pipe closed,
 * and spool_end() returns -EFBIG. */
struct spool;
int spool_begin(uint64_t max, struct spool **ret, int *ret_fd, struct error *err);
/* Closes the pipe (-1: its descriptor was closed already), waits for the rest; the file's
 * descriptor is at its beginning. */
int spool_end(struct spool *s, int fd, int *ret_fd, uint64_t *ret_size, struct error *err);

/* A tar of the paths of the workspace in `names`, each ended by a NUL; folders without what is in
 * them, unless `recursive`. Paths that are gone are left out. -EFBIG: it is larger than `max`. */
int box_tar(struct box *b, const struct buf *names, bool recursive, uint64_t max, int cancel,
            int *ret_fd, uint64_t *ret_size, struct error *err);

/* Runs a shell script in the workspace with the file as its input. -EIO with what it printed, if its
 * exit status is not 0. */
int box_script(struct box *b, const char *script, int input, int cancel, struct error *err);
