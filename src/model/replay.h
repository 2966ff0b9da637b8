/*
 * Recordings of conversations (docs/replay.md), written and played. Every model that is opened on a
 * recording plays its answers from the start. The file is untrusted, and checked as a whole when it
 * is opened.
 */
#pragma once

#include "conversation.h"

#define REPLAY_BYTES_MAX   (64u << 20)
#define REPLAY_ANSWERS_MAX 100000u

/* share/sample.replay: the conversation of `make run`. */
extern const char DEMO_RECORDING[];

struct replay;

int replay_open(const char *path, struct replay **ret, struct error *err);

/* The same from text; `name` is for messages. */
int replay_parse(const char *name, const char *text, size_t n, struct replay **ret,
                 struct error *err);
struct replay *replay_free(struct replay *p);

size_t replay_count(const struct replay *p);

/* Like model_ask. -ENODATA: the recording has no further answer. */
int replay_ask(struct replay *p, const struct model_request *q, double pace,
               const struct model_sink *sink, struct model_reply *ret, struct error *err);

/* A recording in the making: one line of JSON per answer, appended to a file. It holds what the
 * model said and when, and a digest of the messages; never the key. */
struct record {
    struct model_sink sink; /* for the model; passes all events on to `next` */
    const struct model_sink *next;
    int64_t began;
    json_t *pieces;
};

/* Can the file be written to? It is made if it does not exist. */
int record_check(const char *path, struct error *err);

void record_begin(struct record *r, const struct model_sink *next);
int record_end(struct record *r, const struct model_spec *spec, const struct model_request *q,
               const struct model_reply *reply, bool cut, struct error *err);
void record_free(struct record *r);
