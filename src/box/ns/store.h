/*
 * A box's store on disk, for boxes that write more than fits in memory, and for kernels whose tmpfs
 * cannot be the upper layer of an overlay.
 *
 * A store is a folder of $HUTCH_STORE or $XDG_STATE_HOME/hutch/store, which only its owner may
 * enter. The box's owner holds a lock on it, and a process beside (src/guest/store.c) watches its
 * size and removes it when the owner ends, however that happens. A folder without a lock is left
 * from a crash of the whole machine, and the next store process removes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "idmap.h"

#define STORE_INODES_PER_MIB 256u /* so that a box of the default size may hold 262,144 files */
#define STORE_INODES(disk)   (((disk) >> 20) * STORE_INODES_PER_MIB + 1024)

struct store;

struct store_options {
    const struct idmap *ids;
    int userns; /* the family's */
    uint64_t disk;
};

/* Whether new boxes can have a store on disk, and how many bytes it may have; *err says why not. */
int store_check(uint64_t *ret_bytes, struct error *err);

int store_open(const struct store_options *o, struct store **ret, struct error *err);

/* A store for a fork of the box that `from` belongs to; keeps `from`, whose layers it stands on. */
int store_fork(struct store *from, struct store **ret, struct error *err);
struct store *store_ref(struct store *s);

/* Drops one reference; with the last the folder is removed, and this returns once it is. Takes
 * NULL. */
void store_unref(struct store *s);

/* Where the folder is, valid while the store lives. */
struct store_folder {
    const char *path;
    int mount; /* as root: a detached mount of the folder, for the plan; else -1 */
    bool has_quota;
};
struct store_folder store_folder(const struct store *s);

/* Tells the store process which process to kill should the box go on writing when it is full. */
void store_set_process(struct store *s, int pidfd);

/* A number that changes when the box touches another file of its workspace's folder. -errno if the
 * store process cannot tell, or not soon. */
int store_names(const struct store *s, uint64_t *ret);

struct store_report {
    uint64_t bytes;  /* used at the last count */
    bool over_limit; /* more than it may */
    bool host_full;  /* the host's filesystem is nearly full */
    bool exact;      /* a quota: the kernel refuses what is too much */
    bool unwatched;  /* the store process is gone */
};

void store_look(const struct store *s, struct store_report *ret);
