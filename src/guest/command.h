/*
 * One command, from its start to its result.
 *
 * A command ends when its process ends, not when its pipes close. Then what is left of its tree is
 * killed, what is already in its pipes is carried to the host, and the result is sent. A background
 * command answers at once, its tree lives on after its process, and how it ended is remembered for
 * a while.
 *
 *     runs ── process ends ──▶ tree is killed, pass by pass ──▶ pipes are drained ──▶ result, freed
 *
 * Nobody waits in any of these: passes are repeated by a timer, pipes are drained as the connection
 * takes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "buf.h"
#include "carry.h"
#include "loop.h"
#include "output_log.h"
#include "spawn.h"
#include "wire.h"

struct guest;
struct conn;
struct shell;

struct command_limits {
    uint64_t timeout_ms; /* each 0: none */
    uint64_t cpu_us;
    uint64_t memory;
    uint64_t pids;
    uint64_t files;
    uint64_t log;          /* bytes of a background command's output that are kept */
    uint64_t output_total; /* bytes of it after which the command is ended */
    uint64_t sockets;      /* bytes that the sockets of the whole box may hold */
};

struct command {
    LIST_ENTRY(command) link;
    struct guest *guest;
    struct conn *conn; /* who waits for the result; NULL in the background and after a cancel */
    struct carry carry;
    struct spawn_report *report;
    struct loop_source
        arrival; /* of a process that comes from outside (adopt.h); fd -1 at all other times */
    rlim_t tag;
    pid_t pid; /* 0 once it was reaped */
    bool draining;
    bool background;
    bool signalled; /* by who waits for it */
    bool last;      /* the guest ends with it, and the box with the guest */
    uint64_t handle;
    char *output_path;
    struct output_log log; /* of a background command, at that path */
    uint64_t mark;         /* up to where somebody has read it */
    struct shell *shell;   /* of a session; NULL: any other program */
    char *name;            /* argv[0], for messages; as is cwd */
    char *cwd;
    struct command_limits limits;
    struct loop_timer deadline;
    struct loop_timer sweep;
    struct loop_timer sample;
    unsigned samples_at_pids;
    int64_t started;
    int64_t ended;
    int64_t give_up; /* when to stop waiting for a tree that will not die */
    int status;
    int error; /* errno why the program was never executed, with the step */
    enum spawn_step error_step;
    const char *error_call;
    uint64_t cpu_us; /* of what was reaped so far */
    uint64_t max_rss;
    enum wire_limit limit;
};

/* A new command in the guest's list, nothing started; or NULL. Freed by command_free until it has a
 * process.
 */
struct command *command_new(struct guest *g);
struct command *command_free(struct command *c);

/* Starts its process. 0 or a negative errno; on success the command frees itself at its end. */
int command_spawn(struct command *c, struct spawn *s);

/* From now on its time runs and its limits hold. */
void command_arm(struct command *c);

/* Its process was reaped; or one of its orphans was. */
void command_exited(struct command *c, int status, const struct rusage *ru);
void command_account(struct command *c, const struct rusage *ru);

/* Kills the whole tree, for whatever reason; `limit` is remembered unless one already was. */
void command_kill(struct command *c, enum wire_limit limit);

/* The last child of ours is gone: trees that are being killed need no other look. */
void command_none_left(struct guest *g);

/* The fields that tell how a command ended, or how far it is. */
void command_put_result(struct command *c, struct buf *b);

/* The connection is the command's from now on: it hears its frames, and gets output and the result.
 */
void command_serve(struct command *c, struct conn *conn);
