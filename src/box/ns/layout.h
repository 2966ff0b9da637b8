/*
 * What a box looks like from inside, as plans: a fresh box, a fork, a scribe.
 *
 * The store is the box's one writable tmpfs. It is attached beneath /proc of the box's own mount tree, where
 * the procfs mounted over it hides it for good, and holds:
 *
 *     k         (mount) the skeleton: places, links and made-up files of the root filesystem
 *     r/u r/k   upper and work folder of the root's overlay
 *     w/u w/k   upper and work folder of the workspace's overlay
 *     base      (mount) the person's folder
 *     img       (mount) the image, if there is one
 *     l0 l1 …   (mounts) layers of the snapshots this box was forked from, newest first; each holds w/ and r/
 *     s/N       snapshots taken of this box, each with w/ and r/
 *     x0 x1 …   (mounts) folders shown read-only, each beneath an overlay of its own
 *     guest     (mount) the guest's program
 */
#pragma once

#include "box.h"
#include "plan.h"

#define LAYERS_MAX 8 /* more are flattened into one: an overlay gets slower with each */
#define PROXY_PORT 3128
#define AGENT_ID   1000

/* What the host has of the lists in selection.c, by their order there. */
struct selection {
    uint8_t top[8];
    uint8_t etc[40];
    uint8_t proc[16];
};

/* The mounts that a box shows beside the fixed ones: kept by a box, since its forks show them too. */
struct layout {
    enum box_mode mode;
    enum box_net net;
    bool has_image;
    bool has_workspace;
    bool counted; /* there is a control group */
    bool warm;    /* children of a warm process may enter */
    uint64_t disk, pids, files;
    size_t n_layers;
    struct selection selection;
    size_t n_shares;
    struct {
        char *at;
        bool writable;
    } shares[BOX_SHARES_MAX];
    size_t n_links;
    struct {
        char at[BOX_LINK_SIZE], to[BOX_LINK_SIZE];
    } links[BOX_LINKS_MAX];
};

/* Where a fresh box takes its parts from. Descriptors are detached id-mapped mounts, -1 to clone the path
 * instead. */
struct layout_sources {
    const char *guest;
    const char *skeleton;
    const char *workspace; /* NULL: none */
    const char *image;
    const char *share_paths[BOX_SHARES_MAX];
    int guest_fd, skeleton_fd, workspace_fd, image_fd;
    int share_fds[BOX_SHARES_MAX];
};

void layout_fresh(struct plan *p, const struct layout *l, const struct layout_sources *from);

/* A fork, of layout l, of snapshot number `snap` of the source (SLOT_SOURCE); number 0 is the source before
 * it was used. */
void layout_fork(struct plan *p, const struct layout *l, unsigned snap);

/* A scribe over a box; with snap > 0 it may write that new snapshot. */
void layout_scribe(struct plan *p, const struct layout *l, unsigned snap);

/* The Landlock rules of a box, which its plan has too, for whoever enters it later. */
void layout_landlock_rules(struct plan *p, const struct layout *l);
unsigned layout_landlock_flags(const struct layout *l);
