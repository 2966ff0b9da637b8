/*
 * The SHELL request: scripts in the shell of a session, whose folder, exported variables and
 * functions last from call to call, as people expect of a terminal.
 *
 * Each call is a process of its own that ends with it, so nothing that a script does (exit, set -e,
 * exec, a syntax error, kill -9 $$) can harm the session. Starting bash takes longer than most
 * calls, so the next shell is started in advance:
 *
 *     started, state restored, waits ── a call comes ──▶ gets its script, runs it,
 *     writes its state, ends ──▶ the result is sent, the next shell is started
 *
 * A shell and the guest share four things, which are descriptors 3 to 6 of the shell until it has
 * what it needs: a pipe, of which a line is the call; a payload with the session's state and later
 * the script; what the script reads as its input; and a report, into which the shell writes that it
 * has taken the script, and on its way out the session's state. Hostile code can write anything
 * into the report. It is used only if it is complete and the process exited by itself; all it can
 * do is become the state of the same session again, in a shell of the same user.
 *
 * A ready shell is a command in the guest's list with a tag of its own, which no other process may
 * have. If it does not take its script because it was killed, stopped or traced, a fresh one
 * replaces it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "command.h"
#include "shell/state.h"

#define SESSIONS_MAX      8
#define SESSION_READY_MAX 2
#define SESSION_FOLDER    "/workspace"

/* A session: its state, in memory and in a file of the box (state.h). */
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

/* The session of that name, made or loaded if it is not known. NULL if the name is invalid, or
 * without memory. */
struct session *session_get(struct guest *g, const char *name);
void session_free(struct session *s); /* its ready shells must be gone */

/* Takes the request's variables: all of them into a new session, later those that differ from
 * before. */
int session_seed(struct session *s, struct words *env);

/* The state that a shell begins with; without any yet, the seed. `fresh`: forgets the state. */
int session_begin(struct session *s, bool fresh, struct state *ret);

/* Takes over a parsed state and keeps it in the box. With own_cwd its folder is not taken. */
int session_save(struct session *s, const struct state *st, bool own_cwd);

/* What a call hands to its shell. */
struct shell_call {
    struct buf payload; /* CWD, "1" if there is input, the script; a NUL after each */
    struct buf data;
    bool own_cwd; /* CWD was given: the session's folder stays what it was */
};

/* What a shell has besides being a command. */
struct shell {
    struct session *session;
    struct command *command;
    int wake; /* -1 once it was called */
    int payload, input, report;
    size_t payload_size;
    bool plain; /* the POSIX shell, since there is no bash */
    bool warm;  /* it was ready before its call */
    bool fresh; /* began without the session's state */
    bool replaced;
    uint64_t revision; /* of the state that it began with */
    struct shell_call call;
    struct loop_timer confirm;
    bool saved;
    char *gone; /* the session's folder, which was not there any more */
};

int shell_request(struct conn *conn, const struct wire_frame *f);
int shell_input_request(struct conn *conn, const struct wire_frame *f);

/* Ends the ready shells of a session. */
void shell_discard_ready(struct session *s);

/* Whether the shell reported that it took its script. */
bool shell_has_taken(const struct command *c);

extern const struct command_hooks shell_hooks;

struct shell_start {
    struct session *session;
    struct shell_call *call; /* taken over; NULL: it waits for one (only bash can) */
    bool fresh;              /* without the session's state */
    bool background;
};

/* Starts a shell: a command whose limits the caller sets, but for that on files, which is the
 * session's. NULL with err set on failure. */
struct command *shell_start(struct guest *g, const struct shell_start *x, struct error *err);

/* Hands c->shell->call to a shell. */
int shell_hand_over(struct command *c);
