/*
 * The state of the guest: one struct guest, reached from everything that the loop calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include "conn.h"
#include "loop.h"
#include "notify/notify.h"
#include "proc.h"
#include "wire.h"

#define GUEST_COMMANDS_MAX 1024
#define FREEZE_HOLDERS_MAX 16

LIST_HEAD(commands, command);
LIST_HEAD(workers, worker);
LIST_HEAD(sessions, session);

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
    rlim_t tags_end; /* every process that a command started has a lower tag */
    uint64_t next_handle;
    uint8_t scratch[WIRE_DATA_MAX]; /* bytes on their way from a pipe into a frame */
};

/* The user of a fresh connection: its first frame is its request (request.c). */
extern const struct conn_user request_user;

void freeze_init(struct guest *g);
int freeze_request(struct conn *conn, const struct wire_frame *f);
