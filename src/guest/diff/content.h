/* Reading files that others made: regular files only, links as text, never waiting for anything. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A regular file for reading: -ENXIO if it is anything else by now. */
int content_open(int dir, const char *name, int *ret_fd);

/* A link's target as a new string. */
int content_read_link(int dir, const char *name, char **ret);

/* 1 if both files hold the same bytes, 0 if not, or a negative errno. Holes of both are not read.
 */
int content_same(int a, int b);

/* The next part of a file that holds data, from *offset on: moves *offset there and says where it
 * ends; at the file's end both are `size`. */
int content_next_data(int fd, uint64_t size, uint64_t *offset, uint64_t *ret_end);

/* Like pread, through EINTR and short reads: fewer bytes than asked for only at the end of the
 * file. */
ssize_t content_read(int fd, void *space, size_t n, uint64_t offset);

/* Does the file hold exactly these bytes? */
bool content_holds(int fd, const void *data, size_t n);
