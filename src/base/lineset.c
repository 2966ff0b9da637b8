#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cleanup.h"
#include "lineset.h"
#include "banned.h"

/* A table of the classes found so far, by open addressing: it is at most two thirds full. Lines of
 * both texts are numbered through, from 1 on, since a million of them should not take much memory.
 */
struct table {
    struct {
        uint32_t hash;
        uint32_t line; /* the first of its class; 0: free */
    } * slots;
    size_t mask;
    uint64_t key[2];
    struct lineset *a, *b;
    uint32_t classes;
};

static uint32_t count_lines(const uint8_t *data, uint32_t size)
{
    uint32_t count = 0;
    for (const uint8_t *at = data, *end = data + size; at < end; count++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return count;
}

int lineset_split(const uint8_t *data, uint32_t size, struct lineset *ret)
{
    uint32_t count = count_lines(data, size);
    if (count > LINESET_LINES_MAX)
        return -E2BIG;
    struct lineset s = {.data = data, .count = count};
    s.at = malloc(sizeof *s.at * ((size_t)count + 1));
    s.class = calloc((size_t)count + 1, sizeof *s.class);
    if (!s.at || !s.class) {
        lineset_free(&s);
        return -ENOMEM;
    }
    s.at[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *newline = memchr(data + s.at[i], '\n', size - s.at[i]);
        s.at[i + 1] = newline ? (uint32_t)(newline + 1 - data) : size;
    }
    *ret = s;
    return 0;
}

void lineset_free(struct lineset *s)
{
    free(s->at);
    free(s->class);
    *s = (struct lineset){0};
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_line(const uint64_t key[2], const uint8_t *data, uint32_t size)
{
    uint64_t h = key[0] ^ size;
    while (size > 0) {
        uint64_t word = 0;
        uint32_t take = size < sizeof word ? size : (uint32_t)sizeof word;
        memcpy(&word, data, take);
        h = mix(h ^ word, key[1]) + key[0];
        data += take;
        size -= take;
    }
    return mix(h, key[1] ^ 0x9e3779b97f4a7c15u);
}

static struct lineset *set_of(const struct table *t, uint32_t line, uint32_t *ret_index)
{
    bool in_a = line <= t->a->count;
    *ret_index = in_a ? line - 1 : line - 1 - t->a->count;
    return in_a ? t->a : t->b;
}

static bool is_same(const struct table *t, uint32_t line, const uint8_t *data, uint32_t size)
{
    uint32_t i;
    const struct lineset *s = set_of(t, line, &i);
    return s->at[i + 1] - s->at[i] == size && memcmp(s->data + s->at[i], data, size) == 0;
}

static uint32_t class_of(struct table *t, uint32_t line)
{
    uint32_t index, first;
    const struct lineset *s = set_of(t, line, &index);
    const uint8_t *data = s->data + s->at[index];
    uint32_t size = s->at[index + 1] - s->at[index];
    uint64_t hash = hash_line(t->key, data, size);
    size_t i = hash & t->mask;
    for (; t->slots[i].line; i = (i + 1) & t->mask)
        if (t->slots[i].hash == hash >> 32 && is_same(t, t->slots[i].line, data, size))
            return set_of(t, t->slots[i].line, &first)->class[first];
    t->slots[i].hash = (uint32_t)(hash >> 32);
    t->slots[i].line = line;
    return t->classes++;
}

int lineset_classify(struct lineset *a, struct lineset *b, uint32_t *ret_classes)
{
    struct table t = {.mask = 15, .a = a, .b = b};
    size_t lines = (size_t)a->count + b->count;
    while (t.mask < lines + lines / 2)
        t.mask = t.mask * 2 + 1;
    if (getrandom(t.key, sizeof t.key, 0) != (ssize_t)sizeof t.key)
        return -EIO;
    t.key[1] |= 1;
    t.slots = calloc(t.mask + 1, sizeof *t.slots);
    if (!t.slots)
        return -ENOMEM;
    for (uint32_t line = 1; line <= lines; line++) {
        uint32_t index;
        struct lineset *s = set_of(&t, line, &index);
        s->class[index] = class_of(&t, line);
    }
    free(t.slots);
    *ret_classes = t.classes;
    return 0;
}
