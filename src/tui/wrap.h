/*
 * Text that flows into lines of a width. A flow is clean text with styles; what is too long for a
 * line goes on in the next, behind a margin.
 */
#pragma once

#include "line.h"

#define FLOW_MAX (8u << 20)

struct span {
    uint32_t end; /* of the flow's text */
    uint16_t style;
};

struct flow {
    struct buf text;
    struct span *spans;
    size_t count, cap;
};

#define FLOW_INIT ((struct flow){.text = BUF_INIT(FLOW_MAX)})

void flow_free(struct flow *f);
void flow_clear(struct flow *f); /* empty again, its memory kept */
#define _cleanup_flow_ _cleanup_(flow_free)

/* Without memory, or over the bound, text is left out. */
void flow_add(struct flow *f, unsigned style, const char *text, size_t n);
void flow_say(struct flow *f, unsigned style, const char *text);

/* What stands before the first line and before the others. */
struct margin {
    const char *first, *rest;
    unsigned first_style, rest_style;
};

/* By words: what is longer than a line is broken; wide characters may be parted from their
 * neighbours. `width` is without the margin. An empty flow gives no line. */
void wrap_words(const struct flow *f, const struct margin *m, int width, struct lines *out);

/* As it stands, with its blanks; tabs go to the next multiple of `tab`. An empty flow gives an
 * empty line. */
void wrap_exact(const struct flow *f, const struct margin *m, int width, int tab,
                struct lines *out);

/* As it stands, but one line only: what does not fit is left out and … says so; true then. */
bool wrap_one(const struct flow *f, const struct margin *m, int width, int tab, struct lines *out);
