/*
 * One apply at a time per folder, and what a killed one left behind.
 *
 * The lock is on the folder itself, so it holds for all users. The journal is a file of the user's
 * runtime folder with at most one record: the step on the way. With it the next apply removes a
 * temporary file that is ours, or moves a file of the person's back that a step had set aside; it
 * never has to guess by a name.
 */
#pragma once

#include "error.h"
#include "identity.h"

struct apply_journal {
    int lock;
    int file; /* -1: there is none, and leftovers stay */
};

#define APPLY_JOURNAL_NONE ((struct apply_journal){.lock = -1, .file = -1})

/* Waits until no other apply works on the folder, then repairs what one that was killed left there.
 */
int apply_journal_open(struct apply_journal *j, int folder, struct error *err);
void apply_journal_close(struct apply_journal *j);

enum apply_step {
    APPLY_STEP_CREATE = 'C',   /* the file at `temp` is ours */
    APPLY_STEP_EXCHANGE = 'X', /* `temp` (ours) and `name` (theirs) are exchanged */
    APPLY_STEP_ASIDE = 'A',    /* `name` (theirs) is moved to `temp` and then removed */
};

/* Records a step before it is taken. `path` is the target's, `temp` the name in the same folder. */
void apply_journal_set(struct apply_journal *j, enum apply_step step, const char *path,
                       const char *temp, const struct identity *ours,
                       const struct identity *theirs);
void apply_journal_clear(struct apply_journal *j);
