/*
 * The files that a diff is about: as they are on disk, and as the diff will have made them.
 *
 * Nothing is changed here. The result of the diff is first computed in memory for every file, and
 * only if all of it applies is it written (commit.c). The files come from a source, which is the
 * workspace, or a few texts in a test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "buf.h"
#include "error.h"

#define WORKTREE_FILE_MAX  (64u << 20)
#define WORKTREE_TOTAL_MAX (256u << 20) /* bytes read and made, together */
#define WORKTREE_NOTES_MAX (16u << 10)

/* What is at a path; mode 0 if there is nothing. */
struct file_state {
    mode_t mode;
    uint64_t size, ino, dev;
    struct timespec mtime, ctime;
};

struct file_source {
    void *data;
    /* Does not follow a link. -ELOOP: a folder on the way is a link. */
    int (*look)(void *data, const char *path, struct file_state *ret);
    /* The content of a regular file or the target of a link, as new memory. -ESTALE: it has changed
     * since it was looked at. */
    int (*read)(void *data, const char *path, const struct file_state *seen, uint8_t **ret,
                size_t *ret_size);
};

/* Files beneath a folder: `root` points to its descriptor and outlives the source. */
struct file_source file_source_on_disk(int *root);

int file_state_look(int root, const char *path, struct file_state *ret);
bool file_state_same(const struct file_state *a, const struct file_state *b);

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
    struct file_source source;
    void *by_path;
    struct worktree_file **entries;
    size_t count, room;
    uint8_t **made; /* contents that no entry owns */
    size_t n_made, made_room;
    uint64_t total;
    struct buf notes; /* each ended by a NUL */
};

void worktree_init(struct worktree *w, struct file_source source);
void worktree_free(struct worktree *w);

/* Forgets what was computed, but not what was read. */
void worktree_reset(struct worktree *w);

/* The entry of a path, looked at. -ENOMEM, or the error of looking. */
int worktree_get(struct worktree *w, const char *path, struct worktree_file **ret);

/* Is there something at a path, after what was applied so far? */
bool worktree_file_exists(const struct worktree_file *f);
bool worktree_exists(struct worktree *w, const char *path);

/* Reads an entry's content as it is on disk. Errors are phrased to follow its path. */
int worktree_load(struct worktree *w, struct worktree_file *f, struct error *err);

/* Takes over memory that was made, and counts it. -E2BIG over the limit; then it is freed. */
int worktree_keep(struct worktree *w, uint8_t *data, size_t size);

void worktree_note(struct worktree *w, const char *fmt, ...) PRINTF(2, 3);
