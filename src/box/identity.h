/*
 * What tells one state of a file from another: which inode it is, and when it was last changed.
 *
 * Every change of a file's content, mode or name moves its change time (ctime), and nobody can set
 * that time. For a folder only the inode counts, since every new name in it moves the time; the
 * birth time tells a new folder from an old one that had the same inode number.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct identity {
    uint64_t dev, ino;
    mode_t mode;
    uint32_t links;
    uint64_t size;
    uint32_t uid, gid;
    int64_t ctime_ns, mtime_ns;
    int64_t btime_ns; /* 0 where the filesystem has none */
};

/* Of a name in a folder, never following a link; "" is the descriptor itself. 0 or a negative
 * errno. */
int identity_get(int dir, const char *name, struct identity *ret);

bool identity_same(const struct identity *a, const struct identity *b);

/* The same inode: all that can be said of folders. */
bool identity_same_inode(const struct identity *a, const struct identity *b);

/* The same inode with the same content, when a rename of ours has moved its ctime. */
bool identity_same_content(const struct identity *a, const struct identity *b);
