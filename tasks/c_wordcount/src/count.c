#include "count.h"

#include <ctype.h>

void count_block(struct count *c, const char *block, size_t size)
{
    c->in_word = false;
    for (size_t i = 0; i < size; i++) {
        bool space = isspace((unsigned char)block[i]);
        if (block[i] == '\n')
            c->lines++;
        if (!space && !c->in_word)
            c->words++;
        c->in_word = !space;
    }
    c->bytes += size;
}
