/*
 * The diff worker: reads what a box changed, from outside of it.
 *
 * It is this same program in namespaces of its own, where no code of the agent ever runs, with the
 * box's layers shown beneath /w (the workspace) and /r (the root filesystem). The box's processes
 * are stopped or dead while it works. Everything it reads is hostile nevertheless: it never follows
 * a link, opens regular files and folders only, and keeps a number of descriptors that does not
 * depend on what it meets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "error.h"
#include "text.h"
#include "wire.h"

/* Answers connections that arrive on the control socket, one after the other, until its end: 0 or a
 * negative errno. */
int diff_worker_main(int control);

/*
 * An answer on one connection: records, a stream of bytes cut into DATA frames, one RESULT or
 * ERROR. The first failure to send sticks to `status`, and everything after it is dropped, so that
 * a run of calls can be checked once.
 */
struct answer {
    int fd;
    int status;       /* 0 or a negative errno */
    struct buf data;  /* bytes not sent yet */
    struct buf frame; /* whole frames, and the one that is built */
    size_t begin;     /* of the one that is built */
    bool final;       /* it is a RESULT or ERROR */
};

/* Adds to the stream of bytes; sends whole frames as they fill up. Returns the status. */
int answer_write(struct answer *a, const void *bytes, size_t n);
int answer_printf(struct answer *a, const char *fmt, ...) PRINTF(2, 3);

/* One frame, after the bytes so far: begin, put fields into a->frame, end. Records are sent many at
 * a time, a RESULT or ERROR at once. */
void answer_begin(struct answer *a, enum wire_type type);
int answer_end(struct answer *a);

/*
 * One overlay as the diff worker is shown it:
 *
 *     base     the lowest layer, as it is now; other programs of the host may write it
 *     merged   the overlay as the box sees it
 *     l0 l1 …  the layers between them: l0 is the box's own, the others are older
 *     copy     an empty folder to write a new layer to
 *
 * In a layer a whiteout (a character device 0:0, or a regular file marked by an extended attribute)
 * says that the name is gone, and a folder marked opaque hides everything of that path in older
 * layers.
 */
#define OVERLAY_LAYERS_MAX 64

struct overlay {
    const char *name;
    int merged, base, copy; /* folders, or -1 */
    int layers[OVERLAY_LAYERS_MAX];
    size_t n_layers;
};

/* Opens what there is of the overlay `name` ("w" or "r") beneath root; all its parts may be
 * missing. */
int overlay_open(int root, const char *name, struct overlay *ret, struct error *err);
void overlay_close(struct overlay *t);
#define OVERLAY_INIT      ((struct overlay){.merged = -1, .base = -1, .copy = -1})
#define _cleanup_overlay_ _cleanup_(overlay_close)

/* Does a folder of a layer hide what older layers have there? */
bool overlay_is_opaque(int dir);

/*
 * A walk over everything that may differ between an overlay's base and its merged view.
 *
 * Candidates are the names in any layer, and below a folder that hides what the base has (it is
 * opaque, or took the place of something else, or is gone) the base's names as well. What a
 * candidate really is, is always asked of the merged view and of the base, so that a name too many
 * costs time, never truth.
 *
 * All sides are walked together. Each has one cursor: a descriptor of the deepest folder on the
 * present path that exists on that side. Going down opens a child in its place, going up opens
 * "..", so that the number of descriptors is the number of sides however deep the tree, and the
 * path may be longer than the kernel takes.
 */
enum walk_side { WALK_MERGED, WALK_BASE, WALK_COPY, WALK_LAYERS };

/* A folder that was entered. */
struct walk_level {
    struct buf names; /* candidates, each with its NUL */
    size_t *at;       /* where each starts */
    size_t count, room, next;
    size_t path_len;
    size_t found_merged, found_base; /* of the candidates seen so far */
    bool hidden;                     /* it, or a folder above it, hides what the base has */
    bool replaced;                   /* this folder itself does */
    dev_t base_dev;
    ino_t base_ino;
};

struct walk {
    /* On a side without the present folder, the cursor waits in the deepest one above it. */
    struct walk_cursor {
        int fd;
        size_t depth;
    } sides[WALK_LAYERS + OVERLAY_LAYERS_MAX];
    size_t n_sides;
    struct walk_level *levels;
    size_t depth; /* of the present folder: levels[depth] */
    size_t room;
    struct buf path; /* of the present folder from the overlay's root, terminated; "" is the root */
    struct error *err;
};

struct walk_entry {
    const char *path; /* from the overlay's root; name is its last component */
    size_t path_len;
    const char *name;
    bool in_merged, in_base;
    struct stat merged, base; /* where it is */
};

struct walk_ops {
    /* One candidate, after all folders above it were entered. 1 to enter it (it is a folder on some
     * side), 0, or an error. */
    int (*visit)(struct walk *w, const struct walk_entry *e, void *data);
    /* A folder that was entered, the root too, after all that is in it; the cursors are still in
     * it. */
    int (*leave)(struct walk *w, void *data);
};

/* Walks an overlay. A side that is -1 is empty. */
int walk_run(const struct overlay *o, const struct walk_ops *ops, void *data, struct error *err);

/* The present folder on one side; -1 if it does not exist there. */
int walk_dir(const struct walk *w, enum walk_side side);

static inline const struct walk_level *walk_level(const struct walk *w)
{
    return &w->levels[w->depth];
}

/*
 * The changes of a tree, in order of the paths' bytes. More than these are left out, and the answer
 * says so: the list must fit into the memory of the host.
 */
#define CHANGES_MAX       1000000u
#define CHANGES_BYTES_MAX (256u << 20)

/* Folders are listed where they are empty or their permissions changed; others that were added or
 * deleted only when asked for, as implied by what is in them. */
struct change {
    enum wire_change kind;
    mode_t mode; /* in the merged view, or of what is gone, in the base; as size and target */
    uint64_t size;
    bool implied;
    uint64_t link; /* of a file with several names: the same for all of them; else 0 */
    char *target;  /* of a link */
    char path[];
};

struct changes {
    struct change **items;
    size_t count, room;
    size_t bytes;
    size_t left_out;
    bool folders; /* list implied folders, too */
};

int changes_collect(const struct overlay *t, bool folders, struct changes *ret, struct error *err);
void changes_free(struct changes *c);
#define _cleanup_changes_ _cleanup_(changes_free)

/* The requests that have files of their own. */
int changes_answer(const struct overlay *t, bool folders, struct answer *a, struct error *err);
int diff_answer(const struct overlay *t, bool stat, struct answer *a, struct error *err);
int copy_snapshot(int root, struct overlay *workspace, const struct wire_frame *request,
                  struct error *err);
