/* What the three protocols' decoders share. */
#pragma once

#include "assembly.h"
#include "decoder.h"
#include "trouble.h"

struct decode_protocol {
    /* One event: its type, as the event itself or the stream names it, and its data. As
     * decoder_take(). */
    int (*take)(struct decoder *d, const char *type, json_t *event);
    /* A whole answer: 1, or a negative errno. */
    int (*take_whole)(struct decoder *d, json_t *answer);
    /* Before the content is made, if there is anything to do. */
    void (*finish)(struct decoder *d);
    const char *last; /* data that ends the stream without being JSON; or NULL */
};

extern const struct decode_protocol ANTHROPIC_DECODE, CHAT_DECODE, RESPONSES_DECODE;

struct decoder {
    const struct decode_protocol *protocol;
    char *from;
    struct assembly a;
    struct model_usage usage;
    enum model_stop stop;
    bool answered; /* something of an answer has come */
    bool stopped;  /* the provider has said why it ended: the end of the stream is no accident any
                      more */
    bool complete; /* nothing more is needed */
    bool refused;
    int64_t last_key;
    char model[sizeof((struct model_reply *)0)->model];
    struct decoder_trouble *trouble; /* of the call under way */
    struct error *err;
};

/* What is done with one type of event; a list of them ends with one without a type. */
struct decode_handler {
    const char *type;
    int (*take)(struct decoder *d, json_t *event);
};
/* By the type that the event itself names, else by the stream's; NULL: nobody knows it. */
const struct decode_handler *decode_handler_of(const struct decode_handler *all, const char *type,
                                               const json_t *event);
/* The member `type`, or an empty string. */
const char *decode_type(const json_t *value);

/* The provider reports an error. */
int decode_trouble(struct decoder *d, json_t *error);
/* The first `model` and `id` of an answer. */
void decode_head(struct decoder *d, const json_t *head);
/* A figure of usage, where there is one; else what was known before. */
uint64_t decode_count(const json_t *usage, const char *name, uint64_t before);
