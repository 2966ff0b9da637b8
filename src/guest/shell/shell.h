/*
 * Scripts in the shell of a session (shell.c), and the state that a session keeps from call to call
 * (state.c), as bytes:
 *
 *     folder \n NUL exported variables as commands NUL functions as commands NUL "end" NUL
 *
 * A shell writes it like this, and it is kept like this in the box, at /tmp/.hutch/shell/NAME, so
 * that a fork of the box, or one that is put back to a snapshot, continues where it was. Hostile
 * code may have written it. Only its form is checked here; its commands then run as the agent.
 */
#pragma once

#include "command.h"

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

/* The commands that restore a session, wait for a script, run it and save: for `bash --norc
 * --noprofile -c TEXT bash` with a copy of 0 at descriptor `anchor`, and for `sh -c TEXT sh EXPORTS
 * FOLDER CWD HAS_INPUT SCRIPT`, which is not started before its call. */
int prelude_put_bash(struct buf *b, int anchor);
extern const char PRELUDE_SH[];

#define SESSION_READY_MAX 2

struct session {
    LIST_ENTRY(session) link; /* the last used first */
    struct guest *guest;
    char name[SESSION_NAME_MAX + 1];
    struct buf raw; /* the state; empty if there is none yet */
    uint64_t revision;
    struct words seed;                        /* the variables of the last request */
    uint64_t files;                           /* its limit */
    bool plain;                               /* there is no bash in this box */
    bool unwritten;                           /* the file has an older state */
    bool unloadable;                          /* the file could not be used: reported once */
    struct command *ready[SESSION_READY_MAX]; /* the oldest first */
    unsigned n_ready;
    int64_t ended;  /* the last call */
    bool hurried;   /* calls come so fast that one ready shell would not be ready in time */
    unsigned calls; /* commands that point here */
};

void shell_request(struct conn *conn, const struct wire_frame *f);

/* Ends the ready shells of a session. */
void shell_discard_ready(struct session *s);
