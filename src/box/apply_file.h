/* Inside of apply: the steps on one path of the folder. */
#pragma once

#include <stdbool.h>

#include "apply.h"
#include "apply_journal.h"
#include "changes.h"

/* One apply on its way. */
struct apply {
    const struct apply_job *job;
    struct apply_journal journal;
    bool as_root; /* then what is written is given to the owner of the folder, or of the file it
                     replaces */
    struct identity owner;
    uint64_t written;          /* bytes of content so far */
    struct git_dirs *git_dirs; /* NULL: they are allowed */
};

/* What to put at a path. */
struct apply_content {
    const struct changes_entry
        *entry; /* its mode and link target; its content comes from the box, or */
    const struct seen_base *bytes; /* is this, or */
    const char *link_to; /* is that of another path that was just written, as a hard link */
    mode_t mode;
};

/* Steps answer 0 when done, 1 for a conflict with *ret_why, or a negative errno with err set. */

/* Puts the content at a path, open as `dir`, in place of `expect` (NULL: there must be nothing). */
int apply_put(struct apply *ap, int dir, const char *path, const struct apply_content *c,
              const struct identity *expect, struct identity *ret, const char **ret_why,
              struct error *err);

/* Removes the file or link `expect`, or the folder if it is empty. */
int apply_remove(struct apply *ap, int dir, const char *path, const struct identity *expect,
                 const char **ret_why, struct error *err);

/* Makes a folder that its owner can fill; its mode is set when everything is in it. */
int apply_make_dir(struct apply *ap, int dir, const char *path, const char **ret_why,
                   struct error *err);
int apply_set_dir_mode(struct apply *ap, const char *path, mode_t mode,
                       const struct identity *expect, struct error *err);

/* The folder that holds a path; with `create`, missing ones are made. -ENOENT, -ENOTDIR, -ELOOP as
 * they are.
 */
int apply_open_parent(struct apply *ap, const char *path, bool create, int *ret_fd);

/* Is what is at that path already what the box has? 1, 0, or a negative errno with err set. */
int apply_is_same(struct apply *ap, int dir, const struct changes_entry *e,
                  const struct identity *now, struct error *err);

/* The box's content of a file, at most `max` bytes; -EFBIG beyond. */
int apply_fetch(struct apply *ap, const struct changes_entry *e, size_t max, struct seen_base **ret,
                struct error *err);
