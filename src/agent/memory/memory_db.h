/* Inside of memory/: the database, and what the files here need of each other. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "memory.h"
#include "text.h"

struct memory {
    pthread_mutex_t lock;
    char *histories; /* the path of the folder */
    char *path;
    int folder;
    sqlite3 *db;
    const char *embedder;
    struct model *model;
};

/* A statement of this database; finalized by sqlite3_finalize. NULL with the text set. */
sqlite3_stmt *memory_prepare(struct memory *m, const char *sql, struct error *err);
#define _cleanup_stmt_ _cleanup_(memory_finalize)
void memory_finalize(sqlite3_stmt **s);

int memory_run(struct memory *m, const char *sql, struct error *err);

/* The database's last failure as an errno with its text. */
int memory_failed(struct memory *m, struct error *err);

/* Is it damaged, rather than busy or full? Then memory_rebuild makes a new one. */
bool memory_is_damaged(const struct memory *m);
int memory_rebuild(struct memory *m, struct error *err);

/* One searchable part of a message: a block. */
struct memory_part {
    const char *call; /* tool_use_id, or NULL */
    const char *role; /* user, assistant, tool, hutch */
};

/* The text of part number `part` of a message; -ENOENT if there is none. */
int memory_part(const json_t *message, size_t part, struct memory_part *ret, struct buf *text);

/* memory_search.c: embeds some of the pieces that have no vector yet, where that is configured. */
void memory_embed_new(struct memory *m, int cancel);
