/*
 * A recipe is a sequence of steps, each led by one byte: 80 to fe begins a frame, whose type is the
 * next byte; 40 to 7f adds a number, 00 to 3f a string, to the frame, under the key in the lower
 * six bits.
 */
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "wire.h"
#include "banned.h"

struct recipe {
    const uint8_t *at, *end;
};

static uint8_t next(struct recipe *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

/* One byte says how many follow, so that small numbers are as likely as huge ones. */
static void add_number(struct recipe *r, struct buf *out, uint16_t key)
{
    uint64_t v = 0;
    for (unsigned n = next(r) & 7u; n > 0; n--)
        v = v << 8 | next(r);
    wire_put_u64(out, key, v);
}

static void add_string(struct recipe *r, struct buf *out, uint16_t key)
{
    size_t n = next(r), left = (size_t)(r->end - r->at);
    if (n > left)
        n = left;
    wire_put(out, key, r->at, n);
    r->at += n;
}

size_t compose_frames(const uint8_t *recipe, size_t n, struct buf *out)
{
    struct recipe r = {recipe, recipe + n};
    size_t begin = 0;
    bool open = false;
    while (r.at < r.end) {
        uint8_t step = next(&r);
        if (step >= 0x80 || !open) {
            if (open)
                wire_end(out, begin);
            open = step != COMPOSE_STOP;
            if (!open)
                break;
            begin = wire_begin(out, next(&r));
        } else if (step >= 0x40) {
            add_number(&r, out, step & 0x3f);
        } else {
            add_string(&r, out, step);
        }
    }
    if (open)
        wire_end(out, begin);
    return (size_t)(r.at - recipe);
}

void require(int held)
{
    if (!held)
        abort();
}
