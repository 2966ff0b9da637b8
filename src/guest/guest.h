/*
 * The state of the guest: one struct guest, reached from everything that the loop calls, with its
 * commands and the freeze.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "conn.h"
#include "loop.h"
#include "notify/notify.h"
#include "output_log.h"
#include "proc.h"
#include "relay.h"
#include "spawn.h"
#include "wire.h"

#define GUEST_COMMANDS_MAX 1024
#define FREEZE_HOLDERS_MAX 16

LIST_HEAD(commands, command);
LIST_HEAD(workers, worker);
LIST_HEAD(sessions, session);

struct guest;
struct command;
struct session;
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

/* What a shell of a session does beside what every command does. */
struct command_hooks {
    void (*exited)(struct command *c); /* its process ended; */
    /* its tree is gone, too: true if another command took over the call, and c is freed; */
    bool (*again)(struct command *c);
    /* else takes over its state: the session to prepare once the answer is sent, or NULL. */
    struct session *(*settle)(struct command *c);
    void (*prepare)(struct session *s);
    /* The call could not even begin: true with the text for an ERROR. */
    bool (*refused)(struct command *c, char *text, size_t size);
    void (*put_result)(struct command *c, struct buf *b);
    /* It waits for a call and has no children: any other process with its tag is a stray. */
    bool (*is_idle)(const struct command *c);
    void (*free)(struct command *c);
};

struct command {
    LIST_ENTRY(command) link;
    struct guest *guest;
    struct conn *conn; /* who waits for the result; NULL in the background and after a cancel */
    struct relay relay;
    struct spawn_report *report;
    struct loop_source arrival; /* of a process that enters from outside (ADOPT); fd -1: none */
    rlim_t tag;
    pid_t pid; /* 0 once it was reaped */
    bool draining;
    bool background;
    bool signalled; /* by the host */
    bool last;      /* the guest ends with it, and the box with the guest */
    uint64_t handle;
    char *output_path;
    struct output_log log;             /* of a background command, at that path */
    uint64_t mark;                     /* how far it was read */
    struct shell *shell;               /* of a session; NULL: any other program */
    const struct command_hooks *hooks; /* of a shell; NULL: none */
    char *name;                        /* argv[0], for messages; as is cwd */
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

enum freeze_state { FREEZE_OFF, FREEZE_STOPPING, FREEZE_ON };

struct freeze {
    enum freeze_state state;
    struct conn *holders[FREEZE_HOLDERS_MAX];
    bool answered[FREEZE_HOLDERS_MAX];
    size_t n_holders;
    struct buf stopped_before; /* pid_t each */
    unsigned count;            /* processes that are frozen */
    bool mapped;               /* one of them has a file mapped to write to it */
    struct loop_timer timer;
    int64_t began;
};

struct guest {
    struct loop loop;
    struct loop_source control; /* where the host sends connections */
    struct loop_source signals; /* SIGCHLD */
    struct conn_owner conns;
    struct commands commands; /* running, and ended background ones; newest first */
    unsigned n_commands;
    struct workers workers;
    unsigned n_workers;
    struct sessions sessions; /* of shells; the last used first */
    unsigned n_sessions;
    bool has_children; /* false: no process but this one exists */
    struct proc proc;
    struct freeze freeze;
    struct notify notify;
    struct spawn_report *reports; /* GUEST_COMMANDS_MAX of them */
    rlim_t next_tag;
    rlim_t tags_end; /* no process that a command started has a tag as high as this */
    uint64_t next_handle;
    uint8_t scratch[WIRE_DATA_MAX]; /* bytes on their way from a pipe into a frame */
};

/* Whether a signal may be sent now: one that lets a process go on must not while the box is frozen.
 */
static inline bool guest_may_signal(const struct guest *g, int sig)
{
    return g->freeze.state == FREEZE_OFF || sig != SIGCONT;
}
