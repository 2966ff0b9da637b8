/*
 * The FREEZE request: every process but this one is stopped until the connection closes, so that
 * what is copied from the box meanwhile is one state of it. Freezes nest; the last one to close
 * lets the processes go on.
 *
 * A process that its owner had stopped before stays stopped after. Nothing is started while a
 * freeze lasts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "loop.h"

#define FREEZE_HOLDERS_MAX 16

struct guest;
struct conn;
struct wire_frame;

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

void freeze_init(struct guest *g);
int freeze_request(struct conn *conn, const struct wire_frame *f);

/* Whether a signal may be sent now: one that would let a process go on must not while it is frozen.
 */
bool freeze_lets_pass(struct guest *g, int sig);
