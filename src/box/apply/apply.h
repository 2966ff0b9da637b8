/*
 * Writing a box's changes back to the person's folder (apply), and the folder's present state into
 * the box (sync).
 *
 * Beneath the folder only, never through a link, each file whole or not at all. A file is replaced
 * or removed only if it is the one that the box saw (seen.h); that is checked again when it has
 * left its place, and what turns out to be another one goes back. Where the person and the box both
 * changed a text, their changes are merged; what cannot be merged is a conflict, reported and left
 * alone unless apply_options say otherwise. docs/snapshots.md states the rules.
 *
 *     apply.c          decides about each path, and in which order
 *     apply_file.c     replaces, removes and creates on one path
 *     apply_journal.c  one apply at a time, and what a killed one left
 *     merge.c          compares and merges the folder's and the box's version of one path
 *     sync.c           the other direction
 *     box_apply.c      the calls of box.h, and what is then written in the box
 */
#pragma once

#include <stdint.h>

#include "box.h"
#include "changes.h"
#include "seen.h"

/* What the host wants written in a box. The guest writes it, since the host never opens a file that
 * a box can write. */
enum box_edit_kind {
    BOX_EDIT_GONE,
    BOX_EDIT_BYTES,
    BOX_EDIT_FOLDER, /* what the folder has there: a file or a link */
};

struct box_edit {
    enum box_edit_kind kind;
    char *path;
    mode_t mode;            /* permissions, of BYTES */
    struct seen_base *data; /* of BYTES */
    struct identity id;     /* the folder's version that the box has afterwards */
};

struct box_edits {
    struct box_edit *items;
    size_t count;
};

/* Takes `data` over, also on failure. 0 or -ENOMEM. */
int box_edits_add(struct box_edits *l, enum box_edit_kind kind, const char *path, mode_t mode,
                  struct seen_base *data, const struct identity *id);
void box_edits_free(struct box_edits *l);

struct apply {
    int folder;
    struct seen *seen;       /* owned by the box alone */
    struct applied_log *log; /* what is replaced is kept there, for undo; or NULL */
    const struct apply_options *options;
    const struct apply_report *report;       /* or NULL */
    int (*connect)(void *data, int *ret_fd); /* to a diff worker: 0 or a negative errno */
    void *data;
    uint64_t bytes_max;     /* of content that may be written */
    bool locks;             /* lock the folder, and keep a journal */
    struct box_edits edits; /* filled: what has to be written in the box afterwards */

    /* Set by apply_changes(): */
    int lock, journal; /* -1: none */
    bool as_root;      /* new files are given to the owner of the folder or of what they replace */
    struct identity owner;     /* the folder itself */
    uint64_t written;          /* bytes of content so far */
    struct git_dirs *git_dirs; /* NULL: they are allowed */
    const char *why;           /* of the last outcome; NULL: there is nothing to say */
};

/* Both return the number of conflicts and refusals, or a negative errno; then what was done so far
 * stays. */
int apply_changes(struct apply *ap, struct error *err);
int sync_folder(struct apply *ap, struct error *err);

/* The box's changes in order of their paths. */
struct apply_item {
    struct changes_entry e; /* owns its strings */
    bool later;             /* something has to be removed first */
    bool silent;            /* the report of another item covers this one */
};

struct apply_list {
    struct apply_item *at;
    size_t count, room, bytes;
};

/* `folders`: also those that the paths in them imply. */
int apply_list_read(struct apply *ap, bool folders, struct apply_list *ret, struct error *err);
void apply_list_free(struct apply_list *list);

/* Whether the options name the path, something above it or something below it; or nothing at
 * all. */
bool apply_is_selected(const struct apply_options *o, const char *path);

/* A path of the folder as it is now, and what the box saw there. */
struct apply_path {
    const char *path;
    int dir; /* the folder that holds it */
    bool there;
    struct identity now;
    const struct seen_entry *seen; /* or NULL */
    enum seen_state state;
    bool parent_seen;     /* the folder that holds it is the one that the box saw */
    bool parent_replaced; /* it certainly is another one */
};

/* Opens the folder that holds a path; with `create`, makes it. -ENOENT, -ENOTDIR, -ELOOP as they
 * are, without a text; `seen` and `state` are set also then. */
int apply_path_open(struct apply *ap, const char *path, bool create, struct apply_path *ret,
                    struct error *err);
void apply_path_close(struct apply_path *p);

/* The folder's entry is exactly the one that the box saw. */
bool apply_path_is_seen(const struct apply_path *p);

/* What to put at a path. */
struct apply_content {
    const struct changes_entry *entry; /* its link target; its content comes from the box, or */
    const struct seen_base *bytes;     /* is this, or */
    const char *link_to; /* is that of another path that was just written, as a hard link */
    mode_t mode;
};

/* Steps on one path. They return APPLY_DONE, APPLY_CONFLICT with ap->why, or a negative errno. */

/* Puts the content at a path, open as `dir`, in place of `expect` (NULL: there must be nothing). */
int apply_put(struct apply *ap, int dir, const char *path, const struct apply_content *c,
              const struct identity *expect, struct identity *ret, struct error *err);

/* Removes the file or link `expect`, or the folder if it is empty. */
int apply_remove(struct apply *ap, int dir, const char *path, const struct identity *expect,
                 struct error *err);

/* Makes a folder that its owner can fill; its mode is set when everything is in it. */
int apply_make_dir(struct apply *ap, int dir, const char *path, struct error *err);
int apply_set_dir_mode(struct apply *ap, const char *path, mode_t mode,
                       const struct identity *expect, struct error *err);

/* The folder that holds a path; with `create`, missing ones are made. */
int apply_open_parent(struct apply *ap, const char *path, bool create, int *ret_fd);

/* Hands the box's content of a file to the sink. */
int apply_fetch(struct apply *ap, const struct changes_entry *e, const struct fetch_sink *sink,
                struct error *err);

enum apply_step {
    APPLY_STEP_CREATE = 'C',   /* the file at `temp` is ours */
    APPLY_STEP_EXCHANGE = 'X', /* `temp` (ours) and `name` (theirs) are exchanged */
    APPLY_STEP_ASIDE = 'A',    /* `name` (theirs) is moved to `temp` and then removed */
};

/* Waits until no other apply works on the folder, then repairs what one that was killed left. */
int apply_journal_open(struct apply *ap, struct error *err);
void apply_journal_close(struct apply *ap);

/* Records a step before it is taken. `path` is the target's, `temp` the name in the same folder. */
void apply_journal_set(struct apply *ap, enum apply_step step, const char *path, const char *temp,
                       const struct identity *ours, const struct identity *theirs);
void apply_journal_clear(struct apply *ap);

/* Is what the folder has at that path already what the box has? 1, 0, or a negative errno. */
int apply_is_same(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                  struct error *err);

enum apply_merge_result {
    APPLY_MERGE_CLEAN,
    APPLY_MERGE_ONLY_BOX,    /* the folder's version has the base's content: take the box's */
    APPLY_MERGE_ONLY_FOLDER, /* the box's version is the base: take the folder's */
    APPLY_MERGE_CONFLICT,    /* with bytes, if both are texts: these hold conflict markers */
    APPLY_MERGE_MODE,        /* both changed the permissions, differently */
};

struct apply_merged {
    struct seen_base *bytes;  /* the merged text, or NULL */
    struct seen_base *mine;   /* the folder's version, or NULL */
    struct seen_base *theirs; /* the box's version, or NULL */
    mode_t mode;              /* permissions */
};

/* Merges what the folder has at a path with what the box has there. An apply_merge_result, or a
 * negative errno. */
int apply_merge(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                struct apply_merged *ret, struct error *err);
void apply_merged_free(struct apply_merged *m);

/* The box's content of a file, at most `max` bytes; -EFBIG beyond. */
int apply_fetch_base(struct apply *ap, const struct changes_entry *e, size_t max,
                     struct seen_base **ret, struct error *err);
