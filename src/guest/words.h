/* The repeated string fields of a request as a NULL-terminated list, such as execve wants. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct words {
    char **list; /* list[-1] is a free slot */
    size_t count;
};

void words_free(struct words *s);
#define _cleanup_words_ _cleanup_(words_free)

/* All fields with that key, in order. -EINVAL if one holds a NUL, -ENOMEM. */
int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret);
