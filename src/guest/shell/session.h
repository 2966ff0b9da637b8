/*
 * Sessions: the state of each, in memory and in the box.
 *
 * In the box it lies at /tmp/.hutch/shell/NAME, so that a fork of the box, or one that is put back
 * to a snapshot, goes on where it was; it is read when a session is first used. The agent can
 * write that file: it becomes a state only if it has the form of one, and then runs as the agent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shell/state.h"
#include "exec.h"

#define SESSION_NAME_MAX  64
#define SESSIONS_MAX      8
#define SESSION_READY_MAX 2
#define SESSION_FOLDER    "/workspace"

struct guest;
struct command;

struct session {
    LIST_ENTRY(session) link; /* the last used first */
    struct guest *guest;
    char name[SESSION_NAME_MAX + 1];
    struct buf raw; /* the state; empty if there is none yet */
    uint64_t revision;
    struct words seed; /* the variables of the last request */
    uint64_t files;    /* its limit */
    bool plain;        /* there is no bash in this box */
    bool unwritten;    /* the box has an older one */
    bool unloadable;   /* what was kept in the box could not be used: reported once */
    struct command *ready[SESSION_READY_MAX]; /* the oldest first */
    unsigned n_ready;
    int64_t ended;  /* the last call */
    bool hurried;   /* calls come one right after the other: one ready shell would not be ready in
                       time */
    unsigned calls; /* commands that point here */
};

/* The session of that name, made or loaded if it is not known. NULL if the name is none, or without
 * memory.
 */
struct session *session_get(struct guest *g, const char *name);

/* Its ready shells must be gone. */
void session_free(struct session *s);

/* Takes the request's variables: all of them into a new session, later those that differ from
 * before. */
int session_seed(struct session *s, struct words *env);

/* What a shell begins with. With no state yet, that is the seed. `fresh`: forgets the state first.
 */
int session_begin(struct session *s, bool fresh, struct state *ret);

/* Takes over a state, which was parsed; and keeps it in the box. With own_cwd its folder is not
 * taken. */
int session_save(struct session *s, const struct state *st, bool own_cwd);

/* session_file.c: the state from the box, and into it. Fuzz targets have others. */
void session_load(struct session *s);
void session_store(struct session *s);
