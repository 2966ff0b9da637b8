/*
 * What a box looks like from inside, as plans: a fresh box, a fork, a diff worker.
 *
 * The store is the box's one writable place: a tmpfs, beside which a folder on disk (store.h) may
 * hold what grows: d, to which r, w and s are links then. Making the rest on disk would wait for
 * its journal, for every mount point and each of the hundred whiteouts of /etc. The store is
 * attached beneath /proc of the box's own mount tree, where the procfs mounted over it hides it for
 * good, and holds:
 *
 *     k         (mount) the skeleton: places, links and made-up files of the root filesystem
 *     r/u r/k   upper and work folder of the root's overlay
 *     w/u w/k   upper and work folder of the workspace's overlay
 *     c         the layers of /etc (selection.c)
 *     g         what the box reads as its control group
 *     d         (mount) the folder on disk, if there is one
 *     base      (mount) the person's folder
 *     img       (mount) the image, if there is one
 *     l0 l1 …   (mounts) layers of the snapshots this box was forked from, newest first; each holds
 *               w/ and r/
 *     s/N       snapshots taken of this box, each with w/ and r/
 *     x0 x1 …   (mounts) folders shown read-only, each beneath an overlay of its own (files have
 *               none)
 *     guest     (mount) the guest's program
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "box.h"
#include "plan.h"

/*
 * What a box sees of the host's /etc: everything that every user of the host may read, less what is
 * a secret by its name or its place.
 *
 * Modes matter because an ordinary user's box runs as that user, with all of the user's groups, and
 * must not read what only those groups may. (Root's box has an id of its own, and can read what
 * others may read.)
 */

struct etc_view {
    /* paths relative to /etc, parents before children; each ends with a NUL, the list with one
     * more */
    char *hidden;
    size_t hidden_size;
    bool has_mounts; /* something is mounted inside of /etc, as container runtimes do */
};

/* Looks at /etc, or takes the answer of an earlier look if nothing has changed since. 0 or a
 * negative errno. */
int etc_view_read(struct etc_view *ret);
void etc_view_free(struct etc_view *v);

/* Looks at the folder, whatever an earlier look said; etc_view_read() without its memory. */
int etc_view_scan(const char *folder, struct etc_view *ret);

bool etc_view_hides(const struct etc_view *v, const char *path);

/* Whether a box must not see the entry at this path relative to /etc. A symbolic link has no mode
 * of its own: what it leads to is judged where it lies. */
bool etc_is_hidden(const char *path, mode_t mode);

#define LAYERS_MAX 8 /* more are flattened into one: an overlay gets slower with each */
#define PROXY_PORT 3128

#define OWN_PATH_SIZE 1024

/* What the host has of the lists in selection.c, by their order there. */
struct selection {
    uint8_t top[8], more[8];
    uint8_t proc_empty[20], proc_read_only[8];
    bool etc_in_parts; /* the host's /etc cannot be a layer of an overlay */
    uid_t owner;       /* what agent is on the host */
};

/* What distinguishes one box from another: kept by a box, since its forks show the same. */
struct layout {
    enum box_mode mode;
    bool host_network; /* no network of its own */
    bool has_proxy;    /* it listens for the box's connections */
    bool adjustable;   /* the limit on processes may be raised later */
    bool has_image;
    bool has_workspace;
    bool counted; /* there is a control group */
    bool warm;    /* children of a warm process may enter */
    uint64_t disk, pids, files, memory;
    double cpus;
    const char *disk_path; /* the store's folder on disk; NULL: the store is memory */
    int disk_mount;        /* a detached mount of it, or -1 to clone the path instead */
    bool disk_is_watched;  /* and no quota limits it: reserving space must be refused */
    size_t n_layers;
    struct selection selection;
    size_t n_shares;
    struct {
        char *at;
        bool writable, is_file;
    } shares[BOX_SHARES_MAX];
    size_t n_links;
    struct {
        char at[BOX_LINK_SIZE], to[BOX_LINK_SIZE];
    } links[BOX_LINKS_MAX];
    char own_path[OWN_PATH_SIZE]; /* where the workspace is shown, too; empty: nowhere */
    char git_config[BOX_GIT_SIZE];
    bool has_git_mask;
    char git_mask[BOX_GIT_MASK_SIZE];
};

/* Where a fresh box takes its parts from. Descriptors are detached id-mapped mounts, -1 to clone
 * the path instead. */
struct layout_sources {
    const char *guest;
    const char *skeleton;
    const char *workspace; /* NULL: none */
    const char *image;
    const char *share_paths[BOX_SHARES_MAX];
    int guest_fd, skeleton_fd, workspace_fd, image_fd, etc_fd;
    const struct etc_view *etc; /* of the host's /etc; NULL with an image */
    int share_fds[BOX_SHARES_MAX];
};

void layout_fresh(struct plan *p, const struct layout *l, const struct layout_sources *from);

/* A fork, of layout l, of snapshot number `snap` of the source (SLOT_SOURCE); number 0 is the
 * source before it was used. */
void layout_fork(struct plan *p, const struct layout *l, unsigned snap);

/* A diff worker over a box; with snap > 0 it may write that new snapshot. */
void layout_diff_worker(struct plan *p, const struct layout *l, unsigned snap);

/* The files by which programs in the box read its limits, in the store. */
struct limit_file {
    const char *path;
    char text[64];
};
#define LIMIT_FILES 3
void layout_limit_files(const struct layout *l, struct limit_file ret[LIMIT_FILES]);

/* The Landlock rules of a box, which its plan has too, for a process that enters it later. */
void layout_landlock_rules(struct plan *p, const struct layout *l);
unsigned layout_landlock_flags(const struct layout *l);

/* Whether a pid namespace has a limit of its own on process numbers. Before Linux 6.14 it is one
 * for all of them, and root's id may write it: the host's must not change. */
bool layout_has_own_pid_max(void);

/* Whether /etc is an overlay with the host's as its lowest layer (selection.c). */
static inline bool layout_has_etc_layers(const struct layout *l)
{
    return !l->has_image && !l->selection.etc_in_parts;
}

/* Shows the workspace at its path on the host as well, unless a box has something else there. Call
 * it when the shares and links are known. */
void layout_set_own_path(struct layout *l, const char *workspace);

/* Looks at the host, for a fresh box. */
void selection_scan(struct selection *s);

/* What of the root filesystem is each box's own and not in the skeleton: made right in the upper
 * folder of its overlay. */
void selection_own(struct plan *p, const struct layout *l);

/* The files of /etc that are made for a family of boxes. */
void selection_own_etc(struct plan *p, const struct layout *l);

/* /usr and a few folders more, read-only, onto the new root; and /etc entry by entry where it
 * cannot be a layer of an overlay. A fork (`from` is NULL) takes them from its source's root. */
void selection_show(struct plan *p, const struct selection *s, const struct layout_sources *from);

/* Hides what of /proc tells about the host; makes read-only what of it sets something for the
 * host. */
void selection_protect_proc(struct plan *p, const struct selection *s);
