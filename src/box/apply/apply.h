/*
 * Writing a box's changes back to the user's folder (apply), the folder's present state into the
 * box (sync), and undoing an apply in a restored box.
 *
 * Apply works beneath the folder only, never through a link, and writes each file whole or not at
 * all. It replaces or removes a file only if it is the version that the box saw; it checks that
 * again after moving the file out of its place, and puts back one that turns out to be another.
 * Where the user and the box both changed a text, it merges their changes; what it cannot merge is
 * a conflict, reported and left alone unless apply_options say otherwise. docs/snapshots.md states
 * the rules.
 *
 *     apply.c        decides about each path, compares and merges its two versions
 *     apply_file.c   replaces, removes and creates on one path; the lock and the journal
 *     box_apply.c    the calls of box.h, sync, and writing the results in the box
 *     changes.c      what a diff worker answers about a box's changes
 *     seen.c         what the folder had at each path when the box touched it
 *     applied_log.c  what applies replaced, and restoring it
 *     git_dirs.c     folders that git would take for a repository
 */
#pragma once

#include <stdint.h>

#include "box.h"

/*
 * Changes, as a diff worker lists them. No code of the agent runs where a diff worker does, but
 * what it reads is hostile, so the host does not trust it: every frame is checked, every list is
 * bounded, and an answer with an invalid path (relpath_is_valid) is refused. All functions take a
 * fresh connection to a diff worker and leave closing it to the caller.
 */

#define CHANGES_MAX       1000000u
#define CHANGES_BYTES_MAX (512u << 20) /* of memory for one list */

/* One record, valid during the call that hands it out. */
struct changes_entry {
    enum wire_change kind;
    mode_t mode;
    uint64_t size;
    const char *path;
    const char *target; /* of a link, or NULL */
    bool implied;       /* a folder whose entries imply it */
    uint64_t link;      /* the same number for all names of one file; 0: it has one only */
};

/* Hands out the changes in order of their paths; with `folders` also folders that others imply. 0,
 * 1 if the box made more changes than are listed, or an error. */
int changes_each(int conn, bool folders, int (*each)(void *data, const struct changes_entry *e),
                 void *data, struct error *err);

/* The same as a list; of more than CHANGES_MAX changes it holds the first. */
int changes_read(int conn, struct box_changes *ret, struct error *err);

/* Appends a change to a list, with a copy of its path. 0 or -ENOMEM. */
int box_changes_add(struct box_changes *c, const struct box_change *change);

/* Writes the diff to a descriptor. */
int changes_diff(int conn, bool stat, int out, struct error *err);

/* Gets the bytes of a file in order; what lies between them is a hole. A negative answer ends the
 * transfer. */
struct fetch_sink {
    int (*put)(void *data, uint64_t offset, const void *bytes, size_t n);
    void *data;
};

/* The content of one changed file, which must come out at `size` bytes, as the list of changes
 * said. -ECANCELED when the sink ended it (the sink knows why, err is not set). */
int changes_fetch(int conn, const char *path, uint64_t size, const struct fetch_sink *sink,
                  struct error *err);

/* Sends one request, with a flag (WIRE_K_STAT, WIRE_K_ALL) or 0. */
int changes_request(int conn, enum wire_type type, const char *path, uint16_t flag,
                    struct error *err);

/* The next answer, valid until the one after it; an ERROR becomes err. */
int changes_answer(struct wire_reader *r, struct wire_frame *ret, struct error *err);

/*
 * What tells one state of a file from another. Every change of a file's content, mode or name moves
 * its change time (ctime), which no program can set. For a folder only the inode counts, since
 * every new name in it moves the time; the birth time tells a new folder from an old one that had
 * the same inode number.
 */
struct identity {
    uint64_t dev, ino;
    mode_t mode;
    uint32_t links;
    uint64_t size;
    uint32_t uid, gid;
    int64_t ctime_ns, mtime_ns;
    int64_t btime_ns; /* 0 where the filesystem has none */
};

/* Of a name in a folder, never following a link; "" is the descriptor itself. 0 or -errno. */
int identity_get(int dir, const char *name, struct identity *ret);

bool identity_same(const struct identity *a, const struct identity *b);
bool identity_same_inode(const struct identity *a, const struct identity *b);

/* The same inode with the same content, after a rename of ours has moved its ctime. */
bool identity_same_content(const struct identity *a, const struct identity *b);

/*
 * What the user's folder had at each path when the box touched it.
 *
 * A box works on the live folder, so the files that it saw exist nowhere else. Without a record of
 * them apply could not tell whether the user changed a file, or put another one in its place, and
 * would have no base to merge with. The table belongs to a box; snapshots and forks share it until
 * one of them changes it.
 */

/* Content, shared by the tables that have it. */
struct seen_base {
    unsigned refs; /* atomic */
    size_t size;
    unsigned char data[];
};

struct seen_base *seen_base_new(const void *data, size_t n); /* without data: zeros */
struct seen_base *seen_base_ref(struct seen_base *b);
void seen_base_unref(struct seen_base *b);
bool seen_base_same(const struct seen_base *a, const struct seen_base *b);

/* Reads a regular file that is `id` before and after. -ESTALE if it is another by then, -EFBIG
 * beyond `max` bytes. */
int seen_base_read(int dir, const char *name, const struct identity *id, size_t max,
                   struct seen_base **ret);

#define SEEN_CONTENT_MAX (1u << 20)  /* bytes of one file that are kept as a base */
#define SEEN_BYTES_MAX   (64u << 20) /* of all of them */
#define SEEN_PATHS_MAX   1000000u

enum seen_state {
    SEEN_UNKNOWN, /* the user may have changed it while the box worked on it */
    SEEN_ABSENT,
    SEEN_KNOWN,
};

struct seen_entry {
    enum seen_state state;
    struct identity id;     /* the folder's version that the box has taken into account */
    struct seen_base *base; /* common ancestor of that and the box's version; NULL: not kept */
    bool base_differs;      /* the base is not that version's content: the folder was merged into */
    int64_t stable; /* a folder: the note that last found it where it was at the note before */
    bool hides;     /* a folder: the box's layers hide what the folder has in it */
    struct seen_entry *next;
    char path[];
};

struct seen;

struct seen *seen_new(void);
struct seen *seen_ref(struct seen *s); /* takes NULL */
struct seen *seen_unref(struct seen *s);

/* Makes *s a table with no other owner; NULL becomes a new one. 0 or -ENOMEM. */
int seen_own(struct seen **s);

/* The record of a path, or NULL. seen_state_of() also answers for what lies below a path that was
 * absent: the nearest record above decides. */
struct seen_entry *seen_find(const struct seen *s, const char *path);
enum seen_state seen_state_of(const struct seen *s, const char *path);

/* The first of all records; the others follow by `next`. */
const struct seen_entry *seen_first(const struct seen *s);

/* Records a state in place of the one before. Takes `base` over, also on failure. 0, -ENOSPC beyond
 * SEEN_PATHS_MAX, -ENOMEM. The caller owns the table. */
int seen_set(struct seen *s, const char *path, enum seen_state state, const struct identity *id,
             struct seen_base *base, bool base_differs);

/* Whether `n` more bytes of one file may be kept. */
bool seen_has_room(const struct seen *s, size_t n);

/* What a file of the folder has now, to be the base of later merges; NULL: no regular file, too
 * large, or another by now. */
struct seen_base *seen_read_base(const struct seen *s, int dir, const char *name,
                                 const struct identity *id);

/* We gave a file another name, or took one away: its ctime moved for all its names. */
void seen_moved(struct seen *s, const struct identity *before, const struct identity *after);

/*
 * Reads the list of touched paths over a fresh connection to a diff worker, and records what the
 * folder has at those that are new. That is what the box saw only if it has not changed since
 * `fresh_ns`, from when on the box looks names up anew, and if all folders above it are the ones
 * they were, because moving a folder does not change the files in it.
 */
int seen_note_touched(struct seen *s, int folder, int64_t fresh_ns, int conn, struct error *err);

/*
 * What applies of a box changed in the folder: for each path the state that it had before.
 *
 * Entries are numbered from 1 in the order in which they were made. A position is the number of the
 * last one at some time; a snapshot remembers its position, and what came after it is what an undo
 * has to take back. Contents are kept in an unlinked temporary file, which a log shares with the
 * logs copied from it.
 */
#define APPLIED_BYTES_MAX (256ull << 20) /* of contents, for a box and all forked from it */

struct applied_log;

/* The state of a path before it was changed. */
enum applied_kind { APPLIED_ABSENT, APPLIED_FILE, APPLIED_LINK, APPLIED_DIR };

struct applied_entry {
    const char *path; /* relative to the workspace */
    enum applied_kind kind;
    mode_t mode;        /* permissions, of a file or folder */
    uint64_t size;      /* of a file */
    const char *target; /* of a link */
    bool kept;          /* a file: its content is there for applied_log_read() */
    uint64_t number;
};

struct applied_log *applied_log_new(void);
struct applied_log *applied_log_copy(const struct applied_log *l); /* NULL without memory */
struct applied_log *applied_log_free(struct applied_log *l);

/* Adds an entry; ignores `e->number` and `e->kept`. Reads the content of a file from `content`,
 * from its start, or leaves it out when it is larger than what is left of APPLIED_BYTES_MAX. */
int applied_log_add(struct applied_log *l, const struct applied_entry *e, int content);

/* Takes back the last entry: what it announced did not happen. Takes NULL. */
void applied_log_drop_last(struct applied_log *l);

uint64_t applied_log_position(const struct applied_log *l); /* takes NULL: 0 */

/* Calls `each` once per path that has an entry after `position`, with the earliest of them, in
 * order of their paths, until it returns non-zero; returns that or 0, or -ENOMEM. */
int applied_log_each(const struct applied_log *l, uint64_t position,
                     int (*each)(void *data, const struct applied_entry *e), void *data);

/* Reads the content of an entry that each() was called with. Bytes read, 0 at the end, or a
 * negative errno. */
ssize_t applied_log_read(const struct applied_log *l, const struct applied_entry *e, void *space,
                         size_t n, uint64_t offset);

/*
 * Folders that git would take for a repository because of what is in them, whatever they are
 * called: HEAD, objects and refs (a bare repository), or HEAD and commondir. `git status` in or
 * below such a folder obeys its config, which can name programs. So apply refuses changes that
 * would make one, or change one that is there, unless the user allows it.
 *
 * Add all paths that the box added or modified, settle once, then check each path. `has` tells
 * whether the user's folder has something at a path.
 */
struct git_dirs;

struct git_dirs *git_dirs_new(void);
struct git_dirs *git_dirs_free(struct git_dirs *g);
int git_dirs_add(struct git_dirs *g, const char *path); /* 0 or -ENOMEM */
void git_dirs_settle(struct git_dirs *g, bool (*has)(void *data, const char *path), void *data);
bool git_dirs_refuse(const struct git_dirs *g, const char *path);

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
    struct applied_log *log; /* keeps what is replaced, for undo; or NULL */
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
    const struct apply_options *options;
    struct apply_item *at;
    size_t count, bytes;
};

/* The changes that the options select. `folders`: also those that the paths in them imply. */
int apply_list_read(struct apply *ap, bool folders, struct apply_list *ret, struct error *err);
void apply_list_free(struct apply_list *list);

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

/* Hands the box's content of a file to the sink. */
int apply_fetch(struct apply *ap, const struct changes_entry *e, const struct fetch_sink *sink,
                struct error *err);

/* The box's content of a file, at most `max` bytes; -EFBIG beyond. */
int apply_fetch_base(struct apply *ap, const struct changes_entry *e, size_t max,
                     struct seen_base **ret, struct error *err);

enum apply_merge_result {
    APPLY_MERGE_CLEAN,
    APPLY_MERGE_ONLY_BOX,    /* the folder's version has the base's content: take the box's */
    APPLY_MERGE_ONLY_FOLDER, /* the box's version is the base: take the folder's */
    APPLY_MERGE_SAME,        /* both are equal */
    APPLY_MERGE_CONFLICT,    /* with bytes, if both are texts: these hold conflict markers */
    APPLY_MERGE_MODE,        /* both changed the permissions, differently */
};

struct apply_merged {
    struct seen_base *bytes;  /* the merged text, or NULL */
    struct seen_base *theirs; /* the box's version, or NULL */
    mode_t mode;              /* permissions */
};

/* Compares what the folder has at a path with what the box has there, and merges them. An
 * apply_merge_result, or a negative errno. */
int apply_merge(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                struct apply_merged *ret, struct error *err);
void apply_merged_free(struct apply_merged *m);

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

/* Waits until no other apply works on the folder, then repairs what one that was killed left. */
int apply_journal_open(struct apply *ap, struct error *err);
void apply_journal_close(struct apply *ap);
