/*
 * What a session keeps from call to call, as bytes:
 *
 *     folder \n NUL exported variables as commands NUL functions as commands NUL "end" NUL
 *
 * A shell writes it like this, and it is kept like this in the box, at /tmp/.hutch/shell/NAME, so
 * that a fork of the box, or one that is put back to a snapshot, goes on where it was. Hostile code
 * may have written it. Only its form is checked here; its commands then run as the agent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

#define STATE_MAX        (256u << 10)
#define SESSION_NAME_MAX 64

struct state {
    const char *cwd; /* absolute; not terminated */
    size_t cwd_len;
    const char *exports, *functions; /* terminated */
};

/* False unless the bytes are a whole state. */
bool state_parse(const void *data, size_t n, struct state *ret);

/* The bytes of a state; the commands `more` follow the exports. */
int state_put(struct buf *b, const char *cwd, size_t cwd_len, const char *exports, const char *more,
              const char *functions);

/* Reads the session's file: true if it holds a state, false with *ret_exists if it holds none. */
bool state_load(const char *name, struct buf *raw, bool *ret_exists);

/* Replaces the session's file; false if that failed. */
bool state_store(const char *name, const struct buf *raw);

/* A report of a shell: whether it took its script, whether its folder was gone, and the rest. */
struct state_report {
    bool taken;
    bool gone;
    const char *rest;
    size_t rest_len;
};

void state_parse_report(const void *data, size_t n, struct state_report *ret);

/* Whether KEY=VALUE can be a variable of a shell that a command may set. */
bool state_is_variable(const char *entry);

/* Whether no shell can have a variable of that name: it must go into the environment. */
bool state_is_foreign(const char *entry);

/* A command that exports KEY=VALUE, in bash's words or, if plain, in those of every shell. */
int state_put_export(struct buf *b, const char *entry, bool plain);
