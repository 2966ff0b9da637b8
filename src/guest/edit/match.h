/*
 * One edit of a text: where the old text is, and the text with the new in its place.
 *
 * Bytes are compared as they are. The one exception are line endings: where `old` occurs only if
 * its lines end as those of the text do, it is taken so, and `new` gets the same endings. And what
 * is put into a text whose lines all end with CRLF gets lines that do.
 */
#pragma once

#include "buf.h"
#include "bytes.h"

#define MATCH_TEXT_MAX (64u << 20) /* bytes of a text before and after */
#define MATCH_SHOWN    20          /* places that are told */

struct edit {
    struct bytes old, new;
    bool all; /* every place, not the only one */
};

struct match {
    uint64_t count;             /* places found; all of them were replaced if that was allowed */
    uint64_t line[MATCH_SHOWN]; /* where the first of them begin, from 1 */
    bool endings;               /* line endings were taken as the text has them */
};

/* Appends the edited text to `out`. 0; -ENOENT: there is no such place; -ENOTUNIQ: there are
 * several, told in ret; -E2BIG: the text would become too large; -ENOMEM. */
int match_apply(struct bytes text, const struct edit *e, struct buf *out, struct match *ret);

/* Appends a text with all its lines ending alike. */
void match_put_endings(struct buf *out, struct bytes s, bool crlf);
