/*
 * Files that others made: regular files only, links as text, never waiting for anything; and one
 * side of a file's diff, a blob: what git would store of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cleanup.h"

/* A regular file for reading: -ENXIO if it is anything else by now. */
int content_open(int dir, const char *name, int *ret_fd);

/* A link's target as a new string. */
int content_read_link(int dir, const char *name, char **ret);

/* 1 if both files hold the same bytes, 0 if not, or a negative errno. Holes of both are not
 * read. */
int content_same(int a, int b);

/* The next part of a file that holds data, from *offset on: moves *offset there and says where it
 * ends; at the file's end both are `size`. */
int content_next_data(int fd, uint64_t size, uint64_t *offset, uint64_t *ret_end);

/* Does the file hold exactly these bytes? */
bool content_holds(int fd, const void *data, size_t n);

/* Removes all that is in a folder, however deep, with two descriptors and no memory to speak of. */
int empty_dir(int dir);

/*
 * Small files are held in memory, since the text diff needs them whole; larger ones stay open and
 * are read again. A file that is too large for a diff, or that cannot be read, is `omitted`: only
 * that it exists is known.
 */
#define BLOB_NAME 41

struct blob {
    mode_t mode; /* 0100644, 0100755, 0120000; 0: there is no such file, link or text */
    uint64_t size;
    uint8_t *data; /* NULL if not held */
    int fd;
    bool omitted;
    char name[BLOB_NAME]; /* git's: the SHA-1 of its content, in hex; zeroes if there is none */
};

#define BLOB_NONE ((struct blob){.fd = -1, .name = "0000000000000000000000000000000000000000"})

/* Loads what is at a path. `budget` is how many bytes may still be read; it is used up. 0 or
 * -ENOMEM. */
int blob_load(int root, const char *path, uint64_t *budget, struct blob *ret);
void blob_free(struct blob *b);
#define _cleanup_blob_ _cleanup_(blob_free)

/* Fills in the name of what it holds, or of what its descriptor reads. */
int blob_make_name(struct blob *b);

/* As git finds out: a NUL near its start. What is not held is binary too. */
bool blob_is_binary(const struct blob *b);

/* Reads from an offset on, as io_read_at. */
ssize_t blob_read(const struct blob *b, void *space, size_t n, uint64_t offset);
