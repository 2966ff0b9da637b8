/*
 * Encoders: the body of a provider's request for a conversation. Pure and deterministic: the same
 * conversation gives the same bytes, and a longer one the same bytes in front (cache marks apart),
 * which is what prompt caching lives on.
 *
 * Members of spec->extra go into the body: lists are put behind hutch's own of that name (tools of
 * the provider's own, say), null takes a member of hutch's out, everything else replaces it. The
 * conversation, the system prompt, the model's name and streaming are hutch's alone.
 *
 * What other providers' answers left in the conversation is made fit: ids and names of calls,
 * blocks that only they can read, messages that are empty then. A call whose input was no JSON
 * shows it as
 * {"INVALID_JSON": text}.
 */
#pragma once

#include <string.h>

#include "buf.h"
#include "json.h"
#include "conversation.h"

#define ENCODER_BYTES_MAX (256u << 20)

/* Appends the body. -EINVAL: the conversation is not in order; -EMSGSIZE: it does not fit into the
 * buffer, whose maximum should be ENCODER_BYTES_MAX; -ENOMEM. */
int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err);

/* For the providers: what their encoders share. The request is written front to back: first what
 * stays the same from turn to turn, the conversation last. A write that fails leaves the buffer
 * `failed`, checked once at the end. */

/* For a message or a result that has nothing in it: providers insist on something. */
#define NOTHING_SAID "(no content)"
#define NO_OUTPUT    "(no output)"

/* * The ids of calls as a provider takes them. They come from other providers too, or are made up:
 * Anthropic wants letters, digits, `_` and `-` and no id twice in a conversation, OpenAI no more
 * than 40 or 64 bytes. An id that fits goes out as it is; another becomes a name made from it, the
 * same in every request.
 */
struct call_ids {
    size_t max;    /* bytes */
    bool plain;    /* only letters, digits, _ and - */
    bool once;     /* none twice in a conversation */
    json_t *taken; /* how often each was wanted */
    json_t *now;   /* of the last message that called: from the id to what went out */
};

/* An assistant's message begins. */
int call_ids_turn(struct call_ids *w);
/* What went out for a call's id, for its result; NULL: out of memory. */
const char *call_ids_find(const struct call_ids *w, const char *id);

struct encoding {
    const struct model_spec *spec;
    const struct model_request *q;
    struct buf *out;
    struct buf from; /* whom this goes to, as `from` of a block says it */
    struct call_ids ids;
};

void body_put(struct encoding *e, const char *json); /* as it is */
void body_value(struct encoding *e, const json_t *value);
void body_text(struct encoding *e, const char *text,
               size_t n); /* as a JSON string, whatever the bytes are */
void body_buf(struct encoding *e, const struct buf *text);
void body_call_id(struct encoding *e, const json_t *block);
void body_result_id(struct encoding *e, const json_t *block);
/* A tool's name within what providers take. */
void body_name(struct encoding *e, const json_t *block);
/* The members of an object, without its braces. */
void body_members(struct encoding *e, json_t *object);

/* Writes the beginning of the body: `head` (taken over) with spec->extra merged in. Its arrays grow
 * by those of the same name, null removes, everything else replaces; `own` (NULL at the end) are
 * members that nobody may replace. */
int body_head(struct encoding *e, json_t *head, const char *const *own);

size_t body_trimmed(const char *text, size_t n); /* its length without white space behind it */
bool body_blank(const json_t *block);            /* a text of nothing but white space */
bool body_is_from(const struct encoding *e, const json_t *block); /* it came from this model */
bool body_returns(const struct encoding *e, const json_t *block); /* `raw` may go to this model */
/* A call's input as it goes out (a new reference): what was no JSON, wrapped. */
json_t *body_input(const json_t *block);
/* The same as a member `arguments`, which is a text. */
void body_arguments(struct encoding *e, const json_t *block);

/* Of a conversation that was checked. */
static inline bool block_is(const json_t *block, const char *type)
{
    return strcmp(json_string_value(json_object_get(block, "type")), type) == 0;
}

static inline bool message_is_user(const json_t *message)
{
    return strcmp(json_string_value(json_object_get(message, "role")), "user") == 0;
}
