/*
 * Applying a diff: plan_make() computes the new content of every file in memory, commit_run()
 * writes them, all or nothing.
 *
 * The whole diff is tried strictly, then loosely (hunk_place.h); and once more without the carriage
 * returns of its lines if its headers have some, as a diff has that went through a Windows program.
 * The first attempt that applies to every file counts. If none does, everything that is in the way
 * is reported.
 */
#pragma once

#include "diff.h"
#include "hunk_place.h"
#include "worktree.h"

#define PLAN_REPORTS_MAX 100u

/* Both are set, the same unless the file is renamed or copied. */
struct plan_paths {
    char *old, *new;
};

struct plan_options {
    int strip;        /* components to strip from names; -1: find out for each file */
    const char *root; /* absolute paths must begin with it: "/workspace" */
    unsigned fuzz;
    bool reverse;
    bool ignore_space;
};

/* Which files of the tree a part of the diff means. -EINVAL, -EPERM with what is wrong with the
 * path, phrased to follow it. */
int plan_paths_find(const struct diff_file *f, const struct plan_options *o, struct worktree *w,
                    struct plan_paths *ret, struct error *err);
void plan_paths_free(struct plan_paths *p);

enum plan_kind {
    PLAN_ADDED = 1,
    PLAN_MODIFIED,
    PLAN_DELETED,
    PLAN_RENAMED,
    PLAN_COPIED,
    PLAN_MODE
};

struct plan_outcome {
    const char *path, *from; /* of entries; from is NULL unless renamed or copied */
    enum plan_kind kind;
    size_t hunks;
    int64_t offset;
    unsigned fuzz;
    uint64_t added, removed;
};

/* Something that does not apply. */
struct plan_reject {
    const char *path;
    size_t hunk;         /* from 1; 0: it is about the file as a whole */
    struct slice header; /* of the hunk */
    const char *reason;
    struct hunk_nearest near;
    const struct text_lines *file; /* the lines of the file, and those that the hunk looks for */
    const struct text_line *want;
};

struct plan {
    struct worktree tree;
    struct diff diff;
    struct plan_outcome *outcomes;
    size_t count;
    size_t rejects;
};

/*
 * 0 if it applies: then plan->tree says what to write. -ENOENT if it does not: `reject` was called
 * for everything that is in the way, but at most PLAN_REPORTS_MAX times; *ret_rejects counts all.
 * Other failures are about the diff as a whole.
 */
int plan_make(const void *text, size_t size, const struct plan_options *o,
              struct file_source source, void (*reject)(void *data, const struct plan_reject *r),
              void *data, struct plan *ret, size_t *ret_rejects, struct error *err);
void plan_free(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_free)

/* Writes what was planned. -ESTALE: another process changed a file meanwhile. */
int commit_run(int root, struct worktree *w, struct error *err);
