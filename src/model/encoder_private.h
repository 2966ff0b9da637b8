/* What the three protocols' encoders share. The request is written front to back: first what stays
 * the same from turn to turn, the conversation last. A write that fails leaves the buffer `failed`,
 * looked at once at the end. */
#pragma once

#include <string.h>

#include "encoder.h"
#include "loose.h"
#include "wire_ids.h"

/* For a message or a result that has nothing in it: providers insist on something. */
#define NOTHING_SAID "(no content)"
#define NO_OUTPUT    "(no output)"

struct encoding {
    const struct model_spec *spec;
    const struct model_request *q;
    struct buf *out;
    struct buf from; /* whom this goes to, as `from` of a block says it */
    struct wire_ids ids;
};

int encode_anthropic(struct encoding *e);
int encode_chat(struct encoding *e);
int encode_responses(struct encoding *e);

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
