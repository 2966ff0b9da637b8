/*
 * What a new snapshot shares with the one before: files that did not change in between become hard
 * links to the copies there. Snapshots are never written again, so a file can be in any number of
 * them.
 *
 * Beside each snapshot lies an index: for every file that was copied its inode and change time in
 * the box's own layer, and the inode of the copy. The kernel changes the time with every write,
 * link, rename and chmod. It does not for a page that a process had mapped and dirtied before the
 * last snapshot, and on a tmpfs for mapped pages in general; there the contents are compared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct share_record {
    uint64_t inode;
    int64_t changed_ns;
    uint64_t copy;
};

struct share {
    int previous;               /* the tree of the snapshot before, or -1: nothing to share */
    bool trusted;               /* the change time tells of every change since */
    struct share_record *known; /* of the snapshot before, by inode */
    size_t n_known;
    struct share_record *made; /* of this one */
    size_t n_made, room;
    int64_t now_ns; /* a file changed since may change again without a new time */
    int dir;        /* the folder of `previous` that was looked at last, and its path */
    char *dir_path;
};

#define SHARE_INIT ((struct share){.previous = -1, .dir = -1})

/* `snapshots` is the folder of all of the box's snapshots; previous = 0: there is none. */
void share_open(struct share *s, int snapshots, unsigned previous, const char *tree);
void share_close(struct share *s);

/* Makes to/name a link to the earlier copy of the file from/name. 1: it is one, 0: the file must be
 * copied.
 */
int share_link(struct share *s, int from, const char *path, const struct stat *st, int to);

/* Remembers the copy to/name for the next snapshot. Failure only means that it will not be shared.
 */
void share_note(struct share *s, const struct stat *st, int to, const char *name);

/* Writes the index of this snapshot. `mapped`: a process of the box has files mapped for writing
 * now. */
void share_write(const struct share *s, int snapshots, unsigned number, const char *tree,
                 bool mapped);
