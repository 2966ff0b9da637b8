/*
 * Settings: .hutch/config.json of the workspace over ~/.config/hutch/config.json.
 *
 * The person's own file counts. The workspace's came with a clone, or a box wrote it: what needs
 * trust in it counts only if the folder is trusted (trust.h) with exactly these bytes, or for this
 * run by --trust. docs/configuration.md is the description for people.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "config_file.h"
#include "error.h"
#include "trust.h"

struct config {
    char *file;        /* the person's; NULL: there is no place for one */
    json_t *own;       /* what it says: an object */
    char *workspace;   /* canonical; NULL: none is known */
    json_t *trusted;   /* what the workspace's file says, if the folder is trusted; or NULL */
    json_t *untrusted; /* what it says, if the folder is not trusted; or NULL */
    struct error
        trouble;   /* why the workspace's file cannot be read; code 0: it can, or there is none */
    bool reported; /* the person was told what is ignored */
};

/* Reads the person's own file. No file is as good as an empty one; a broken one is an error with
 * file, line and column. */
int config_read(struct config *ret, struct error *err);
void config_free(struct config *c);
#define _cleanup_config_ _cleanup_(config_free)

/* Takes the workspace's file, as it was read with the folder's trust, in place of one that was
 * taken before; an empty `t` only takes that away. `trust` trusts it for this run. A mistake in it
 * is `trouble`, no error.
 */
int config_add_workspace(struct config *c, const struct trust *t, bool trust, struct error *err);

/* Both in one: for those who need nothing else of the folder. NULL: there is no workspace. */
int config_read_all(const char *workspace, bool trust, struct config *ret, struct error *err);
