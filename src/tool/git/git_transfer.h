/*
 * From a box's repository into a quarantine: a bare repository of ours in a temporary folder of the
 * host, which borrows the objects of the person's repository and holds beside them only what the
 * box made.
 *
 * git in the box packs what the host does not have; the pack crosses as a stream into `git
 * index-pack --strict` on the host, which checks every object (fsck) and is bounded in size, memory
 * and time. Nothing else of the box's repository is read: no configuration, no hook, no attribute.
 * Names and numbers that the box says are checked before use. The person's repository is only read.
 *
 * In the quarantine the box's refs are refs/box/heads/…, refs/box/tags/…, refs/box/notes/…,
 * refs/box/HEAD and refs/box/stash/0… (newest first).
 */
#pragma once

#include "box.h"
#include "git.h"

#define GIT_TRANSFER_REFS_MAX 1000u /* refs that the host does not have as they are */
#define GIT_TRANSFER_STASHES  100u

struct git_transfer_options {
    uint64_t max_bytes; /* of the pack; 0: 1 GiB */
    int64_t timeout_ns; /* of each step; 0: two minutes */
    int cancel;         /* 0 or -1: none */
};

struct git_stash {
    char id[GIT_ID_SIZE];
    char *message; /* printable */
};

struct git_transfer {
    char *path;           /* of the quarantine */
    struct git_refs refs; /* of the box, by full name (refs/heads/main), with safe names only */
    char *head;           /* what HEAD of the box names, refs/heads/…; NULL: it is detached */
    char head_id[GIT_ID_SIZE]; /* its commit; empty: none yet */
    struct git_stash *stashes; /* newest first */
    size_t n_stashes;
    struct git_refs past; /* commits that the box's HEAD was at, by its reflog */
    struct git_refs host; /* refs of the person's repository before the transfer */
    char *pack;           /* file of the new objects; NULL: none came */
    size_t unsafe_names;  /* refs that were left out for their names */
};

/* `folder` is the work tree in the box ("/workspace"). -ENODATA if there is no repository there
 * (any more), or no git in the box; the text says which. */
int git_transfer(struct box *box, const char *folder, const struct git_repo *host,
                 const struct git_transfer_options *o, struct git_transfer *ret, struct error *err);

/* Removes the quarantine, too. */
void git_transfer_free(struct git_transfer *t);
#define _cleanup_git_transfer_ _cleanup_(git_transfer_free)

/*
 * Delivers the commits of the quarantine to the person's repository.
 *
 * A branch moves only forward, and only if nobody moved it meanwhile; the branch that is checked
 * out, HEAD and the index move together, and only if every file of the box was applied and nothing
 * that the person staged is in the way. All else goes to refs/hutch/ID/…, with a line that says how
 * to merge it. No file is checked out: the files of the work tree come from apply. docs/git.md
 * states the rules.
 */
struct git_deliver_options {
    const char *id;    /* the session, or else the box: refs/hutch/ID/… */
    bool all_applied;  /* every change of the box to the work tree was applied */
    const char *label; /* in front of each line if it is not NULL: which of several repositories */
    void (*say)(void *data, const char *line); /* what was delivered, a line each */
    void *data;
};

int git_deliver(const struct git_repo *host, const struct git_transfer *from,
                const struct git_deliver_options *o, struct error *err);
