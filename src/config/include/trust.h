/*
 * Trust, per folder: whether a folder's files may decide where a conversation goes and what runs on
 * the host.
 *
 * A person trusts a folder as it is: the record holds its canonical path and a SHA-256 digest of
 * the files that matter (.env, .hutch/config.json, and programs of the folder that its MCP servers
 * name). When one of them changes (a pull, an applied change of an agent), the folder is no longer
 * trusted until the person says so again. A folder inherits nothing from its parent. Records are
 * files of $XDG_STATE_HOME/hutch/trust (~/.local/state/hutch/trust), one per folder.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "error.h"
#include "text.h"

enum trust_state {
    TRUST_UNKNOWN, /* the person has not decided */
    TRUST_YES,     /* trusted, and the files are as they were then */
    TRUST_NO,      /* refused, and the files are as they were then */
    TRUST_CHANGED, /* decided, but the files have changed since: not trusted */
};

enum trust_file_name { TRUST_DOTENV, TRUST_CONFIG, TRUST_FILES };

/* One file that matters, read once: the bytes that were digested are the bytes that count. */
struct trust_file {
    bool exists;
    struct error unreadable; /* code 0: `text` holds all of it */
    struct buf text;
};

struct trust {
    char *folder; /* canonical */
    struct trust_file files[TRUST_FILES];
    char digest[65];
    enum trust_state state;
};

/* Is this folder trusted, with its files as they are now? Only TRUST_YES allows the use of what
 * they say. Fails if the folder cannot be opened; a record that cannot be read is none. */
int trust_check(const char *folder, enum trust_state *ret, struct error *err);

/* The same, with the contents of the files. */
int trust_read(const char *folder, struct trust *ret, struct error *err);
void trust_free(struct trust *t);
#define _cleanup_trust_ _cleanup_(trust_free)

/* Stores the person's decision about the folder with exactly these files. */
int trust_decide(const struct trust *t, bool yes, struct error *err);

/* Removes the record of a folder, which need not exist any more. -ENOENT: there is none. */
int trust_revoke(const char *folder, struct error *err);

/* All records, by folder: [{"folder", "state": "trusted"|"refused"|"changed"|"missing",
 * "decided"}]. */
int trust_list(json_t **ret, struct error *err);

/* What needs trust in the files: [{"file", "name", "value"}], keys masked, values cut. `trouble` is
 * set if .hutch/config.json cannot be read. NULL: no memory. */
json_t *trust_items(const struct trust *t, struct error *trouble);

/* The name of a file relative to its folder, for messages. */
const char *trust_file_path(enum trust_file_name which);
