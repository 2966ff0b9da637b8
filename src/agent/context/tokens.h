/*
 * How many tokens a text is, without the provider's tokenizer: an estimate from what kinds of
 * characters it is made of, and a ratio that learns from what the provider reports.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENS_IMAGE   1600 /* an image, whatever its size */
#define TOKENS_MESSAGE 6    /* what a message takes besides its content */

uint64_t tokens_of_text(const char *text, size_t n);

/* Of a JSON value as a provider gets it; a block is counted by its kind (an image's data is not
 * text). */
uint64_t tokens_of_json(const json_t *value);
uint64_t tokens_of_block(const json_t *block);
uint64_t tokens_of_message(const json_t *message);

/* Reported over estimated, smoothed, within bounds. One per model. */
struct tokens_ratio {
    double value;
    unsigned seen;
};
#define TOKENS_RATIO_INIT ((struct tokens_ratio){.value = 1})
#define TOKENS_RATIO_MIN  0.4
#define TOKENS_RATIO_MAX  4.0

void tokens_learn(struct tokens_ratio *r, uint64_t estimated, uint64_t reported);
uint64_t tokens_corrected(const struct tokens_ratio *r, uint64_t estimated);
