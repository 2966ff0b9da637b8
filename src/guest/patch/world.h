/*
 * The files that a diff is about: as they are on disk, and as the diff will have made them.
 *
 * Nothing is changed here. What comes of the diff is first worked out in memory for every file, and
 * only if all of it works out is it carried out (commit.h). The files come from a source, which is
 * the workspace, or a few texts in a test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "buf.h"
#include "error.h"

#define WORLD_FILE_MAX  (64u << 20)
#define WORLD_TOTAL_MAX (256u << 20) /* bytes read and made, together */
#define WORLD_NOTES_MAX (16u << 10)

/* What was seen at a path; mode 0 if there was nothing. */
struct seen {
    mode_t mode;
    uint64_t size, ino, dev;
    struct timespec mtime, ctime;
};

struct source {
    void *data;
    /* Does not follow a link. -ELOOP: a folder on the way is a link. */
    int (*look)(void *data, const char *path, struct seen *ret);
    /* The content of a regular file or the target of a link, as new memory. -ESTALE: it is not what
     * was seen.
     */
    int (*read)(void *data, const char *path, const struct seen *seen, uint8_t **ret,
                size_t *ret_size);
};

struct world_file {
    char *path;
    struct seen seen;
    bool loaded;
    uint8_t *data; /* the content that was read */
    size_t size;
    bool doomed; /* some part of the diff deletes it or renames it */
    bool moves;  /* it is renamed */
    bool gone;   /* and that part has been worked out */
    bool written;
    uint8_t *new_data; /* if written: what it will hold; may be the content of another entry */
    size_t new_size;
    mode_t new_mode; /* 0100644, 0100755, 0120000 */
    mode_t base;     /* the permission bits that it continues, 0 if it is new */
};

struct world {
    struct source source;
    void *tree;
    struct world_file **entries;
    size_t count, room;
    uint8_t **made; /* memory that belongs to nobody else */
    size_t n_made, made_room;
    uint64_t total;
    struct buf notes; /* each ended by a NUL */
};

void world_init(struct world *w, struct source source);
void world_free(struct world *w);

/* Forgets what was worked out, but not what was read. */
void world_reset(struct world *w);

/* The entry of a path, looked at. -ENOMEM, or what looking said. */
int world_get(struct world *w, const char *path, struct world_file **ret);

/* Is there something at a path, as far as the diff was worked out? */
bool world_exists(struct world *w, const char *path);

/* Reads an entry's content as it is on disk. Errors are told with its path. */
int world_load(struct world *w, struct world_file *e, struct error *err);

/* Takes over memory that was made, and counts it. -E2BIG over the limit; then it is freed. */
int world_keep(struct world *w, uint8_t *data, size_t size);

void world_note(struct world *w, const char *fmt, ...) PRINTF(2, 3);
