/* How wide a terminal is, and text that fits into it. A column is a character here. */
#pragma once

#include <stddef.h>

/* 0 if fd is no terminal. */
unsigned columns_of(int fd);

/* How many bytes of a text fit into so many columns. */
size_t columns_fit(const char *text, unsigned columns);

/* Prints text on stdout that starts in column `at`, broken between words at the terminal's width
 * and indented as far. Where stdout is no terminal it is `otherwise` columns wide; 0: one line. */
void columns_put(const char *text, unsigned at, unsigned otherwise);
