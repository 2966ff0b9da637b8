/* The index of the person's repository, carried from one commit to another without touching a file.
 */
#pragma once

#include <sys/stat.h>

#include "git_transfer.h"

/* Holds the repository's index.lock until it is committed or dropped. */
struct git_index {
    int lock; /* -1: not held */
    char *lock_path, *index_path, *made_path;
};
#define GIT_INDEX_NONE ((struct git_index){.lock = -1})

/* Takes the lock and makes, in the quarantine, the index that belongs to `to` of the one that
 * belongs to `from` ("": no commit yet). What the person has staged stays staged. 0; 1 if that is
 * not possible, with the reason in err; or a negative errno. */
int git_index_prepare(const struct git_repo *host, const struct git_transfer *t, const char *from,
                      const char *to, struct git_index *ret, struct error *err);

/* Puts it in place of the repository's. */
int git_index_commit(struct git_index *i, struct error *err);
void git_index_drop(struct git_index *i);
