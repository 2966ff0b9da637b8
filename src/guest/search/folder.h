/*
 * One folder of a walk: its path and what was found in it.
 *
 * Names are bytes in one block; entries point into it. A folder knows the chain of ignore files
 * that holds for what is in it, once it was read.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entry_type { ENTRY_FILE = 'f', ENTRY_FOLDER = 'd', ENTRY_LINK = 'l', ENTRY_OTHER = 'o' };

struct entry {
    uint32_t name; /* offset; the name ends in a NUL */
    uint16_t n;
    uint8_t type;
    bool unlisted; /* a folder that is only walked through */
};

struct ignore;

struct folder {
    atomic_uint uses; /* jobs that need it, and whoever keeps it */
    unsigned depth;   /* 0: where the walk starts */
    char *path;       /* relative to the root, "" for the root itself; NUL-terminated */
    size_t n_path;
    const struct ignore *ignore;
    char *names;
    size_t n_names;
    struct entry *entries;
    size_t count;
    struct folder *
        *children; /* of those that are kept: one for each entry that is a folder, in order */
    size_t n_children;
};

/* A folder that nobody has read yet. `name` is added to the path of `above`, unless that is NULL.
 */
struct folder *folder_new(const struct folder *above, const char *name, size_t n);
void folder_release(struct folder *f);

static inline const char *folder_name(const struct folder *f, const struct entry *e)
{
    return f->names + e->name;
}

/* The length of the folder's path with its slash. */
static inline size_t folder_base(const struct folder *f)
{
    return f->n_path ? f->n_path + 1 : 0;
}

/* Reads the names; `scratch` is memory for the kernel to write to. *ret_interest are the bits of
 * ignore.h. */
int folder_read(struct folder *f, int fd, void *scratch, size_t size, unsigned *ret_interest);

/* Sorts the entries by name. -ENOMEM. */
int folder_sort(struct folder *f);
