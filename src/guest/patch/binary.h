/*
 * Binary patches of git: bytes deflated, in base 85; either a content as it is, or the way to it
 * from another (a delta: pieces to copy and pieces to insert).
 */
#pragma once

#include "diff.h"

#define BINARY_SIZE_MAX (64u << 20)

/* Decodes and inflates. -EBADMSG if it is broken, -EFBIG if it is too large. */
int binary_decode(const struct diff_binary *b, uint8_t **ret, size_t *ret_size);

/* Follows a delta from `base`. -EBADMSG if it is broken or not made for a content of that size. */
int binary_follow(const uint8_t *base, size_t base_size, const uint8_t *delta, size_t delta_size,
                  uint8_t **ret, size_t *ret_size);
