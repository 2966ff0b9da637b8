/*
 * PATCH: applies a diff to the files beneath the root, all or nothing.
 *
 * diff_parse.c parses it, patch.c plans the new content of every file in memory, worktree.c writes
 * them. The whole diff is tried as it is (hunk_place.c), then with blanks ignored if asked; and
 * once more without the carriage returns of its lines if its headers have some, as in a diff that
 * went through a Windows program. The first attempt that applies to every file counts. If none does,
 * everything that is in the way is reported. docs/protocol.md has the fields of the answer.
 */
#pragma once

#include <time.h>

#include "diff.h"
#include "file.h"
#include "text.h"

int patch_serve(struct file_call *c, struct error *err);

/*
 * The files that a diff is about: as they are on disk, and as the diff will have made them. Nothing
 * is written here.
 */
#define WORKTREE_FILE_MAX  (64u << 20)
#define WORKTREE_TOTAL_MAX (256u << 20) /* bytes read and made, together */
#define WORKTREE_NOTES_MAX (16u << 10)

/* What is at a path; mode 0 if there is nothing. */
struct file_state {
    mode_t mode;
    uint64_t size, ino, dev;
    struct timespec mtime, ctime;
};

struct worktree_file {
    char *path;
    struct file_state seen;
    bool loaded;
    uint8_t *data; /* the content that was read */
    size_t size;
    bool will_go; /* some part of the diff deletes it or renames it */
    bool moves;   /* it is renamed */
    bool gone;    /* and that part has been applied */
    bool written;
    uint8_t *new_data; /* if written: its new content; may be the content of another entry */
    size_t new_size;
    mode_t new_mode; /* 0100644, 0100755, 0120000 */
    mode_t base;     /* the permission bits that it continues, 0 if it is new */
};

struct worktree {
    int root;
    void *by_path;
    struct worktree_file **entries;
    size_t count, room;
    uint8_t **made; /* contents that no entry owns */
    size_t n_made, made_room;
    uint64_t total;
    struct buf notes; /* each ended by a NUL */
};

#define WORKTREE_INIT(folder)                                                                      \
    ((struct worktree){.root = (folder), .notes = BUF_INIT(WORKTREE_NOTES_MAX)})

void worktree_free(struct worktree *w);

/* Forgets what was computed, but not what was read. */
void worktree_reset(struct worktree *w);

/* The entry of a path, examined. -ELOOP: a folder on the way is a link; -ENOMEM. */
int worktree_get(struct worktree *w, const char *path, struct worktree_file **ret);

/* Is there something at a path, after what was applied so far? */
bool worktree_file_exists(const struct worktree_file *f);
bool worktree_exists(struct worktree *w, const char *path);

/* Reads an entry's content from disk. Errors are phrased to follow its path. */
int worktree_load(struct worktree *w, struct worktree_file *f, struct error *err);

/* Takes over memory that was made, and counts it. -E2BIG over the limit; then it is freed. */
int worktree_keep(struct worktree *w, uint8_t *data, size_t size);

void worktree_note(struct worktree *w, const char *fmt, ...) PRINTF(2, 3);

struct patch_options {
    int strip;        /* components to strip from names; -1: find out for each file */
    const char *root; /* absolute paths must begin with it: "/workspace" */
    unsigned fuzz;
    bool reverse;
    bool ignore_space;
};

/* Both are set, the same unless the file is renamed or copied. */
struct patch_paths {
    char *old, *new;
};

/* Which files of the tree a part of the diff means. -EINVAL, -EPERM with what is wrong with the
 * path, phrased to follow it. */
int patch_paths_find(const struct diff_file *f, const struct patch_options *o, struct worktree *w,
                     struct patch_paths *ret, struct error *err);
void patch_paths_free(struct patch_paths *p);

/* The lines of a text that the caller owns. */
struct text_line {
    const uint8_t *text;
    uint32_t size; /* with its newline */
};

struct text_lines {
    struct text_line *lines;
    size_t count;
};

/* -E2BIG: too many lines. */
#define TEXT_LINES_MAX (2u << 20)
int text_lines_split(const uint8_t *data, size_t size, struct text_lines *ret);
void text_lines_free(struct text_lines *t);

/* A hunk taken apart: the lines that it looks for, and those that replace them. */
struct hunk_lines {
    const struct diff_hunk *hunk;
    struct text_line *old, *new;
    size_t n_old, n_new;
    size_t before, behind; /* lines of context at its head and tail */
};

int hunk_lines_make(const struct diff *d, const struct diff_hunk *h, struct hunk_lines *ret);
void hunk_lines_free(struct hunk_lines *p);

#define PLACE_FUZZ_MAX 3u
#define PLACE_WORK_MAX (100u << 20) /* lines compared in one attempt: about a second */

enum place_why {
    PLACE_NOWHERE,   /* nothing in the file matches */
    PLACE_APPLIED,   /* the file already has the result */
    PLACE_ELSEWHERE, /* it matches, but not at the end of the file that it is tied to */
    PLACE_BEHIND,    /* it matches, but above an earlier hunk or overlapping it */
    PLACE_SPACE,     /* only blanks or line ends differ */
    PLACE_SEVERAL,   /* it has no numbers and matches at several places */
    PLACE_COSTLY,    /* the search was given up */
};

/* A hunk without a place; `line` (from 1) is where it nearly matches, 0 if nowhere. */
struct place_failure {
    const struct hunk_lines *hunk;
    size_t number; /* in its file, from 1 */
    enum place_why why;
    size_t line;
};

struct place_call {
    const struct diff *diff;
    const struct diff_file *file;
    unsigned fuzz;
    bool ignore_space; /* blanks at the ends of lines, and the form of line ends, do not count */
    uint64_t *work;    /* what is left of PLACE_WORK_MAX */
    /* Called for each failure. NULL: the first failure ends the call. */
    void (*failed)(void *data, const struct place_failure *f);
    void *data;
};

struct place_result {
    size_t failures;
    int64_t offset; /* the largest one */
    unsigned fuzz;  /* the most that was needed */
};

/* Appends the patched text to `out` if there were no failures. 0 also if hunks failed; -ENOMEM,
 * -ENOBUFS. */
int place_hunks(const struct place_call *call, struct text_lines *file, struct buf *out,
                struct place_result *ret);

/* Where a hunk that has no place was perhaps meant to go, and what differs there. */
struct hunk_nearest {
    size_t line; /* of the first line that differs, from 1; 0 if nothing in the file is like it */
    size_t expected, n_expected; /* the differing lines of the hunk, among those it looks for */
    size_t found, n_found;       /* the lines of the file at that place, from 0 */
};

/* `guess` is where the hunk says it belongs, from 0. 0 or -ENOMEM. */
int hunk_nearest_find(const struct text_lines *file, const struct hunk_lines *p, size_t guess,
                      struct hunk_nearest *ret);

struct patch_outcome {
    const char *path, *from; /* of entries; from is NULL unless renamed or copied */
    enum wire_patch kind;
    size_t hunks;
    int64_t offset;
    unsigned fuzz;
    uint64_t added, removed;
};

/* Something that does not apply. */
struct patch_reject {
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
    struct patch_outcome *outcomes;
    size_t count;
    size_t rejects; /* also those that were not reported */
};

#define PLAN_REPORTS_MAX 100u

/*
 * 0 if it applies: then plan->tree says what to write. -ENOENT if it does not: `reject` was called
 * for everything that is in the way, but at most PLAN_REPORTS_MAX times. Other failures are about
 * the diff as a whole. The caller frees the plan in any case.
 */
int plan_make(int root, const void *text, size_t size, const struct patch_options *o,
              void (*reject)(void *data, const struct patch_reject *r), void *data,
              struct plan *plan, struct error *err);
void plan_free(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_free)

/* Writes what was planned. -ESTALE: another process changed a file meanwhile. */
int commit_run(const struct worktree *w, struct error *err);
