/* How wide a terminal is, and text that fits into it. A column is a character here. */
#pragma once

#include <stddef.h>

/* 0 if fd is no terminal. */
unsigned columns_of(int fd);

/* How many bytes of a text fit into so many columns. */
size_t columns_fit(const char *text, unsigned columns);

/* A line on stdout that goes on in column `at`. On a terminal it is broken between words, and what
 * follows is indented as far; elsewhere it stays in one piece. */
void columns_put(const char *text, unsigned at);
