/*
 * The ids of calls as a provider takes them. They come from other providers too, or are made up:
 * Anthropic wants letters, digits, `_` and `-` and no id twice in a conversation, OpenAI no more
 * than 40 or 64 bytes. An id that fits goes out as it is; another becomes a name made from it, the
 * same in every request.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct wire_ids {
    size_t max;    /* bytes */
    bool plain;    /* only letters, digits, _ and - */
    bool once;     /* none twice in a conversation */
    json_t *taken; /* how often each was wanted */
    json_t *now;   /* of the last message that called: from the id to what went out */
};

void wire_ids_free(struct wire_ids *w);

/* An assistant's message begins. */
int wire_ids_turn(struct wire_ids *w);
/* The id of a call, to be written; and the same for its result. Borrowed; NULL: no memory. */
const char *wire_id_call(struct wire_ids *w, const char *id);
const char *wire_id_result(const struct wire_ids *w, const char *id);
