/*
 * Settings: .hutch/config.json of the workspace over ~/.config/hutch/config.json.
 *
 * The person's own file is read by the host, and believed. The workspace's is a stranger's: it came with a
 * clone, or a box wrote it. So it is read through the guest, and nothing in it starts a program or opens a
 * connection on the host, unless the person's own file lists the workspace under "trusted". Even then it
 * counts only as it was before anything ran in the box: code in the box could write itself a way out
 * otherwise. docs/configuration.md is the description for people.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "error.h"
#include "session.h"

#define CONFIG_MAX            (1u << 20)
#define CONFIG_WORKSPACE_FILE ".hutch/config.json"

struct config {
    char *file;      /* the person's; NULL: there is no place for one */
    json_t *own;     /* what it says: an object */
    json_t *trusted; /* what the workspace's file says, if it may be believed; or NULL */
    char *workspace; /* absolute, on the host; NULL: not known, or the box is not fresh */
};

/* Reads the person's own file. No file is as good as an empty one; a broken one is an error with file, line
 * and column. `workspace` is that of a box in which nothing ran yet, or NULL. */
int config_read(const char *workspace, struct config *ret, struct error *err);
void config_free(struct config *c);
#define _cleanup_config_ _cleanup_(config_free)

/* Does the person's own file say that this workspace's may be believed? */
bool config_trusts(const struct config *c);

/* The workspace's file, through the guest. 0 with NULL if there is none. */
int config_read_workspace(struct tool_session *s, json_t **ret, struct error *err);

/* Text that is to be a configuration: JSON, and what its schema allows. `file` is for the message. */
int config_parse(const char *file, const void *text, size_t n, json_t **ret, struct error *err);

/* The value with ${NAME} and ${NAME:-default} replaced from the environment; a new string. `where` is the
 * setting's name for the message. */
int config_expand(const char *value, const char *where, char **ret, struct error *err);
