/* One request to a keeper and its answers; for keeper_client.c and keeper_run.c. */
#pragma once

#include "keeper.h"
#include "keeper_wire.h"

#define KEEPER_REQUEST_MAX (WIRE_HEADER + WIRE_BODY_MAX)

struct keeper_ask {
    const struct registry_id *id;
    int conn;
    struct buf out;
    size_t begin;
    struct wire_reader reader;
};

void keeper_ask_free(struct keeper_ask *a);
#define _cleanup_ask_ _cleanup_(keeper_ask_free)

int keeper_ask_begin(struct keeper_ask *a, int registry, const struct registry_id *id,
                     enum keeper_type type, struct error *err);
int keeper_ask_send(struct keeper_ask *a, const int *fds, size_t n_fds, struct error *err);

/* The next answer: 1 with a frame, or a negative errno when it is an error or there is none. */
int keeper_ask_next(struct keeper_ask *a, struct wire_frame *ret, struct error *err);
