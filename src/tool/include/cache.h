/*
 * Results of calls that only read, kept by what they depend on: the snapshot, the tool and the
 * input. The key is the SHA-256 of the three, so that sessions in boxes that were forked from one
 * snapshot share what was found out once. Bounded in bytes; what was not used for longest goes
 * first. Any number of threads.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool_result.h"

#define CACHE_KEY_SIZE 32

struct tool_cache;

struct tool_cache *tool_cache_new(size_t max_bytes); /* NULL without memory */
struct tool_cache *tool_cache_free(struct tool_cache *c);

int tool_cache_key(const char *snapshot, const char *tool, const json_t *input,
                   uint8_t ret[CACHE_KEY_SIZE]);

/* True with a copy, marked as cached. */
bool tool_cache_find(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                     struct tool_result *ret);

/* Keeps a copy. A result that is too large is not kept, nor is one for which there is no memory. */
void tool_cache_add(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                    const struct tool_result *r);
