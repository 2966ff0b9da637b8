/*
 * Whose is a box? Inside it is one user, agent (1000). Started by an ordinary user, that is the
 * user's own id, the only one the kernel lets them map; its group is that of the workspace if the
 * user is in it. Started by root it is an id that is nobody's on the host and no
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

#define AGENT_ID 1000 /* the one user and group inside */

struct idmap {
    uid_t uid; /* what agent is on the host */
    gid_t gid;
    bool mapped; /* folders must be id-mapped */
    bool
        clones; /* root with CAP_SYS_ADMIN: the host picks folders up; else the box does, by path */
    bool own;   /* no other family of boxes has this id */
    bool others;    /* there are ids for the owners of other files, too */
    char plain[96]; /* why root goes the plain way, or "" */
};

/* For a box with this workspace (or NULL). The second goes the plain way, for the reason `why`. */
int idmap_choose(const char *folder, struct idmap *ret, struct error *err);
int idmap_choose_plain(const char *folder, const char *why, struct idmap *ret, struct error *err);

/* Whether a failure means "not permitted or not supported here": a reason to go the plain way. */
bool idmap_is_refusal(int r);

/* The user namespace of a family of boxes, in which agent is m's user; a descriptor that keeps
 * it. */
int idmap_family_namespace(struct idmap *m, int *ret_fd, struct error *err);

/* A detached clone of the folder's mount; if m is mapped, its owner appears as m's user. */
int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd,
                 struct error *err);

/* A detached read-only clone of one file's mount; of a folder's, without what is mounted inside. */
int idmap_plain_clone(const char *path, int *ret_fd, struct error *err);
int idmap_single_clone(const char *path, int *ret_fd, struct error *err);

/*
 * The texts of maps for a box that root starts. Beside agent all other owners of files have ids: a
 * file whose owner or group is not mapped cannot be copied up into the box's layer (EOVERFLOW), so
 * it could be neither changed nor renamed. Nobody in a box ever runs as one of them, so all boxes
 * share their range: OTHERS_FIRST + the id on disk.
 */
#define OTHERS_FIRST 0x72000000u /* behind those of the agents */
#define OTHERS_COUNT 0x01000000u
#define OWNER_MAP    160 /* bytes of a map's text */

/* For the family's user namespace: inside, agent is AGENT_ID and every other id itself. */
void owner_map_family(uint32_t agent, char ret[OWNER_MAP]);

/* For an id-mapped mount of a folder that belongs to `owner`. */
void owner_map_folder(uint32_t owner, uint32_t agent, char ret[OWNER_MAP]);

/*
 * Boxes in a folder of a group. A user namespace of an ordinary user maps one group,
 * and the kernel accepts only the one that the writer of the map runs as. So that the files of a
 * project that belongs to another of the user's groups can be changed, a helper that runs as that
 * group writes the map.
 */

/* The group of the folder if it is one of ours, else our own. */
gid_t group_map_choose(const char *folder);

/* Maps the group `inside` of the user namespace of process `pid` to `outside`, one of our
 * groups. */
int group_map_write(pid_t pid, gid_t inside, gid_t outside);
