/* Counting what is in a text that comes in blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct count {
    unsigned long lines, words, bytes;
    bool in_word; /* the block before ended within a word */
};

void count_block(struct count *c, const char *block, size_t size);
