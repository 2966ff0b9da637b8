/*
 * Whose is a box? Inside it is one user, agent (1000). Started by an ordinary user, that is the user's own
 * id, the only one the kernel lets them map. Started by root it is an id that is nobody's on the host, and
 * the folders shown to the box are id-mapped, so that their owner appears as agent and what agent writes
 * comes out owned as the folder is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

struct idmap {
    uid_t uid; /* what agent is on the host */
    gid_t gid;
    bool mapped; /* started by root: folders must be id-mapped */
};

int idmap_choose(struct idmap *ret, struct error *err);

/* A user namespace in which one id inside is one id outside; a descriptor that keeps it. */
int idmap_user_namespace(uid_t uid_in, uid_t uid_out, gid_t gid_in, gid_t gid_out, int *ret_fd,
                         struct error *err);

/* A detached clone of the folder's mount with the owner of the folder appearing as m's user. */
int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd, struct error *err);

/* A detached read-only clone of one file's mount. */
int idmap_plain_clone(const char *path, int *ret_fd, struct error *err);
