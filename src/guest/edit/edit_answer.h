/* The RESULT of an EDIT, made or refused. */
#pragma once

#include "explain.h"
#include "file.h"

struct edit_done {
    size_t count;      /* edits asked for */
    size_t failed;     /* the one that could not be made, from 1 */
    uint64_t replaced; /* places, of all edits */
    bool endings;      /* line endings were taken as the file has them */
    struct match match;
    struct explain_place place;
    struct buf why;
};

/* Composes the RESULT that says what was changed, with the diff in DATA frames before it. */
int edit_answer_done(struct file_call *c, const struct edit_done *d, struct bytes before,
                     struct bytes after);

/* Composes the RESULT of a refusal: r is -ENOENT, -ENOTUNIQ, -EBUSY or -ETXTBSY. */
int edit_answer_refused(struct file_call *c, struct edit_done *d, int r);
