#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outcomes_private.h"
#include "banned.h"

#define TABLE_FIRST 64u

void outcomes_init(struct outcomes *o, const char *token)
{
    *o = (struct outcomes){.line = BUF_INIT(OUTCOMES_LINE_MAX)};
    if (token)
        memcpy(o->token, token, OUTCOMES_TOKEN);
}

void outcomes_free(struct outcomes *o)
{
    for (size_t i = 0; i < o->count; i++) {
        free(o->items[i].id);
        free(o->items[i].message);
    }
    free(o->items);
    free(o->table);
    free(o->tampered);
    free(o->trouble);
    buf_free(&o->line);
    *o = (struct outcomes){.line = BUF_INIT(OUTCOMES_LINE_MAX)};
}

static uint64_t hash(const char *id)
{
    uint64_t h = 14695981039346656037u;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 1099511628211u;
    return h ^ h >> 29;
}

/* The place in the table of this id: where it is, or where it would be. */
static size_t find_place(const struct outcomes *o, const char *id)
{
    size_t at = hash(id) & (o->n_table - 1);
    while (o->table[at] && strcmp(o->items[o->table[at] - 1].id, id) != 0)
        at = (at + 1) & (o->n_table - 1);
    return at;
}

const struct outcome *outcomes_find(const struct outcomes *o, const char *id)
{
    size_t at = o->n_table ? find_place(o, id) : 0;
    return o->n_table && o->table[at] ? &o->items[o->table[at] - 1] : NULL;
}

static int grow_table(struct outcomes *o)
{
    size_t n = o->n_table ? 2 * o->n_table : TABLE_FIRST;
    uint32_t *table = calloc(n, sizeof *table);
    if (!table)
        return -ENOMEM;
    free(o->table);
    o->table = table;
    o->n_table = n;
    for (size_t i = 0; i < o->count; i++)
        o->table[find_place(o, o->items[i].id)] = (uint32_t)i + 1;
    return 0;
}

static int make_room(struct outcomes *o)
{
    if (o->count >= 2 * TASK_EXPECTED_MAX)
        return -E2BIG;
    if (2 * (o->count + 1) > o->n_table && grow_table(o) < 0)
        return -ENOMEM;
    if (o->count < o->room)
        return 0;
    size_t room = o->room ? 2 * o->room : 32;
    struct outcome *items = realloc(o->items, room * sizeof *items);
    if (!items)
        return -ENOMEM;
    o->items = items;
    o->room = room;
    return 0;
}

/* The test of this id, new if it was not heard of yet. */
static int get(struct outcomes *o, const char *id, struct outcome **ret, bool *ret_new)
{
    struct outcome *t = (struct outcome *)outcomes_find(o, id);
    *ret_new = !t;
    if (!t) {
        int r = make_room(o);
        char *copy = r == 0 ? strdup(id) : NULL;
        if (!copy)
            return r < 0 ? r : -ENOMEM;
        o->table[find_place(o, id)] = (uint32_t)o->count + 1;
        t = &o->items[o->count++];
        *t = (struct outcome){.id = copy, .outcome = GRADE_MISSING};
    }
    *ret = t;
    return 0;
}

int outcomes_begin(struct outcomes *o, const char *id)
{
    struct outcome *t;
    bool fresh;
    int r = get(o, id, &t, &fresh);
    if (r == 0 && !fresh)
        t->twice = true;
    return r;
}

int outcomes_end(struct outcomes *o, const char *id, enum grade_outcome outcome,
                 const char *message)
{
    struct outcome *t;
    bool fresh;
    int r = get(o, id, &t, &fresh);
    if (r < 0)
        return r;
    if (fresh || t->ended)
        t->twice = true;
    if (!t->ended && message && *message)
        t->message = strdup(message);
    if (!t->ended)
        t->outcome = outcome;
    if (outcome == GRADE_PASSED && o->tampered)
        t->outcome = GRADE_ERROR;
    t->ended = true;
    return 0;
}

int outcomes_note(struct outcomes *o, const char *id, enum grade_outcome outcome,
                  const char *message)
{
    int r = outcomes_begin(o, id);
    return r < 0 ? r : outcomes_end(o, id, outcome, message);
}

void outcomes_doubt(struct outcomes *o, const char *why)
{
    for (size_t i = 0; i < o->count; i++) {
        struct outcome *t = &o->items[i];
        if (t->outcome != GRADE_PASSED)
            continue;
        free(t->message);
        t->message = strdup(why);
        t->outcome = GRADE_ERROR;
    }
}

const struct outcome *outcomes_current(const struct outcomes *o)
{
    for (size_t i = o->count; i-- > 0;)
        if (!o->items[i].ended)
            return &o->items[i];
    return NULL;
}

enum grade_outcome outcomes_judge(const struct outcomes *o, const struct outcome *t,
                                  const char **ret_message)
{
    *ret_message = t->message;
    if (o->forged) {
        *ret_message = "outcomes were forged";
        return GRADE_ERROR;
    }
    if (t->twice) {
        *ret_message = "its outcome was told twice, or before it began";
        return GRADE_FAILED;
    }
    if (!t->ended) {
        *ret_message = "it began and did not end";
        return GRADE_FAILED;
    }
    if (t->outcome == GRADE_ERROR && o->tampered && !t->message)
        *ret_message = o->tampered;
    return t->outcome;
}
