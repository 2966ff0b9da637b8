/* Bytes as text: base64, git's base 85, names quoted as git does, and a digest for names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* Base64 (RFC 4648, with padding), for bytes in JSON. Returns 0, or -ENOBUFS when it does not
 * fit. */
int base64_append(struct buf *b, const void *data, size_t n);

/* Appends the bytes that n characters encode, ignoring spaces and line ends between them. -EINVAL
 * if they are not base64, -ENOBUFS when it does not fit; b may then hold a part. */
int base64_decode(struct buf *b, const char *text, size_t n);

/* The digits of base 85 as git writes it: four bytes are five of them, the highest first. */
extern const char BASE85_DIGITS[86];
#define BASE85_LINE 52u /* bytes that one line of a binary patch holds at most */

/* Names as git writes them in its diffs: unchanged, or if they contain control characters, quotes,
 * backslashes or bytes outside of ASCII, in double quotes with C's escapes. Such a name is also
 * harmless on a terminal. */
bool cquote_is_needed(const char *name);

/* Appends prefix and name, quoted together if the name needs it. Failure sticks to b->failed. */
void cquote_append(struct buf *b, const char *prefix, const char *name);

/* FNV-1a, 64 bits: for names that are the same for the same bytes. Not safe against an attacker who
 * wants a collision. */
#define DIGEST_BEGIN 0xcbf29ce484222325u

static inline uint64_t digest(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
