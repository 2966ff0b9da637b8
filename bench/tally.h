/* Descriptors, memory, children and mounts of this process, counted from /proc to find leaks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tally {
    int64_t descriptors;
    int64_t memory; /* resident, in KiB */
    int64_t mounts; /* lines of mountinfo: what is mounted in the host's view */
    int64_t children;
};

void tally_take(struct tally *ret);

/* Calls `see` with each child of this process, zombies too; returns how many there are. */
int64_t tally_children(void (*see)(int pid, void *data), void *data);

/* The number behind `key` in a file of "key: number" lines; -1 if it cannot be read. */
int64_t tally_number(const char *path, const char *key);
