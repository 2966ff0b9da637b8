#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "outcomes.h"
#include "text.h"
#include "banned.h"

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
    outcomes_init(o, NULL);
}

/* The slot of this id in the hash table: where it is, or where it would be. */
static size_t outcomes_slot(const struct outcomes *o, const char *id)
{
    uint64_t hash = digest(DIGEST_BEGIN, id, strlen(id));
    size_t at = (hash ^ hash >> 29) & (o->n_table - 1);
    while (o->table[at] && strcmp(o->items[o->table[at] - 1].id, id) != 0)
        at = (at + 1) & (o->n_table - 1);
    return at;
}

const struct outcome *outcomes_find(const struct outcomes *o, const char *id)
{
    size_t at = o->n_table ? outcomes_slot(o, id) : 0;
    return o->n_table && o->table[at] ? &o->items[o->table[at] - 1] : NULL;
}

static int outcomes_make_room(struct outcomes *o)
{
    if (o->count >= OUTCOMES_MAX)
        return -E2BIG;
    if (2 * (o->count + 1) > o->n_table) {
        size_t n = o->n_table ? 2 * o->n_table : 64;
        uint32_t *table = calloc(n, sizeof *table);
        if (!table)
            return -ENOMEM;
        free(o->table);
        o->table = table;
        o->n_table = n;
        for (size_t i = 0; i < o->count; i++)
            o->table[outcomes_slot(o, o->items[i].id)] = (uint32_t)i + 1;
    }
    if (o->count == o->room) {
        size_t room = o->room ? 2 * o->room : 32;
        struct outcome *items = realloc(o->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        o->items = items;
        o->room = room;
    }
    return 0;
}

/* The test of this id, added if it was not reported before. */
static int outcomes_get(struct outcomes *o, const char *id, struct outcome **ret, bool *ret_new)
{
    struct outcome *t = (struct outcome *)outcomes_find(o, id);
    *ret_new = !t;
    if (!t) {
        int r = outcomes_make_room(o);
        char *copy = r == 0 ? strdup(id) : NULL;
        if (!copy)
            return r < 0 ? r : -ENOMEM;
        o->table[outcomes_slot(o, id)] = (uint32_t)o->count + 1;
        t = &o->items[o->count++];
        *t = (struct outcome){.id = copy, .outcome = GRADE_MISSING};
    }
    *ret = t;
    return 0;
}

static int outcome_begin(struct outcomes *o, const char *id)
{
    struct outcome *t;
    bool is_new;
    int r = outcomes_get(o, id, &t, &is_new);
    if (r == 0 && !is_new)
        t->twice = true;
    return r;
}

static int outcome_end(struct outcomes *o, const char *id, enum grade_outcome outcome,
                       const char *message)
{
    struct outcome *t;
    bool is_new;
    int r = outcomes_get(o, id, &t, &is_new);
    if (r < 0)
        return r;
    if (is_new || t->ended)
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
    int r = outcome_begin(o, id);
    return r < 0 ? r : outcome_end(o, id, outcome, message);
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
        *ret_message = "its outcome was reported twice, or before it began";
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

/* Undoes the escapes of a text; false if it is malformed. `out` has room for n + 1 bytes. */
static bool line_unescape(const char *text, size_t n, size_t max, char *out)
{
    size_t done = 0;
    if (!utf8_valid((const uint8_t *)text, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if ((unsigned char)c < 0x20)
            return false;
        if (c == '\\') {
            c = ++i < n ? text[i] : 0;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == '\\' ? '\\' : 0;
            if (!c)
                return false;
        }
        out[done++] = c;
    }
    out[done] = 0;
    return done <= max;
}

/* What follows "TOKEN SEQUENCE KIND". False if the runner cannot have written it. */
static bool line_take_record(struct outcomes *o, char kind, const char *rest, size_t n)
{
    static const enum grade_outcome OUTCOMES[] = {
        ['P'] = GRADE_PASSED, ['F'] = GRADE_FAILED, ['E'] = GRADE_ERROR, ['S'] = GRADE_SKIPPED};
    char first[OUTCOMES_LINE_MAX + 1], second[OUTCOMES_LINE_MAX + 1];
    if (kind == 'Z' && n == 0)
        return o->done = true;
    if (n < 2 || rest[0] != '\t')
        return false;
    const char *tab = memchr(rest + 1, '\t', n - 1);
    size_t n_first = tab ? (size_t)(tab - rest - 1) : n - 1;
    if (!line_unescape(rest + 1, n_first, OUTCOMES_ID_MAX, first) || !first[0] ||
        (tab && !line_unescape(tab + 1, n - n_first - 2, OUTCOMES_MESSAGE_MAX, second)))
        return false;
    switch (kind) {
    case 'T':
    case 'U': {
        char **where = kind == 'T' ? &o->tampered : &o->trouble;
        if (!tab && !*where)
            *where = strdup(first);
        return !tab;
    }
    case 'B':
        return !tab && outcome_begin(o, first) == 0;
    case 'P':
    case 'F':
    case 'E':
    case 'S':
        return outcome_end(o, first, OUTCOMES[(size_t)kind], tab ? second : NULL) == 0;
    default:
        return false;
    }
}

static void line_take(struct outcomes *o, const char *line, size_t n)
{
    size_t at = OUTCOMES_TOKEN - 1, digits = 0;
    uint64_t number = 0;
    bool ours = n >= at + 4 && memcmp(line, o->token, at) == 0 && line[at++] == ' ';
    for (; ours && at < n && line[at] >= '0' && line[at] <= '9' && digits < 9; at++, digits++)
        number = 10 * number + (uint64_t)(line[at] - '0');
    if (!ours || digits == 0 || at + 2 > n || line[at] != ' ')
        o->strange++;
    else if (number != o->next++ || o->done ||
             !line_take_record(o, line[at + 1], line + at + 2, n - at - 2))
        o->forged = true;
}

bool outcomes_feed(struct outcomes *o, const void *bytes, size_t n)
{
    const char *at = bytes;
    o->bytes += n;
    if (o->bytes > OUTCOMES_BYTES_MAX)
        return false;
    while (n > 0) {
        const char *end = memchr(at, '\n', n);
        size_t piece = end ? (size_t)(end - at) : n;
        if (piece > o->line.max - o->line.len || buf_append(&o->line, at, piece) < 0)
            o->overlong = true;
        if (end && o->overlong)
            o->strange++;
        else if (end)
            line_take(o, (const char *)o->line.data, o->line.len);
        if (end) {
            o->line.len = 0;
            o->line.failed = o->overlong = false;
        }
        piece += end != NULL;
        at += piece;
        n -= piece;
    }
    return true;
}
