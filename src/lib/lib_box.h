/* The handles of boxes and snapshots. */
#pragma once

#include <pthread.h>

#include "box.h"
#include "entry.h"
#include "session.h"

/* A call that runs in a box, for hutch_box_interrupt. */
struct running {
    int cancel; /* eventfd */
    struct running *next;
};

struct hutch_box {
    struct handle handle;
    struct box *box;
    struct tool_session *session;
    pthread_mutex_t owner; /* of what box.h allows only one thread at a time */
    pthread_mutex_t lock;  /* of the next two */
    struct running *running;
    bool closing;
};

struct hutch_snapshot {
    struct handle handle;
    struct snapshot *snapshot;
};

/* Takes the box over, whether it succeeds or not. */
int box_handle(struct box *box, hutch_box **ret, struct error *err);

/* Around whatever takes long: hutch_box_interrupt makes r->cancel readable. */
int running_begin(hutch_box *b, struct running *r, struct error *err);
void running_end(hutch_box *b, struct running *r);
