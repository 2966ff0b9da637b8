/* Project quotas of ext4 and xfs: an exact limit for one store, where the host has them enabled and
 * hutch is started by root. */
#pragma once

#include <stdint.h>

#define STORE_INODES_PER_MIB 256u /* so that a box of the default size may hold 262,144 files */
#define STORE_INODES(disk)   (((disk) >> 20) * STORE_INODES_PER_MIB + 1024)
#define QUOTA_NEARLY                                                                               \
    (1u << 20) /* a store with less left counts as full: a write that did not fit failed */

/* Limits everything that will be made in the folder. Returns the number of its project, 0 without
 * quotas. */
uint32_t quota_set(int folder, uint64_t bytes, uint64_t inodes);

void quota_clear(int on_filesystem, uint32_t project);
