/*
 * What a call gives: data for programs, text for a model, perhaps a picture.
 *
 * A failed result says in its text what went wrong and what to do; its data, if any, says more of
 * the same.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "text.h"

#define RESULT_TEXT_MAX  (1u << 20)
#define RESULT_IMAGE_MAX (16u << 20)

struct tool_result {
    bool failed;
    bool cached;      /* came from the cache */
    bool lingers;     /* something that the call started runs on in the box */
    json_t *data;     /* an object, or NULL */
    struct buf text;  /* valid UTF-8 */
    const char *mime; /* of the image; NULL: there is none */
    struct buf image; /* its bytes */
};

#define TOOL_RESULT_INIT                                                                           \
    ((struct tool_result){.text = BUF_INIT(RESULT_TEXT_MAX), .image = BUF_INIT(RESULT_IMAGE_MAX)})

void tool_result_free(struct tool_result *r);
#define _cleanup_result_ _cleanup_(tool_result_free)

/* An independent copy. 0 or -ENOMEM. */
int tool_result_copy(const struct tool_result *from, struct tool_result *ret);

/* The whole result as JSON: {"data", "text", "failed", "image"}; NULL without memory. */
json_t *tool_result_json(const struct tool_result *r);

/* Appends bytes of any kind as valid UTF-8: what is not becomes U+FFFD. NUL bytes become U+2400. */
int text_append(struct buf *b, const void *data, size_t n);

/* The same as a JSON string. */
json_t *text_json(const void *data, size_t n);

/* Sets a member of an object and drops the reference; without memory the object gets no such member
 * and the call fails later, when it is printed: -ENOMEM. */
int data_set(json_t *object, const char *name, json_t *value);
