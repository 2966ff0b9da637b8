/*
 * Boxes in a folder of a group. A user namespace of an ordinary user maps one group, and the kernel
 * accepts only the one that who writes the map runs as. So that the files of a project that belongs
 * to another of the user's groups can be changed, a helper that runs as that group writes the map.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The group of the folder if it is one of ours, else our own. */
gid_t group_map_choose(const char *folder);

/* Maps the group `inside` of the user namespace of process `pid` to `outside`, one of our groups.
 */
int group_map_write(pid_t pid, gid_t inside, gid_t outside);
