/*
 * head and tail count all bytes that were ever written and read. They are never taken back; only the place in the
 * array is the count modulo the size. So a full ring and an empty one differ: head - tail is 8, or 0.
 */
#include "ring.h"

void ring_init(struct ring *r)
{
    r->head = r->tail = 0;
}

size_t ring_used(const struct ring *r)
{
    return (r->head - r->tail) % RING_SIZE;
}

size_t ring_write(struct ring *r, const void *data, size_t size)
{
    const unsigned char *from = data;
    size_t room = RING_SIZE - ring_used(r);
    if (size > room)
        size = room;
    for (size_t i = 0; i < size; i++)
        r->bytes[r->head++ % RING_SIZE] = from[i];
    return size;
}

size_t ring_read(struct ring *r, void *data, size_t size)
{
    unsigned char *to = data;
    size_t used = ring_used(r);
    if (size > used)
        size = used;
    for (size_t i = 0; i < size; i++)
        to[i] = r->bytes[r->tail++ % RING_SIZE];
    return size;
}
