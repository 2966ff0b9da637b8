/*
 * Standard output: what could not be written is remembered here, and main turns it into the exit
 * status. So a command prints with printf() or output_write() and need not look at the result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Before anything is printed. */
void output_begin(void);

/* Writes to standard output, past stdio. Returns 0 or -errno, for a command that is to stop at
 * once. */
int output_write(const void *data, size_t n);

/* Hands on what stdio holds back, for output that a person watches. */
void output_flush(void);

/* Somebody else wrote to standard output, and could not. */
void output_failed(int code);

/* Could anything not be written so far? */
bool output_is_lost(void);

/* The exit status of the program whose command ended with `status`. */
int output_finish(int status);
