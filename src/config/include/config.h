/*
 * Settings files: .hutch/config.json of the workspace over ~/.config/hutch/config.json, and trust.
 *
 * The person's own file counts. The workspace's came with a clone, or a box wrote it: what needs
 * trust in it counts only if the folder is trusted with exactly these bytes, or for this run by
 * --trust. docs/configuration.md is the description for people.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "error.h"
#include "text.h"

#define CONFIG_MAX            (1u << 20)
#define CONFIG_WORKSPACE_FILE ".hutch/config.json"

/* Parses a configuration and checks it against the schema. `file` is for the message. */
int config_parse(const char *file, const void *text, size_t n, json_t **ret, struct error *err);

/* Replaces ${NAME} and ${NAME:-default} by the environment's values; a new string. `where` is the
 * setting's name for the message. */
int config_expand(const char *value, const char *where, char **ret, struct error *err);

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

/* Reads the files, and whether the folder is trusted with them as they are now. Only TRUST_YES
 * allows the use of what they say. Fails if the folder cannot be opened; a record that cannot be
 * read is none. */
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

struct config {
    char *file;        /* the person's own; NULL: no home folder is known */
    json_t *own;       /* its content: an object */
    char *workspace;   /* canonical; NULL: none is known */
    json_t *trusted;   /* content of the workspace's file, if the folder is trusted; or NULL */
    json_t *untrusted; /* the same, if the folder is not trusted; or NULL */
    /* Why the workspace's file cannot be read; code 0: it can, or there is none. */
    struct error trouble;
    bool reported; /* what is ignored was reported */
};

/* Reads the person's own file. A missing file is an empty one; a broken one is an error with file,
 * line and column. */
int config_read(struct config *ret, struct error *err);
void config_free(struct config *c);
#define _cleanup_config_ _cleanup_(config_free)

/* Adds the workspace's file, as trust_read() read it, in place of a former one; an empty `t` only
 * removes that. `trust` trusts it for this run. A mistake in it sets `trouble` and is no error. */
int config_add_workspace(struct config *c, const struct trust *t, bool trust, struct error *err);

/* Both in one. NULL: there is no workspace. */
int config_read_all(const char *workspace, bool trust, struct config *ret, struct error *err);
