/* What a person sees of applying a box's changes: a line per path that was left alone, and a
 * summary. */
#pragma once

#include "tool_apply.h"

struct apply_tally {
    size_t done, same, merged, conflicts, refused, notes;
    /* "apply" or "sync" of this box, which can be given again with a choice; or NULL */
    const char *command;
    const char *id;
};

/* Says what becomes of each path, and counts it. */
struct tool_apply_options apply_tally_options(struct apply_tally *t);
void apply_summary(const struct apply_tally *t);

/* Applies files and commits and says what became of them. `disk` may be 0 (tool_apply.h). Returns
 * the number of files and repositories that were left alone, or a negative errno. */
int show_apply(struct box *box, const struct apply_options *files, uint64_t disk,
               struct error *err);
