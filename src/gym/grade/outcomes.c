#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grade_run.h"
#include "text.h"
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

/* The lines of the runner. What is not exactly of their form is nobody's line: counted, and nothing
 * else. */

#define SEQUENCE_DIGITS 9u

/* A text with its escapes undone; false if it is none. `out` has room for n + 1 bytes. */
static bool take_text(const char *text, size_t n, size_t max, char *out)
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

/* "TOKEN NUMBER K": true with how many bytes that took. */
static bool take_head(const struct outcomes *o, const char *line, size_t n, uint64_t *ret_number,
                      char *ret_kind, size_t *ret_taken)
{
    size_t at = OUTCOMES_TOKEN - 1, digits = 0;
    uint64_t number = 0;
    if (n < at + 4 || memcmp(line, o->token, at) != 0 || line[at++] != ' ')
        return false;
    for (; at < n && line[at] >= '0' && line[at] <= '9' && digits < SEQUENCE_DIGITS; at++, digits++)
        number = 10 * number + (uint64_t)(line[at] - '0');
    if (digits == 0 || at + 2 > n || line[at] != ' ')
        return false;
    *ret_number = number;
    *ret_kind = line[at + 1];
    *ret_taken = at + 2;
    return true;
}

static bool keep_text(char **where, const char *text)
{
    if (!*where)
        *where = strdup(text);
    return true;
}

static bool take_test(struct outcomes *o, char kind, const char *id, const char *message)
{
    static const char KINDS[] = "PFES";
    static const enum grade_outcome OUTCOMES[] = {GRADE_PASSED, GRADE_FAILED, GRADE_ERROR,
                                                  GRADE_SKIPPED};
    const char *which = strchr(KINDS, kind);
    if (kind == 'B' && !message)
        return outcomes_begin(o, id) == 0;
    return kind != 'B' && outcomes_end(o, id, OUTCOMES[which - KINDS], message) == 0;
}

/* What follows the head: texts behind tabs. False if it is of no form that the runner writes. */
static bool take_rest(struct outcomes *o, char kind, const char *rest, size_t n)
{
    char first[OUTCOMES_LINE_MAX + 1], second[OUTCOMES_LINE_MAX + 1];
    if (kind == 'Z' && n == 0)
        return o->done = true;
    if (n < 2 || rest[0] != '\t')
        return false;
    const char *tab = memchr(rest + 1, '\t', n - 1);
    size_t n_first = tab ? (size_t)(tab - rest - 1) : n - 1;
    if (!take_text(rest + 1, n_first, OUTCOMES_ID_MAX, first) || !first[0] ||
        (tab && !take_text(tab + 1, n - n_first - 2, OUTCOMES_MESSAGE_MAX, second)))
        return false;
    if (kind == 'T' && !tab)
        return keep_text(&o->tampered, first);
    if (kind == 'U' && !tab)
        return keep_text(&o->trouble, first);
    return strchr("BPFES", kind) && kind && take_test(o, kind, first, tab ? second : NULL);
}

static void take_line(struct outcomes *o, const char *line, size_t n)
{
    uint64_t number;
    char kind;
    size_t taken;
    if (!take_head(o, line, n, &number, &kind, &taken)) {
        o->strange++;
        return;
    }
    if (number != o->next++ || o->done || !take_rest(o, kind, line + taken, n - taken))
        o->forged = true;
}

/* The bytes up to the end of a line, or all. */
static void add(struct outcomes *o, const char *bytes, size_t n)
{
    if (!o->overlong && (n > o->line.max - o->line.len || buf_append(&o->line, bytes, n) < 0))
        o->overlong = true;
}

static void end_line(struct outcomes *o)
{
    if (o->overlong)
        o->strange++;
    else
        take_line(o, (const char *)o->line.data, o->line.len);
    o->line.len = 0;
    o->line.failed = false;
    o->overlong = false;
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
        add(o, at, piece);
        if (end)
            end_line(o);
        piece += end != NULL;
        at += piece;
        n -= piece;
    }
    return true;
}
