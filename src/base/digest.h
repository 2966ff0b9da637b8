/* FNV-1a, 64 bits: for names that are the same for the same bytes. Not safe against an attacker who
 * wants a collision. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DIGEST_BEGIN 0xcbf29ce484222325u

static inline uint64_t digest(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
