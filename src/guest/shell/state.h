/*
 * What a session keeps from call to call, as bytes:
 *
 *     the folder and a newline, NUL, exported variables as commands, NUL, functions as commands,
 * NUL, "end", NUL
 *
 * which is how a shell writes it and how it is kept in the box. Hostile code may have written it;
 * only its form is checked here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define STATE_MAX (256u << 10)

struct state {
    const char *cwd; /* absolute; none of these ends in a NUL of its own but where a piece does */
    size_t cwd_len;
    const char *exports; /* ends in a NUL, as does: */
    const char *functions;
};

/* False unless the bytes are a whole state. */
bool state_parse(const void *data, size_t n, struct state *ret);

/* The bytes of a state with another folder, and perhaps with more commands behind the exports. */
int state_put(struct buf *b, const char *cwd, size_t cwd_len, const char *exports, const char *more,
              const char *functions);

/* A report of a shell: whether it took its script, whether its folder was gone, and what it wrote
 * after that.
 */
struct state_report {
    bool taken;
    bool gone;
    const char *rest;
    size_t rest_len;
};

void state_parse_report(const void *data, size_t n, struct state_report *ret);

/* Whether KEY=VALUE can be a variable of a shell that a command may set. */
bool state_is_variable(const char *entry);

/* Whether its name is none that a shell could know, and so has to be passed by. */
bool state_is_foreign(const char *entry);

/* A command that exports KEY=VALUE, in bash's words or, if plain, in those of every shell. */
int state_put_export(struct buf *b, const char *entry, bool plain);
