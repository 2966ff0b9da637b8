/*
 * Whose is a box? Inside it is one user, agent (1000). Started by an ordinary user, that is the
 * user's own id, the only one the kernel lets them map; its group is that of the workspace if the
 * user is in it (group_map.h). Started by root it is an id that is nobody's on the host and no
 * other box's (in a container with few ids: the highest of these, for all boxes), and the folders
 * shown to the box are id-mapped, so that their owner appears as agent and what agent writes comes
 * out owned as the folder is.
 *
 * Root of a container often lacks the rights for that, or its filesystem has no id-mapped mounts
 * (overlay). Then agent is the owner of the workspace if root may map that id, and root's own id
 * otherwise: the plain way, which `hutch doctor` shows as degraded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

struct idmap {
    uid_t uid; /* what agent is on the host */
    gid_t gid;
    bool mapped; /* folders must be id-mapped */
    bool clones; /* root with CAP_SYS_ADMIN: the host picks folders up; otherwise the box does, by
                    path */
    bool own;    /* no other family of boxes has this id */
    bool others; /* there are ids for the owners of other files, too (owner_map.h) */
    char plain[96]; /* why root goes the plain way, or "" */
};

/* For a box with this workspace (or NULL). The second goes the plain way, for the reason `why`. */
int idmap_choose(const char *folder, struct idmap *ret, struct error *err);
int idmap_choose_plain(const char *folder, const char *why, struct idmap *ret, struct error *err);

/* Whether a failure means "not permitted or not supported here": a reason to go the plain way. */
bool idmap_is_refusal(int r);

/* The user namespace of a family of boxes, in which agent is m's user; a descriptor that keeps it.
 */
int idmap_family_namespace(struct idmap *m, int *ret_fd, struct error *err);

/* A detached clone of the folder's mount; if m is mapped, its owner appears as m's user. */
int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd,
                 struct error *err);

/* A detached read-only clone of one file's mount. */
int idmap_plain_clone(const char *path, int *ret_fd, struct error *err);

/* The same without what is mounted inside. */
int idmap_single_clone(const char *path, int *ret_fd, struct error *err);
