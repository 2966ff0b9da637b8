/*
 * Encoders: the body of a provider's request for a conversation. Pure and deterministic: the same
 * conversation gives the same bytes, and a longer one begins with the same bytes (cache marks
 * apart), as prompt caching needs it.
 *
 * Members of spec->extra go into the body: a list is appended to hutch's list of that name (the
 * provider's own tools, say), null removes a member, everything else replaces it. They cannot set
 * the conversation, the system prompt, the model's name and streaming.
 *
 * Blocks of other providers' answers are adapted: ids and names of calls are rewritten, blocks that
 * only those providers can read are left out. A call whose input was not JSON is sent with
 * {"INVALID_JSON": text}.
 */
#pragma once

#include "conversation.h"
#include "json.h"
#include "text.h"

#define ENCODER_BYTES_MAX (256u << 20)

/* Appends the body. -EINVAL: the conversation breaks the rules; -EMSGSIZE: it does not fit into the
 * buffer, whose maximum should be ENCODER_BYTES_MAX; -ENOMEM. */
int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err);

/* For the providers: what their encoders share. An encoder builds the body of the request as JSON:
 * first what stays the same from turn to turn, the conversation last. Out of memory sets `failed`,
 * which encode_request() checks at the end. */

/* For an empty message or result, which providers refuse. */
#define NOTHING_SAID "(no content)"
#define NO_OUTPUT    "(no output)"

/*
 * The ids of calls as a provider accepts them. They may come from another provider: Anthropic
 * accepts letters, digits, `_` and `-` and no id twice in a conversation, OpenAI no more than 40 or
 * 64 bytes. An id that fits is sent unchanged; another is replaced by a digest of it, the same in
 * every request.
 */
struct call_ids {
    size_t max;    /* bytes */
    bool plain;    /* only letters, digits, _ and - */
    bool once;     /* none twice in a conversation */
    json_t *taken; /* how often each was used */
    json_t *now;   /* of the last message that called: from the id to the id sent */
};

struct encoding {
    const struct model_spec *spec;
    const struct model_request *q;
    struct buf from; /* this model, as in `from` of a block */
    struct call_ids ids;
    bool failed;
};

/* Appends to an array, or sets a member; both take the value over. */
void encode_append(struct encoding *e, json_t *array, json_t *value);
void encode_set(struct encoding *e, json_t *object, const char *name, json_t *value);

json_t *encode_text(const char *text, size_t n); /* a JSON string of any bytes */
json_t *encode_name(const json_t *block);        /* a tool's name as providers accept it */
json_t *encode_input(const json_t *block);       /* of a call; one that was not JSON is wrapped */
json_t *encode_arguments(const json_t *block);   /* the same as text */
json_t *encode_image_url(const json_t *block);   /* an image as a data: URL */

/* The texts of a list of blocks as one. The caller frees the buffer. */
struct buf encode_joined(const json_t *blocks, const char *between, bool skip_blank);

/* Begin an assistant's message; the id of one of its calls; the id of a call's result. */
void encode_begin_calls(struct encoding *e);
json_t *encode_call_id(struct encoding *e, const json_t *block);
json_t *encode_result_id(const struct encoding *e, const json_t *block);

/* Merges spec->extra into the body's beginning: arrays grow by those of the same name, null
 * removes, everything else replaces; `own` (NULL at the end) are members that cannot be
 * replaced. */
void encode_extra(struct encoding *e, json_t *head, const char *const *own);

/* Of a conversation that was checked. */
bool blocks_have(const json_t *blocks, const char *type);
bool block_is_blank(const json_t *block); /* a text of nothing but white space */
bool block_is_from(const struct encoding *e, const json_t *block); /* it came from this model */
bool block_goes_back(const struct encoding *e,
                     const json_t *block);       /* `raw` may go to this model */
size_t text_trimmed(const char *text, size_t n); /* its length without white space behind it */

/* Chat Completions (openai_chat.c), for the rows of providers that speak it at a server of their
 * own. */
json_t *chat_encode(struct encoding *e);
