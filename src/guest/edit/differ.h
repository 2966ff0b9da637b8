/*
 * What differs between two texts that are the same once folded (fold.h), in words.
 *
 * Both are walked side by side: what is not seen (blanks, line breaks, invisible characters) as one
 * run between two characters, what is seen character by character. Each kind of difference is told
 * once, with the first line where it is.
 */
#pragma once

#include "buf.h"
#include "bytes.h"

enum differ_kind {
    DIFFER_INDENT,   /* blanks at the start of a line */
    DIFFER_TRAILING, /* at its end */
    DIFFER_INNER,    /* within it */
    DIFFER_BREAKS,   /* more or fewer line breaks */
    DIFFER_ENDINGS,  /* CRLF and LF */
    DIFFER_ODD_BLANK,
    DIFFER_INVISIBLE,
    DIFFER_QUOTE,
    DIFFER_DASH,
    DIFFER_FORM,
    DIFFER_CASE,
    DIFFER_KINDS,
};

struct differ_finding {
    uint64_t count, line;   /* how often, and where first */
    struct bytes old, file; /* what each has there */
};

struct differ {
    struct differ_finding found[DIFFER_KINDS];
    /* Of the lines after the first: is the one side's indentation that of the other and always the
     * same more? */
    uint64_t indents;   /* lines compared */
    bool uniform;       /* so far */
    bool file_has_more; /* else `old` has */
    struct bytes more;
};

/* `file` lies in line `line` of its text. */
void differ_find(struct bytes old, struct bytes file, uint64_t line, struct differ *ret);

/* A line "- indentation: …" for each kind that was found. */
void differ_say(const struct differ *d, struct buf *out);
