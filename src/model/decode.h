/*
 * Decoders: from a provider's server-sent events to model events and the reply. Pure: no clock, no
 * network. The input is untrusted, and what is kept of it is bounded: DECODER_BLOCKS_MAX blocks,
 * and DECODER_BYTES_MAX for all pieces and values together (a value counts as the bytes of its
 * event and 64 more for each value in it).
 *
 * Three parts: a lenient JSON parser, the assembly of an answer's blocks from pieces, and the
 * decoder itself, which a provider's protocol drives.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "conversation.h"
#include "http.h"
#include "json.h"
#include "sse.h"
#include "text.h"

/*
 * A lenient JSON parser, and text that comes in pieces.
 *
 * Servers send what a strict parser refuses: bytes that are not UTF-8, surrogates without their
 * other half, endless integers. An answer should not be lost for that. A document that does not
 * parse is mended: every broken byte (a lone surrogate is three) becomes a character of a private
 * range, U+10FE00 plus the byte, and `mended` is set. Readers of a mended document restore the
 * bytes: of a piece of a longer text with utf8_pieces_append(), which joins a character that a
 * server has cut between two pieces; of anything else with lenient_json_settle(). What stays broken
 * becomes U+FFFD.
 */
#define LENIENT_JSON_VALUES_MAX (1u << 18)

struct lenient_json {
    json_t *value;
    size_t values; /* the number of values in it */
    bool mended;
};

/* 0; -E2BIG: more than LENIENT_JSON_VALUES_MAX values; -EBADMSG: not JSON; -ENOMEM. */
int lenient_json_parse(const char *text, size_t n, struct lenient_json *ret);

/* A new reference to the value, without broken characters; NULL: no memory. */
json_t *lenient_json_settle(json_t *value, bool mended);

/* Between two pieces of a text: the beginning of a character. */
struct utf8_pieces {
    uint8_t held[8];
    size_t n;
};

/* Appends a piece's whole characters, NUL as U+FFFD. 0 or a negative errno of the buffer. */
int utf8_pieces_append(struct utf8_pieces *b, const char *text, size_t n, bool mended,
                       struct buf *out);

/* The next byte of a text. */
void utf8_pieces_byte(struct utf8_pieces *b, uint8_t byte, struct buf *out);

/* The text has ended: what is still held is broken. */
int utf8_pieces_end(struct utf8_pieces *b, struct buf *out);

/*
 * The assembly of an answer: blocks that grow by pieces, in the order in which they began (or by
 * their keys), and in the end the reply's content. Every function returns 0 or a negative errno:
 * -E2BIG or -EFBIG over a limit, -ENOMEM.
 */
#define DECODER_BYTES_MAX  (64u << 20)
#define DECODER_BLOCKS_MAX 1024

enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL, BLOCK_OTHER };

struct block {
    enum block_kind kind;
    int64_t key, part;         /* by which a protocol finds it */
    bool whole;                /* its end has come */
    struct buf text;           /* of a text or a thinking block */
    struct utf8_pieces broken; /* between two pieces of the text, or of the input */
    struct buf input;          /* a call's, as JSON text; also that of some other blocks */
    json_t *given;             /* a call's input that came as a value */
    struct buf id, name;       /* of a call */
    json_t *raw;               /* to be sent back: of a thinking or an other block */
    const char *raw_text;      /* the member of raw that gets the text in the end; NULL: none */
    json_t *extra;             /* more members for the block, which then also gets a `from` */
};

struct assembly {
    struct block *blocks[DECODER_BLOCKS_MAX];
    size_t n;
    size_t bytes;
    const char *from;
    struct model_sink sink;
    uint64_t salt; /* for ids that hutch makes: differs from answer to answer */
    bool mended;   /* the current event was */
    size_t cost;   /* of keeping any values of the current event; 0: paid */
};

int assembly_add(struct assembly *a, enum block_kind kind, int64_t key, int64_t part,
                 struct block **ret);

/* The last block with this key, or NULL. */
struct block *assembly_find(const struct assembly *a, int64_t key, int64_t part);

/* Appends a piece of text and shows it. A piece that is not a string is ignored. */
int assembly_text(struct assembly *a, struct block *b, const json_t *piece);
/* Sets the whole text; the end that was missing is shown. */
int assembly_text_is(struct assembly *a, struct block *b, const json_t *text);
int assembly_input(struct assembly *a, struct block *b, const json_t *piece);
/* Sets the whole input instead of the pieces that came: a JSON text, or an object. */
int assembly_input_is(struct assembly *a, struct block *b, const json_t *input);
/* Sets a call's id and name, where they are strings and not empty. The first name is shown. */
int assembly_call(struct assembly *a, struct block *b, const json_t *id, const json_t *name);
/* Keeps a copy of a value in *slot, instead of the present one. */
int assembly_keep(struct assembly *a, json_t **slot, json_t *value);
int assembly_end(struct assembly *a, struct block *b);

/* Is the input so far a whole JSON object? */
bool assembly_input_whole(const struct block *b);

/*
 * A decoder is one attempt at one request.
 */
struct decoder;

enum decode_order {
    ORDER_AS_BEGUN,
    ORDER_CALLS_BY_KEY, /* the calls among themselves; other blocks stay in place */
    ORDER_BY_KEY,
};

/* A provider's part of the decoder. */
struct decode_protocol {
    /* One event: its type, as the event itself or the stream names it, and its data. Returns as
     * decoder_take(). */
    int (*take)(struct decoder *d, const char *type, json_t *event);
    /* A whole answer: 1, or a negative errno. */
    int (*take_whole)(struct decoder *d, json_t *answer);
    enum decode_order order; /* of the blocks in the end */
    const char *last;        /* data that ends the stream without being JSON; or NULL */
};

struct decoder {
    const struct decode_protocol *protocol;
    char *from;
    struct assembly a;
    struct model_usage usage;
    enum model_stop stop;
    bool answered; /* some of an answer has come */
    bool stopped;  /* a stop reason came: the stream may end now */
    bool complete; /* nothing more is needed */
    bool refused;
    int64_t last_key;
    char model[sizeof((struct model_reply *)0)->model];
    struct retry_hint *hint; /* of the current call */
    struct error *err;
};

int decoder_new(const struct decode_protocol *protocol, const char *from,
                const struct model_sink *sink, struct decoder **ret);
struct decoder *decoder_free(struct decoder *d);

/* Takes one event. 0: continue; 1: the answer is complete; or a negative errno with the text set,
 * and the hint whether a retry may help (after an overloaded_error, say). */
int decoder_take(struct decoder *d, const struct sse_event *e, struct retry_hint *ret_hint,
                 struct error *err);

/* A whole answer as one JSON document, without a stream (some gateways do that): the same events
 * and reply. */
int decoder_take_whole(struct decoder *d, const char *text, size_t n, struct retry_hint *ret_hint,
                       struct error *err);

/* At the end of the stream: the reply. -EPIPE (worth a retry) if the stream ended too early, unless
 * `cut`, for a cancelled request: then what has come is the reply, without calls, and without
 * thinking that had not ended. */
int decoder_finish(struct decoder *d, bool cut, struct model_reply *ret, struct error *err);

/* For the protocols. */

const char *decode_type(const json_t *value);       /* the member `type`, or an empty string */
int decode_error(struct decoder *d, json_t *error); /* the provider reports an error */
void decode_head(struct decoder *d,
                 const json_t *head); /* the first `model` and `id` of an answer */
/* A figure of usage; `before` where there is none. */
uint64_t decode_count(const json_t *usage, const char *name, uint64_t before);

extern const struct decode_protocol CHAT_DECODER; /* Chat Completions (openai_chat.c) */
