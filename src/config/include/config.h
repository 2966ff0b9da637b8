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
