/*
 * A recorded conversation instead of a model: its answers, in order (docs/replay.md). Every model
 * that is opened on a recording plays it from the start. The file is untrusted, and checked as a
 * whole when it is opened.
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
