/*
 * What hutch prints: data on standard output, messages to a person on standard error, and how wide
 * a terminal is.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"

/*
 * Standard output: what could not be written is remembered here, and main turns it into the exit
 * status. So a command prints with printf() or output_write() and need not look at the result.
 */

/* Before anything is printed. */
void output_begin(void);

/* Writes to standard output, past stdio. Returns 0 or -errno, for a command that is to stop at
 * once. */
int output_write(const void *data, size_t n);

/* Prints a JSON value (dump flags as jansson's) and a newline in one write, and releases it. NULL
 * is taken for a lack of memory, which is a failure to write, too. */
int output_json(json_t *value, size_t flags);

/* Hands on what stdio holds back, for output that a person watches. */
void output_flush(void);

/* Somebody else wrote to standard output, and could not. */
void output_failed(int code);

/* Could anything not be written so far? */
bool output_is_lost(void);

/* The exit status of the program whose command ended with `status`. */
int output_finish(int status);

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

/* 0 if fd is no terminal. */
unsigned columns_of(int fd);

/* How many bytes of a text fit into so many columns. */
size_t columns_fit(const char *text, unsigned columns);

/* Prints text on stdout that starts in column `at`, broken between words at the terminal's width
 * and indented as far. Where stdout is no terminal it is `otherwise` columns wide; 0: one line. */
void columns_put(const char *text, unsigned at, unsigned otherwise);
