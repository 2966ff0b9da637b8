/*
 * The box that an agent works in: a kept one (box/keeper.h), so that a crash of hutch loses neither
 * files nor running processes; its changes are saved beside the history at the end of each turn
 * (ID.patch), so that a reboot loses only what lay outside of the workspace.
 */
#pragma once

#include <jansson.h>

#include "box.h"
#include "event.h"
#include "git_box.h"
#include "keeper.h"

struct workbox {
    struct box *box; /* NULL until workbox_ready() */
    enum box_mode mode;
    int hearing;    /* from the keeper, until the box is up; -1: it is */
    bool pristine;  /* nothing ran in it since it began, or since it was put back to that */
    bool plain;     /* it began as the folder is, without changes */
    bool delivered; /* its commits were, and nothing ran in it since */
    struct git_box git;
};

/* The keeper removes a box that was idle for so long. */
#define WORKBOX_IDLE_NS (24 * 3600 * 1000000000LL)

/* Begins a fresh box and does not wait until it is up (the options must outlive workbox_ready); or
 * takes the one of that name, if it is still there (-ENOENT if not). */
int workbox_new(const struct box_options *o, struct workbox **ret, struct error *err);
int workbox_find(const char *id, struct workbox **ret, struct error *err);

/* Waits until it is up. Must be called once before anything below. */
int workbox_ready(struct workbox *w, struct error *err);

/* Lets go of it; `remove`: the box ends. */
struct workbox *workbox_free(struct workbox *w, bool remove);

const char *workbox_id(const struct workbox *w);

/* Before something runs that may change the box. In a box in which nothing ran yet it costs
 * nothing. */
int workbox_snapshot(struct workbox *w, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err);

/* What going back to a snapshot did with paths that were applied to the folder since. */
struct workbox_reverted {
    char **paths; /* the box shows their earlier state, the folder the applied one */
    size_t count;
    size_t failed;       /* paths whose earlier state could not be restored: */
    struct buf failures; /* `PATH: why; …` of the first of them */
};
#define WORKBOX_REVERTED_INIT ((struct workbox_reverted){.failures = BUF_INIT(4096)})
void workbox_reverted_free(struct workbox_reverted *r);
#define _cleanup_reverted_ _cleanup_(workbox_reverted_free)

/* -ENOENT: the box has no such snapshot. `reverted` is initialised. */
int workbox_restore(struct workbox *w, const char *name, struct workbox_reverted *reverted,
                    struct error *err);

/* A box of its own with the same files, as they are now or were at a snapshot (NULL: now). */
int workbox_fork(struct workbox *w, const char *snapshot, struct workbox **ret, struct error *err);

int workbox_sync(struct workbox *w, const struct apply_options *o,
                 const struct apply_report *report, struct error *err);

int workbox_changes(struct workbox *w, struct agent_changes *ret, struct error *err);

/* What the box changed, as an object: a path of a change to a number that stands for its content;
 * and how many paths differ between two of these. */
int workbox_fingerprints(struct workbox *w, json_t **ret, struct error *err);
size_t fingerprints_differ(const json_t *a, const json_t *b);

/* The changes as a file of the host (a git diff, replaced in one step and synced; none if there are
 * no changes), and back into a fresh box. -EFBIG: they are more than WORKBOX_PATCH_MAX, and the
 * file is as it was. Loading gives the number of files that could not be restored, with the text
 * saying which. */
#define WORKBOX_PATCH_MAX (256u << 20)
int workbox_save(struct workbox *w, int folder, const char *name, struct error *err);
int workbox_load(struct workbox *w, int folder, const char *name, struct error *err);
