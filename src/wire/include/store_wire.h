/*
 * Messages to the process that watches and removes the disk stores of one family of boxes
 * (`hutch-guest store`, src/guest/store.c). Each is one packet on its control socket. When the owner
 * of the boxes ends, the socket closes and the process removes every store that is left.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define STORE_NAME_SIZE 32
#define STORE_PREFIX    "box-" /* folders with other names are never removed */

enum store_op {
    /* fds: the folder that holds all stores, the family's user namespace (ordinary user) */
    STORE_SETUP,
    STORE_ADD, /* fds: the store's folder with its lock, a file with one struct store_state */
    /* fds: a pidfd of the box's process 1, which is killed if the box goes on writing */
    STORE_PROCESS,
    STORE_REMOVE, /* fds: a pipe, closed once the folder is gone */
    STORE_NAMES,  /* fds: a pipe, for a uint64_t: a hash of the names in the workspace's layer */
};

struct store_message {
    uint32_t op;
    char name[STORE_NAME_SIZE];
    uint64_t bytes_max, inodes_max;
};

/* What the store process last saw, in memory that it shares with the owner. */
struct store_state {
    _Atomic uint64_t bytes, inodes; /* used by the store at the last count */
    _Atomic uint32_t full;          /* enum store_full */
    _Atomic uint32_t looks;         /* how often the process has looked */
};

enum store_full {
    STORE_HAS_ROOM,
    STORE_OVER_LIMIT, /* the box uses more than its limit */
    STORE_HOST_FULL,  /* the host's filesystem has less free space than the floor */
};
