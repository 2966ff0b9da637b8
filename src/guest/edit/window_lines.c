#include <errno.h>
#include <stdlib.h>

#include "fold.h"
#include "window_lines.h"
#include "banned.h"

#define PAIRS_BYTES 120u /* of a folded line from which pairs are taken: more would fill the set   \
                          */
#define ANCHOR_LEAST 4u  /* a shorter line is like too many others */
#define CONTAINED    85u /* percent at most for a line that holds another one */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static void add_pair(struct line_form *f, uint8_t a, uint8_t b)
{
    uint64_t bit = mix((uint64_t)a << 8 | b) % (PAIRS_WORDS * 64);
    f->set[bit / 64] |= (uint64_t)1 << bit % 64;
}

static struct line_form form_of(struct bytes line, bool with_pairs)
{
    struct line_form f = {.hash = 0xcbf29ce484222325u};
    uint8_t before = 0;
    for (size_t at = 0; at < line.n;) {
        struct folded c = fold_at(line, at);
        for (uint8_t i = 0; i < c.n; i++) {
            f.hash = (f.hash ^ c.bytes[i]) * 0x100000001b3u;
            if (with_pairs && f.folded > 0 && f.folded < PAIRS_BYTES)
                add_pair(&f, before, c.bytes[i]);
            before = c.bytes[i];
            f.folded++;
        }
        at += c.used;
    }
    for (size_t i = 0; with_pairs && i < PAIRS_WORDS; i++)
        f.pairs += (uint32_t)__builtin_popcountll(f.set[i]);
    return f;
}

unsigned line_form_likeness(const struct line_form *a, const struct line_form *b,
                            unsigned more_than)
{
    unsigned common = 0, fewer = a->pairs < b->pairs ? a->pairs : b->pairs;
    if (fewer == 0 || (fewer == b->pairs && 200 * fewer / (a->pairs + b->pairs) <= more_than))
        return 0;
    for (size_t i = 0; i < PAIRS_WORDS; i++)
        common += (unsigned)__builtin_popcountll(a->set[i] & b->set[i]);
    unsigned alike = 200 * common / (a->pairs + b->pairs);
    unsigned contained = fewer == a->pairs ? CONTAINED * common / fewer : 0;
    return alike > contained ? alike : contained;
}

void each_line(struct bytes text, bool with_pairs,
               void (*each)(void *data, uint64_t number, const struct line_form *form), void *data)
{
    uint64_t number = 0;
    for (size_t at = 0; at < text.n; number++) {
        size_t end = bytes_line_end(text, at);
        struct line_form f = form_of(bytes_part(text, at, end), with_pairs);
        if (f.folded)
            each(data, number, &f);
        at = end;
    }
}

static void add_line(void *data, uint64_t number, const struct line_form *form)
{
    struct old_lines *o = data;
    if (number >= o->count)
        return;
    uint32_t slot = (uint32_t)(mix(form->hash) & (o->slots - 1));
    while (o->table[slot] && o->lines[o->table[slot] - 1].hash != form->hash)
        slot = (slot + 1) & (o->slots - 1);
    o->lines[number] = (struct old_line){form->hash, form->folded, o->table[slot], 0};
    o->table[slot] = (uint32_t)number + 1;
}

int old_lines_make(struct bytes old, struct old_lines *ret)
{
    struct old_lines o = {.text = old, .slots = 64};
    o.total = bytes_count(old, '\n', old.n) + (old.n && old.data[old.n - 1] != '\n');
    o.count = o.total < OLD_LINES_MAX ? (size_t)o.total : OLD_LINES_MAX;
    while (o.slots < 2 * o.count)
        o.slots *= 2;
    o.lines = calloc(o.count + 1, sizeof *o.lines);
    o.table = calloc(o.slots, sizeof *o.table);
    if (!o.lines || !o.table) {
        old_lines_free(&o);
        return -ENOMEM;
    }
    each_line(old, false, add_line, &o);
    *ret = o;
    return 0;
}

void old_lines_free(struct old_lines *o)
{
    free(o->lines);
    free(o->table);
}

uint32_t old_lines_find(const struct old_lines *o, uint64_t hash)
{
    uint32_t slot = (uint32_t)(mix(hash) & (o->slots - 1));
    while (o->table[slot] && o->lines[o->table[slot] - 1].hash != hash)
        slot = (slot + 1) & (o->slots - 1);
    return o->table[slot];
}

/* The longest line that is not yet among the anchors. */
static size_t next_anchor(const struct old_lines *o, const uint32_t *lines, size_t n)
{
    size_t best = o->count;
    for (size_t i = 0; i < o->count; i++) {
        bool taken = o->lines[i].folded < ANCHOR_LEAST;
        for (size_t k = 0; k < n; k++)
            taken |= lines[k] == i;
        if (!taken && (best == o->count || o->lines[i].folded > o->lines[best].folded))
            best = i;
    }
    return best;
}

size_t old_lines_anchors(const struct old_lines *o, struct line_form *ret, uint32_t *ret_lines)
{
    size_t n = 0;
    for (; n < ANCHORS_MAX; n++) {
        size_t best = next_anchor(o, ret_lines, n), at = 0;
        if (best == o->count)
            break;
        for (size_t i = 0; i < best; i++)
            at = bytes_line_end(o->text, at);
        ret[n] = form_of(bytes_part(o->text, at, bytes_line_end(o->text, at)), true);
        ret_lines[n] = (uint32_t)best;
    }
    return n;
}
