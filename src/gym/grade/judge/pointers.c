#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "banned.h"

void *list_room(void *items, size_t size, size_t count, size_t *room, size_t first)
{
    if (count < *room)
        return items;
    size_t more = *room ? 2 * *room : first;
    void *moved = realloc(items, more * size);
    if (moved)
        *room = more;
    return moved;
}

static size_t place(const struct pointers *p, const void *one)
{
    size_t at = ((uintptr_t)one >> 4) * 0x9E3779B97F4A7C15u >> 20 & (p->room - 1);
    while (p->items[at] && p->items[at] != one)
        at = (at + 1) & (p->room - 1);
    return at;
}

static bool grow(struct pointers *p)
{
    struct pointers more = {.room = p->room ? 2 * p->room : 256};
    more.items = calloc(more.room, sizeof *more.items);
    if (!more.items)
        return false;
    for (size_t i = 0; i < p->room; i++)
        if (p->items[i])
            more.items[place(&more, p->items[i])] = p->items[i];
    more.count = p->count;
    free(p->items);
    *p = more;
    return true;
}

bool pointers_add(struct pointers *p, const void *one)
{
    if (2 * (p->count + 1) > p->room && !grow(p))
        return false;
    size_t at = place(p, one);
    p->count += !p->items[at];
    p->items[at] = one;
    return true;
}

bool pointers_have(const struct pointers *p, const void *one)
{
    return p->room && p->items[place(p, one)];
}
