/* What place.c shares with the two sets of rules. */
#pragma once

#include "match.h"

struct placer {
    const struct place_call *call;
    struct image
        *img; /* by git's rules it changes with every hunk; by patch's it stays what the file was */
    struct hunk_lines pattern;
    bool first; /* the hunk is the first of its file */
    enum place_why why;
    struct place_result result;
    size_t expected; /* line where the hunk before it ended */
    size_t lowest;  /* patch's rules: lines that were written out, which a hunk must stand behind */
    int64_t offset; /* patch's rules: of the hunk before */
    struct buf *out;
    bool on_new_line; /* what was written ends in a newline */
};

/* Places p->pattern. 1, or 0 with p->why if it has no place. */
int place_as_git(struct placer *p);
int place_as_patch(struct placer *p);

/* Patch's rules: the lines behind the last hunk. */
void place_copy_rest(struct placer *p);

/* Remembers what it took, if it was more than before. */
void place_note(struct placer *p, int64_t offset, unsigned fuzz);
