/*
 * Nothing that was shown is shown twice.
 *
 * A stream may break off in the middle, and the request is then tried again. This stands between
 * the decoders of all attempts and the sink: it remembers what was handed out, and holds back as
 * much of a new attempt as says the same again. At the first difference it tells how much of what
 * was shown counts still (MODEL_BACK), and from there on everything is new. Pure.
 */
#pragma once

#include "buf.h"
#include "model.h"

struct shown_stream {
    struct buf given; /* what the sink was given, as far as it counts */
    size_t at; /* so much of it this attempt has said, too; given.len: it is new from here on */
};

struct shown {
    const struct model_sink *sink;
    struct shown_stream text, thinking;
    struct shown_stream calls; /* names with a NUL behind each */
    bool failed;               /* there was no memory to remember with */
};

void shown_init(struct shown *s, const struct model_sink *sink);
void shown_free(struct shown *s);

/* What an attempt is given as its sink; valid while `s` stays where it is. */
struct model_sink shown_sink(struct shown *s);

/* Another attempt begins: what it says is compared from the start. */
void shown_again(struct shown *s);

/* Was more shown than this attempt has said? */
bool shown_is_behind(const struct shown *s);

/* The attempt is the answer: what was shown beyond it does not count. */
void shown_end(struct shown *s);
