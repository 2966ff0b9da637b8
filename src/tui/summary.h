/*
 * A call and its result in a few words each, on one line: `make test` · `exit 2`. For transcripts,
 * for line mode and for `hutch ask`, which all say it the same way.
 *
 * What is told comes from a model or a box: it is made one line here (blanks and line ends become
 * one blank), control characters are shown and not done (base/harmless.h), and it is cut to `width`
 * columns.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "buf.h"
#include "tool_result.h"

#define SUMMARY_TIME_MAX 16

/* What of the input says best what the call does: the command, the path, the pattern. Appends; 0 or
 * a negative errno of the buffer. */
int summary_of_call(const char *name, const json_t *input, size_t width, struct buf *out);

/* What came of it, if there is anything to say beside that it went well: `exit 2`, `12 passed, 1
 * failed`,
 * `+3 -1`, or why it failed. May append nothing. */
int summary_of_result(const char *name, const struct tool_result *r, size_t width, struct buf *out);

/* Is it bad news: did the call fail, or what it ran, or one of the tests? */
bool summary_is_bad(const struct tool_result *r);

/* `n` bytes of any kind as one harmless line of at most `width` columns, with … where something was
 * left out.
 */
int summary_line(const char *text, size_t n, size_t width, struct buf *out);

/* `0.3s`, `12s`, `3m05s`, `1h02m`. Returns `out`. */
const char *summary_time(double seconds, char out[SUMMARY_TIME_MAX]);

/* The width of one valid character in columns: 0 to 2. */
int summary_columns(const char *character, size_t n);
