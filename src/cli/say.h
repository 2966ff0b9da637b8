/* What hutch says to a person: single lines on stderr that begin with `hutch: `, and whether colour
 * is welcome. */
#pragma once

#include <stdbool.h>

#include "error.h"

/* Exit statuses of hutch itself. */
#define EXIT_USAGE 2
#define EXIT_HUTCH 125

/* One line on stderr. Control characters (of a file's name, say) are made harmless, so that it
 * stays one line. */
void say(const char *fmt, ...) PRINTF(1, 2);

/* The same for each line of a text of hutch's own. */
void say_lines(const char *text);

/* The same, returning the exit status that goes with it. */
int say_usage(const struct error *err);
int say_failure(const struct error *err);

/* A name that comes from a box or a command line, with control characters and what is not UTF-8
 * shown as \xNN; cut to fit. Returns `out`. */
const char *say_clean(const char *text, char *out, size_t size);

/* Is fd a terminal, and did nobody ask for no colours? */
bool say_colours(int fd);
