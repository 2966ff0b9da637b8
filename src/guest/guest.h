/*
 * What the parts of the guest share: one struct, made in main and reached from everything that the
 * loop calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include "freeze.h"
#include "loop.h"
#include "notify/notify.h"
#include "proc.h"
#include "wire.h"

#define GUEST_CONNS_MAX    1024
#define GUEST_COMMANDS_MAX 1024

LIST_HEAD(commands, command);
LIST_HEAD(workers, worker);
LIST_HEAD(sessions, session);

struct guest {
    struct loop loop;
    struct loop_source control; /* where the host sends connections */
    struct loop_source signals; /* SIGCHLD */
    unsigned n_conns;
    struct commands
        commands; /* running, and ended background ones that are remembered; newest first */
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

/* Serves the control socket, and the filter's listener if there is one (else -1). Does not return,
 * unless it could not begin: then with a negative errno and the call that failed. */
int guest_serve(int control, int listener, const char **ret_call);
