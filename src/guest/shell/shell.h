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

#include "buf.h"
#include "loop.h"
#include "exec.h"

struct command;
struct conn;
struct error;
struct guest;
struct session;
struct wire_frame;

/* What a call hands to its shell. */
struct shell_call {
    struct buf payload; /* CWD, "1" if there is input, the script; a NUL behind each */
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
    bool plain; /* the POSIX shell, for want of bash */
    bool idle;  /* started, and waits for a call */
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

/* Whether the shell reported that it took its script. */
bool shell_has_taken(const struct command *c);

/* What a command does more when it is a shell. */
extern const struct command_hooks shell_hooks;

/* Starts the next shell of a session, to be ready. */
void shell_prepare(struct session *s);

/* Ends the ready shells. */
void shell_discard_ready(struct session *s);

struct shell_start {
    struct session *session;
    struct shell_call
        *call;  /* taken, and handed over at once; NULL: it waits for one (only bash can) */
    bool fresh; /* without the session's state */
    bool background;
};

/* Starts a shell: a command, whose limits are the caller's to set, but for the number of files,
 * which is the session's. NULL with the text set if there is none. */
struct command *shell_start(struct guest *g, const struct shell_start *x, struct error *err);

/* Takes it out of the ready shells. */
void shell_unready(struct command *c);

/* Hands c->shell->call to a ready shell. */
int shell_hand_over(struct command *c);
