/*
 * Characters made comparable: what people and models confuse becomes the same.
 *
 * Blanks of every kind and invisible characters become nothing, quotes of every kind one quote,
 * dashes one hyphen, capital letters small ones, letters with accents those without, full-width
 * forms the usual ones.
 */
#pragma once

#include "bytes.h"

enum fold_kind {
    FOLD_PLAIN,
    FOLD_BLANK,     /* blank, tab */
    FOLD_NEWLINE,   /* newline, carriage return */
    FOLD_ODD_BLANK, /* U+00A0 and other blanks that are not one */
    FOLD_INVISIBLE,
    FOLD_QUOTE,
    FOLD_DASH,
    FOLD_FORM, /* accents, full-width forms, dots in one character */
};

struct folded {
    enum fold_kind kind;
    uint8_t used; /* bytes of the character */
    uint8_t n;    /* bytes that it becomes; none for what is not seen */
    uint8_t bytes[4];
};

/* The character at the start of s, which is not empty. A byte that is no UTF-8 stands for itself.
 */
struct folded fold_next(struct bytes s);

/* What ASCII folds to; 0 for what is not seen. */
extern const uint8_t FOLD_ASCII[128];

/* The same as fold_next for what lies at an offset, without the kind: for loops over much text. */
static inline struct folded fold_at(struct bytes s, size_t at)
{
    uint8_t c = s.data[at];
    if (c < 0x80)
        return (struct folded){.used = 1, .n = FOLD_ASCII[c] != 0, .bytes = {FOLD_ASCII[c]}};
    return fold_next(bytes_part(s, at, s.n));
}

/* The number of a character at the start of s; of a byte that is no UTF-8 the byte. */
uint32_t fold_code(struct bytes s);
