/*
 * The lines of two texts, numbered by what they hold: two lines get the same class exactly when
 * their bytes are the same. Lines are compared by a hash under a random key, so that no text can
 * make it slow.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LINESET_LINES_MAX (2u << 20) /* of one text */

struct lineset {
    const uint8_t *data;
    uint32_t
        *at; /* count + 1 offsets: line i is data[at[i]] to data[at[i + 1]], with its newline */
    uint32_t *class;
    uint32_t count;
};

/* -E2BIG: too many lines. The text must outlive the set. */
int lineset_split(const uint8_t *data, uint32_t size, struct lineset *ret);

/* Fills in the classes of both; *ret_classes is how many there are. */
int lineset_classify(struct lineset *a, struct lineset *b, uint32_t *ret_classes);

void lineset_free(struct lineset *s);
