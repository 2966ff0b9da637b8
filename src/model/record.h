/*
 * A recording of a conversation: one line of JSON per answer, appended to a file (docs/replay.md).
 * It holds what the model said and when, and a digest of what it was asked; never the key.
 */
#pragma once

#include "conversation.h"
#include "text.h"

struct record {
    struct model_sink sink; /* for the model; passes everything on */
    const struct model_sink *next;
    int64_t began;
    struct record_piece *pieces;
    size_t n, room;
};

/* Can the file be written to? It is made if it is not there. */
int record_check(const char *path, struct error *err);

void record_begin(struct record *r, const struct model_sink *next);
int record_end(struct record *r, const struct model_spec *spec, const struct model_request *q,
               const struct model_reply *reply, bool cut, struct error *err);
void record_free(struct record *r);
