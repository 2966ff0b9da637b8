/*
 * An answer being put together: blocks that grow by pieces, in the order in which they began (or by
 * their keys), and in the end the reply's content. The common half of the decoders.
 *
 * What is kept is bounded: DECODER_BLOCKS_MAX blocks, DECODER_BYTES_MAX for all pieces and values
 * together (a value counts as the bytes of its event and 64 more for each value in it). Every
 * function returns 0 or a negative errno: -E2BIG or -EFBIG over a limit, -ENOMEM.
 */
#pragma once

#include "lenient_json.h"
#include "conversation.h"

#define DECODER_BYTES_MAX  (64u << 20)
#define DECODER_BLOCKS_MAX 1024

enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL, BLOCK_OTHER };

struct block {
    enum block_kind kind;
    int64_t key, part;         /* what a protocol knows it by */
    bool whole;                /* its end has come */
    struct buf text;           /* of a text or a thinking block */
    struct utf8_pieces broken; /* between two pieces of the text, or of the input */
    struct buf input;          /* a call's, as JSON text; also that of some other blocks */
    json_t *given;             /* a call's input that came as a value */
    struct buf id, name;       /* of a call */
    json_t *raw;               /* what goes back: of a block that thinks, or of an other one */
    const char *raw_text;      /* the member of raw that the text is in the end; NULL: none */
    json_t *extra; /* members that go into the block beside the usual ones; then also `from` */
};

struct assembly {
    struct block *blocks[DECODER_BLOCKS_MAX];
    size_t n;
    size_t bytes;
    const char *from;
    struct model_sink sink;
    uint64_t salt; /* for ids that are made up: something that differs from answer to answer */
    bool mended;   /* the event under way was (lenient_json.h) */
    size_t cost;   /* of keeping values out of that event, all of them together; 0: paid */
};

void assembly_free(struct assembly *a);

int assembly_add(struct assembly *a, enum block_kind kind, int64_t key, int64_t part,
                 struct block **ret);

/* The last one with this key, or NULL. */
struct block *assembly_find(const struct assembly *a, int64_t key, int64_t part);

/* A piece of text, shown as it comes; anything but a string is none. */
int assembly_text(struct assembly *a, struct block *b, const json_t *piece);
/* The text as it should be: what is missing at the end is shown. */
int assembly_text_is(struct assembly *a, struct block *b, const json_t *text);
int assembly_input(struct assembly *a, struct block *b, const json_t *piece);
/* The input as it should be, over the pieces that came: a JSON text, or an object. */
int assembly_input_is(struct assembly *a, struct block *b, const json_t *input);
/* A call's id and name, where they are strings and not empty. The first name is shown. */
int assembly_call(struct assembly *a, struct block *b, const json_t *id, const json_t *name);
/* Keeps a copy of a value in *slot, instead of what was there. */
int assembly_keep(struct assembly *a, json_t **slot, json_t *value);
int assembly_end(struct assembly *a, struct block *b);

/* Is what came of the input a whole JSON object? */
bool assembly_input_whole(const struct block *b);

bool assembly_has_calls(const struct assembly *a);
/* By key and part: all blocks, or the calls among themselves. */
void assembly_sort(struct assembly *a, bool calls_only);
/* The content. `cut`: only what is whole without the rest: texts, and thinking that had ended. */
int assembly_content(struct assembly *a, bool cut, json_t **ret);
