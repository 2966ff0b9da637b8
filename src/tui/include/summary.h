/*
 * What happened, in a few words on one line: `make test` · `exit 2`. The chat on the screen, the
 * chat line by line and `hutch ask` all use the same words.
 *
 * The text comes from a model or a box. Here it becomes one line (blanks and newlines become one
 * blank), control characters become visible (harmless.h), and it is cut to `width` columns. All
 * functions append to `out` and return 0 or a negative errno of the buffer.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "event.h"
#include "text.h"

/* What the call does: its command, path or pattern. */
int summary_of_call(const char *name, const json_t *input, size_t width, struct buf *out);

/* The outcome, if there is more to say than that it succeeded: `exit 2`, `12 passed, 1 failed`, `+3
 * −1`, or why it failed. May append nothing. */
int summary_of_result(const char *name, const struct tool_result *r, size_t width, struct buf *out);

/* How a tool's calls are shown; of an unknown tool, in a general form. */
const struct tool_view *summary_view(const char *name);

/* Did the call fail, or the command that it ran, or one of the tests? */
bool summary_is_bad(const struct tool_result *r);

/* `3 files, +41 −2`, `commits` or `nothing`. */
int summary_of_changes(const struct agent_changes *c, struct buf *out);

/* `3 files changed, +41 −2`, then a line per file: `M path  +1 −2`. Of many files the first ones.
 */
int summary_list_changes(const struct agent_changes *c, struct buf *out);

/* Any bytes as one line, with … where something was cut. */
int summary_line(const char *text, size_t n, size_t width, struct buf *out);

/* `12,345` */
int summary_number(uint64_t n, struct buf *out);

/* `0.3s`, `12s`, `3m05s`, `1h02m`. Returns `out`. */
#define SUMMARY_TIME_MAX 16
const char *summary_time(double seconds, char out[SUMMARY_TIME_MAX]);
