/* A queue of bytes with a fixed size. What does not fit is not taken; nothing is ever overwritten. */
#pragma once

#include <stddef.h>

#define RING_SIZE 8u

struct ring {
    size_t head; /* where the next byte is written */
    size_t tail; /* where the next byte is read */
    unsigned char bytes[RING_SIZE];
};

void ring_init(struct ring *r);
size_t ring_used(const struct ring *r);

/* How many bytes were taken, or given: as many as there was room for, or as there were. */
size_t ring_write(struct ring *r, const void *data, size_t size);
size_t ring_read(struct ring *r, void *data, size_t size);
