/*
 * A lenient JSON parser, and text that comes in pieces.
 *
 * Servers write what no strict parser takes: bytes that are not UTF-8, surrogates without their
 * other half, endless integers. None of that is worth losing an answer for. A document that does
 * not parse is mended: every broken byte (a lone surrogate is three) becomes a character of a
 * private range, U+10FE00 plus the byte, and `mended` is set. Who takes a string out of such a
 * document restores the bytes:
 *
 *   - a piece of a longer text with utf8_pieces_append(), which finds the two halves of a character
 * that a server has cut between two pieces;
 *   - anything else with lenient_json_settle().
 *
 * What stays broken becomes U+FFFD.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "json.h"
#include "text.h"

#define LENIENT_JSON_VALUES_MAX (1u << 18)

struct lenient_json {
    json_t *value;
    size_t values; /* how many there are in it */
    bool mended;
};

/* 0; -E2BIG: more than LENIENT_JSON_VALUES_MAX values; -EBADMSG: not JSON; -ENOMEM. */
int lenient_json_parse(const char *text, size_t n, struct lenient_json *ret);

/* A new reference to the value, without broken characters; NULL: no memory. */
json_t *lenient_json_settle(json_t *value, bool mended);

/* Between two pieces of a text: the beginning of a character. */
struct utf8_pieces {
    uint8_t held[8];
    size_t n;
};

/* Appends a piece's whole characters, NUL as U+FFFD. 0 or a negative errno of the buffer. */
int utf8_pieces_append(struct utf8_pieces *b, const char *text, size_t n, bool mended,
                       struct buf *out);

/* The next byte of a text. */
void utf8_pieces_byte(struct utf8_pieces *b, uint8_t byte, struct buf *out);

/* The text has ended: what is still held is broken. */
int utf8_pieces_end(struct utf8_pieces *b, struct buf *out);
